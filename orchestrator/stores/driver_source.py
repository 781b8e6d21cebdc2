"""Objects as fsspec's drivers read them: in blocks, by ranges."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from orchestrator.stores.object_state import ObjectState, state_by_info
from orchestrator.stores.store_errors import changed, not_there, store_error_of
from orchestrator.units import MIB

BLOCK_BYTES: Final = 8 * MIB
"""So much is asked for at once."""


class DriverSource:
    """One object of a store. Some drivers have each range on condition that the object is still the same (If-Match, a
    generation); of all it is looked at once more behind the last byte.
    """

    def __init__(self, url: str, filesystem: Any) -> None:
        self.url = url
        self._filesystem = filesystem
        self._found: ObjectState | None = None
        self._file: Any = None

    def state(self) -> ObjectState:
        if self._found is None:
            try:
                self._filesystem.invalidate_cache()
                self._file = self._filesystem.open(self.url, "rb", block_size=BLOCK_BYTES, cache_type="readahead")
                info = getattr(self._file, "details", None) or self._filesystem.info(self.url)  # most have just asked
            except Exception as error:
                raise store_error_of(error) from error
            self._found = _state_of(info)
        return self._found

    def read(self, at: int, most: int) -> bytes:
        first = self.state()
        try:
            self._file.seek(at)
            data: bytes = self._file.read(most)
        except Exception as error:
            raise store_error_of(error) from error
        if not data and not driver_state(self._filesystem, self.url).is_same(first):
            raise changed()
        return data

    def close(self) -> None:
        if self._file is not None:
            with suppress(Exception):
                self._file.close()
            self._file = None


def driver_state(filesystem: Any, url: str) -> ObjectState:
    """How an object is found now. Raises `StoreError`."""
    try:
        filesystem.invalidate_cache()  # not every driver can be told to keep nothing of what it was answered
        info = filesystem.info(url)
    except Exception as error:
        raise store_error_of(error) from error
    return _state_of(info)


def _state_of(info: Mapping[str, Any]) -> ObjectState:
    if info.get("type") == "directory":
        raise not_there()
    return state_by_info(info)
