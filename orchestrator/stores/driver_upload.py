"""Objects as fsspec's drivers write them: they appear when their file is closed."""

from contextlib import suppress
from typing import Any

from orchestrator.stores.object_state import ObjectState
from orchestrator.stores.store_errors import store_error_of
from orchestrator.units import MIB

BLOCK_BYTES = 16 * MIB


class DriverUpload:
    """The coming object at `url`. All of it raises `StoreError`. What is left of one that is not completed its store
    drops by itself, within a week.
    """

    def __init__(self, url: str, filesystem: Any, before: ObjectState | None) -> None:
        self._url = url
        self._filesystem = filesystem
        self._mode = "xb" if before is None else "wb"
        """With the first, the store itself sees to it that nothing is replaced."""

        self._file: Any = None

    @property
    def has_begun(self) -> bool:
        """Whether some of it is on its way."""
        return self._file is not None

    def add(self, part: bytes) -> None:
        """Some more of it."""
        try:
            if self._file is None:
                self._file = self._filesystem.open(self._url, self._mode, block_size=BLOCK_BYTES)
            self._file.write(part)
        except Exception as error:
            raise store_error_of(error) from error

    def complete(self, rest: bytes) -> None:
        """Has the object appear."""
        self.add(rest)
        try:
            self._file.close()
        except Exception as error:
            raise store_error_of(error) from error
        self._file = None

    def abort(self) -> None:
        """It never appears."""
        if self._file is not None:
            with suppress(Exception):
                self._file.discard()
            with suppress(Exception):
                self._file.closed = True  # else what is left of it is written when it is forgotten
        self._file = None
