"""Compressed files (gzip, zstd ...): read by their first bytes, whatever they are called, written by their names."""

import gzip
import io
import sys
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from typing_extensions import Buffer

GZIP: Final = b"\x1f\x8b"
ZSTD: Final = b"\x28\xb5\x2f\xfd"
SUFFIXES: Final = (".gz", ".zst", ".zstd")

READ_BYTES: Final = 256 * 1024


class DamagedInputError(Exception):
    """From some place on an input cannot be read, or holds more than it may. The message says which."""


class Readable(Protocol):
    """What bytes are read from."""

    def read1(self, size: int, /) -> bytes:
        """Up to `size` bytes, as many as are there: a pipe may be slow; none at the end."""
        ...


def unpacked_stream(stream: io.BufferedReader, *, bytes_max: int) -> io.BufferedReader:
    """`stream`, unpacked where it is gzip or zstd, in one part or several.

    Reading it raises `DamagedInputError` behind `bytes_max` bytes, and where it cannot be unpacked.
    """
    start = stream.peek(len(ZSTD))
    source: Readable = stream
    if start.startswith(GZIP):
        source = gzip.GzipFile(fileobj=stream, mode="rb")
    elif start.startswith(ZSTD):
        source = zstd.ZstdFile(stream)
    return io.BufferedReader(_Bounded(source, bytes_max), READ_BYTES)


def is_compressed(start: bytes) -> bool:
    """Whether a file that begins so is compressed."""
    return start.startswith((GZIP, ZSTD))


class _Bounded(io.RawIOBase):
    """What `source` holds, up to a bound; whatever unpacks it, its errors are one."""

    def __init__(self, source: Readable, bytes_max: int) -> None:
        self._source = source
        self._left = bytes_max
        self._bytes_max = bytes_max

    def readable(self) -> bool:
        return True

    def readinto(self, into: memoryview) -> int:  # type: ignore[override]  # BufferedReader hands over nothing else
        try:
            data = self._source.read1(len(into))
        except (EOFError, zlib.error, gzip.BadGzipFile, zstd.ZstdError) as error:
            raise DamagedInputError(f"from here on it cannot be unpacked: {error}") from error
        self._left -= len(data)
        if self._left < 0:
            raise DamagedInputError(f"the input holds more than {self._bytes_max:,} bytes")
        into[: len(data)] = data
        return len(data)


class Sink(io.RawIOBase):
    """A file to write to that hands everything to `put`, which its closing ends."""

    def __init__(self, put: Callable[[bytes], object]) -> None:
        self._put = put
        self._bytes = 0

    def writable(self) -> bool:
        return True

    def write(self, data: "Buffer", /) -> int:
        taken = bytes(data)
        self._put(taken)
        self._bytes += len(taken)
        return len(taken)

    def tell(self) -> int:
        return self._bytes


class Packer(Protocol):
    """What packs bytes; closing it writes the end, and closes nothing else."""

    def write(self, data: bytes, /) -> object:
        """Packs some."""
        ...

    def close(self) -> None:
        """Nothing comes after."""
        ...


def packer(name: str, put: Callable[[bytes], object]) -> Packer | None:
    """What packs for a file of that name; None where it is not to be packed. The same bytes become the same file."""
    suffix = name[len(bare_name(name)) :].lower()
    match suffix:
        case "":
            return None
        case ".gz":
            return gzip.GzipFile("", "wb", fileobj=Sink(put), mtime=0, compresslevel=6)
        case _:
            return zstd.ZstdFile(Sink(put), "w")


def bare_name(name: str) -> str:
    """A file's name without the suffix of its compression."""
    for suffix in SUFFIXES:
        if name.lower().endswith(suffix):
            return name[: -len(suffix)]
    return name
