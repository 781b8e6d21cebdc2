"""What a webhook told us, and the token in its URL (a MAC) by which we know that it may speak.

The service signs nothing, so each submission gets a webhook URL of its own: `.../hooks/{submission}.{mac}`. The mac is
an HMAC-SHA256 of the submission's number under a key that lives beside the ledger; nobody who lacks the key can name
a submission.
"""

import functools
import hashlib
import hmac
import re
from typing import Final, Protocol, TypeAlias

import msgspec

from orchestrator.core.service.job_record import Record

HOOKS_PATH: Final = "/hooks/"
"""The path under which the listener takes webhooks; a token follows."""

KEY_BYTES: Final = 32
MAC_BYTES: Final = 16
"""128 bits: beyond guessing, and the URL stays short."""

TOKEN_CHARS_MAX: Final = 51
"""The longest token: 18 digits, a dot and 32 hex digits."""

SELF_TESTS: Final = range(9 * 10**17, 10**18)
"""The numbers of tests whether the listener is reached. A submission's number is a time: such a one is far away."""

_TOKEN: Final = re.compile(r"([0-9]{1,18})\.([0-9a-f]{32})")


NoticeKey: TypeAlias = tuple[int, str]
"""A submission, and what was told of it; "" for a hint."""


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """One webhook with a valid token. `record` is None when its body was unusable: then it is only a hint.

    `received_at` is in microseconds UTC.
    """

    submission: int
    received_at: int
    record: Record | None

    @property
    def key(self) -> NoticeKey:
        """What tells it from every other one: whatever has the same says the same."""
        return self.submission, "" if self.record is None else self.record.status

    @property
    def bytes(self) -> int:
        """Those of its output."""
        return 0 if self.record is None else len(self.record.output or b"")


class NoticeSink(Protocol):
    """Where the listener leaves what it was told."""

    async def note(self, notice: Notice) -> None:
        """Makes `notice` durable; raises `StorageError` when it could not be."""


def token(key: bytes, submission: int) -> str:
    """The token of `submission` under `key`: `{submission}.{mac}`, 34-51 characters of digits, a dot and hex."""
    return f"{submission}.{_mac(key, submission)}"


def hook_url(base: str, text: str) -> str:
    """The webhook URL of the submission whose token is `text`, under `base`, a URL without a slash at its end."""
    return f"{base}{HOOKS_PATH}{text}"


def submission_of(key: bytes, text: str) -> int | None:
    """The submission that `text` is the token of, or None; compares in constant time."""
    match = _TOKEN.fullmatch(text)
    if match is None:
        return None
    submission = int(match[1])
    if not hmac.compare_digest(token(key, submission), text):
        return None
    return submission


def self_test_answer(key: bytes, number: int) -> str:
    """What the listener answers to the token of a self-test: only who has the key can, whatever else answers 200."""
    return _mac(key, f"answer {number}")


def _mac(key: bytes, what: object) -> str:
    mac = _keyed(key).copy()
    mac.update(str(what).encode())
    return mac.digest()[:MAC_BYTES].hex()


@functools.lru_cache(maxsize=4)
def _keyed(key: bytes) -> hmac.HMAC:
    """Made once for each key: to begin anew for each token costs twice as much as its end."""
    return hmac.new(key, digestmod=hashlib.sha256)
