"""An object as a stream that can be sought in: where the connection breaks, reading goes on at that byte.

What was changed meanwhile, or ends before its end, is an error and never the end of the data.
"""

import io
import time
from collections.abc import Callable
from typing import Final, Protocol

from orchestrator.core.text.object_urls import shown_url
from orchestrator.stores.object_state import ObjectState
from orchestrator.stores.repeats import repeating
from orchestrator.stores.store_errors import broken
from orchestrator.units import MIB

BUFFER_BYTES: Final = MIB


class RangeSource(Protocol):
    """The bytes of one object. All of it raises `StoreError`."""

    @property
    def url(self) -> str:
        """Where it is."""
        ...

    def state(self) -> ObjectState:
        """How the object was found at first."""
        ...

    def read(self, at: int, most: int) -> bytes:
        """Some of the bytes from `at` on, `most` at the most; none behind the last. Raises where the object is another
        by now.
        """
        ...

    def close(self) -> None:
        """Nothing is read any more."""
        ...


class RangedReader(io.RawIOBase):
    """What `source` holds."""

    def __init__(self, source: RangeSource, sleep: Callable[[float], None] = time.sleep) -> None:
        self._source = source
        self._retrying = repeating(shown_url(source.url), sleep)
        self._at = 0
        self.state = self._retrying(source.state)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self.state.size is not None

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        if whence == io.SEEK_END and self.state.size is None:
            raise io.UnsupportedOperation("nobody says how long it is")
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at}.get(whence, self.state.size or 0)
        self._at = max(base + offset, 0)
        return self._at

    def readinto(self, into: memoryview) -> int:  # type: ignore[override]  # BufferedReader hands over nothing else
        if self.state.size is not None and self._at > self.state.size:
            return 0
        data = self._retrying(self._read, len(into))
        into[: len(data)] = data
        self._at += len(data)
        return len(data)

    def _read(self, most: int) -> bytes:
        data = self._source.read(self._at, most)
        if not data and most and self.state.size is not None and self._at < self.state.size:
            raise broken(f"it ends behind {self._at:,} of its {self.state.size:,} bytes")
        return data

    def close(self) -> None:
        if not self.closed:
            self._source.close()
        super().close()


def opened(source: RangeSource, sleep: Callable[[float], None] = time.sleep) -> io.BufferedReader:
    """The stream of `source`. Raises `StoreError`."""
    try:
        return io.BufferedReader(RangedReader(source, sleep), BUFFER_BYTES)
    except BaseException:
        source.close()
        raise
