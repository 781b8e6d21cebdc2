"""How an object is found: its size, when it was written, and what is another once it is changed."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

_IDENTITIES: Final = (("generation", "generation"), ("ETag", "ETag"), ("etag", "ETag"), ("blob_id", "blob"))
"""Where drivers have what stands for the content of an object, and what that is called."""

_TIMES: Final = ("LastModified", "last_modified", "updated", "mtime", "created")


class ObjectState(msgspec.Struct, frozen=True, kw_only=True):
    """An object as it was found."""

    size: int | None
    """None where nobody says."""

    identity: str
    """Another text once the object is another; empty where nothing tells."""

    modified_ns: int = 0
    """When it was written, in nanoseconds UTC; 0 where nobody says."""

    @property
    def st_size(self) -> int:
        """As `os.stat` has it."""
        return self.size or 0

    @property
    def st_mtime_ns(self) -> int:
        """As `os.stat` has it."""
        return self.modified_ns

    def is_same(self, other: "ObjectState") -> bool:
        """Whether both are of the same content, as far as can be told."""
        is_size = None in (self.size, other.size) or self.size == other.size
        return is_size and (not (self.identity and other.identity) or self.identity == other.identity)


def state_by_info(info: Mapping[str, Any]) -> ObjectState:
    """What a driver says of an object."""
    at = next((info[name] for name in _TIMES if info.get(name)), None)
    size = info.get("size")
    named = next((f"{word} {info[name]}" for name, word in _IDENTITIES if info.get(name)), None)
    return ObjectState(size=size, identity=named or f"{size} bytes of {at}", modified_ns=_nanoseconds(at))


def _nanoseconds(at: Any) -> int:
    if isinstance(at, str):
        try:
            at = datetime.fromisoformat(at)
        except ValueError:
            return 0
    if not isinstance(at, datetime):
        return 0
    return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1e6) * 1_000
