"""Results that are taken again instead of paid for twice: which inputs are the same (the key of the cache), and which
earlier result will do.
"""

import hashlib
from collections.abc import Sequence
from typing import Final

import msgspec

from orchestrator.core.text.durations import format_duration
from orchestrator.core.text.local_time import local

REUSED: Final = "reused"
"""The run's counter of jobs that have the result of another one."""

NOTHING_YET: Final = "there is no result of the same input, endpoint and reuse-version"
DAMAGED: Final = "the result that it would have cannot be read any more"


class Reuse(msgspec.Struct, frozen=True, kw_only=True):
    """That a run takes results again."""

    young_us: int
    """A result is taken for so long after its job ended."""

    version: str = ""


def with_saved_members(reuse: Reuse | None, members: Sequence[str]) -> Reuse | None:
    """`reuse` of a run that makes files of these members: results of others have something else in their places."""
    if reuse is None or not members:
        return reuse
    return msgspec.structs.replace(reuse, version=f"{reuse.version}\0{' '.join(members)}")


def reuse_key(service_url: str, endpoint: str, digest: bytes, version: str) -> str:
    """What jobs have in common that can have the same result: `digest` is that of the canonical input. Hexadecimal.

    Each part comes with its length, so that no two of other parts read the same.
    """
    key = hashlib.sha256()
    for part in (service_url.encode(), endpoint.encode(), digest, version.encode()):
        key.update(b"%d:%b" % (len(part), part))
    return key.hexdigest()


def why_not(reuse: Reuse, ended_at: int | None, now: int) -> str | None:
    """Why the newest result of a key, whose job ended at `ended_at`, is not taken again; None where it is.

    Without a time there is no result.
    """
    if ended_at is None:
        return NOTHING_YET
    if now - ended_at > reuse.young_us:
        return f"the latest result is of {local(ended_at, 'UTC')}, older than {format_duration(reuse.young_us)}"
    return None
