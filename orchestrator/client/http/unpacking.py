"""Answers that came packed (`Content-Encoding`), unpacked a little at a time, so that a bomb does no harm.

We ask for no encoding, and some proxies answer with one all the same. A thousandth of what a bomb holds is enough to
send it, so nothing is unpacked but what its reader then asks for: a piece comes out whole or not at all, and whoever
counts the bytes stops before the next one.
"""

import sys
import zlib
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from orchestrator.errors import Unanswered

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

PIECE_BYTES: Final = 64 * 1024
"""No more comes out at a time."""

ENCODINGS_MAX: Final = 4
"""Nobody packs an answer more often than that."""

WINDOW_LOG_MAX: Final = 23
"""zstd keeps so much of what it has unpacked (8 MB) to refer to: what packs for HTTP asks for no more (RFC 9659)."""

_AS_IT_IS: Final = frozenset(("", "identity"))
_GZIP: Final = zlib.MAX_WBITS | 16
_RAW: Final = -zlib.MAX_WBITS


def decompressed(pieces: AsyncIterable[bytes], headers: Mapping[str, str]) -> AsyncIterable[bytes]:
    """The body whose `pieces` come, as it was meant by its `headers`.

    Reading it raises `Unanswered` where it cannot be unpacked, or ends too early.
    """
    names = [name.strip().lower() for name in headers.get("content-encoding", "").split(",")]
    packed = [name for name in names if name not in _AS_IT_IS]
    return _through(pieces, packed) if packed else pieces


async def _through(pieces: AsyncIterable[bytes], names: Sequence[str]) -> AsyncIterator[bytes]:
    if len(names) > ENCODINGS_MAX:
        raise Unanswered(f"the answer is packed {len(names)} times over")
    unpackers = [_unpacker(name) for name in reversed(names)]
    async for piece in pieces:
        for part in _parts(unpackers, piece):
            yield part
    if any(unpacker.is_within for unpacker in unpackers):
        raise Unanswered("the answer ended in the middle of what was packed")


def _parts(unpackers: "Sequence[_Unpacker]", piece: bytes) -> Iterator[bytes]:
    """What `piece` comes to, each encoding unpacked as the one behind it asks."""
    if not unpackers:
        yield piece
        return
    for part in unpackers[0].parts(piece):
        yield from _parts(unpackers[1:], part)


class _Unpacker:
    """One encoding. An answer may be several whole ones behind each other."""

    def __init__(self, name: str, begin: Callable[[], Any]) -> None:
        self._name = name
        self._begin = begin
        self._decompressor: Any = None

    @property
    def is_within(self) -> bool:
        """Whether more has to come."""
        return self._decompressor is not None

    def parts(self, packed: bytes) -> Iterator[bytes]:
        while packed or self.is_within:
            if self._decompressor is None:
                self._decompressor = self._begin()
            out, packed, is_over = self._step(packed)
            if out:
                yield out
            elif not is_over:
                return  # it has taken all, and needs more
            if is_over:
                self._decompressor = None

    def _step(self, packed: bytes) -> tuple[bytes, bytes, bool]:
        """A little more of what is packed, what of that is left, and whether that was the end of it."""
        decompressor = self._decompressor
        try:
            out: bytes = decompressor.decompress(packed, PIECE_BYTES)
        except (zlib.error, zstd.ZstdError) as error:
            raise Unanswered(f"the answer cannot be unpacked ({self._name}): {error}") from None
        if decompressor.eof:
            return out, decompressor.unused_data, True
        return out, getattr(decompressor, "unconsumed_tail", b""), False  # zstd keeps what it has not come to


def _unpacker(name: str) -> _Unpacker:
    begin = _BEGIN.get(name)
    if begin is None:
        raise Unanswered(f"the answer is packed in a way that nobody asked for ({name[:40]})")
    return _Unpacker(name, begin)


class _Deflate:
    """As it is defined, within zlib's frame; or as some send it, bare. Its first two bytes tell."""

    def __init__(self) -> None:
        self._start = b""
        self._inner: Any = None
        self.eof = False
        self.unused_data = self.unconsumed_tail = b""

    def decompress(self, packed: bytes, most: int) -> bytes:
        if self._inner is None:
            packed, self._start = self._start + packed, b""
            if len(packed) < 2:  # noqa: PLR2004  too few to tell
                self._start, self.unconsumed_tail = packed, b""
                return b""
            is_framed = packed[0] & 0x0F == zlib.DEFLATED and int.from_bytes(packed[:2]) % 31 == 0
            self._inner = zlib.decompressobj(zlib.MAX_WBITS if is_framed else _RAW)
        out: bytes = self._inner.decompress(packed, most)
        self.eof, self.unused_data = self._inner.eof, self._inner.unused_data
        self.unconsumed_tail = self._inner.unconsumed_tail
        return out


_BEGIN: Final[Mapping[str, Callable[[], Any]]] = {
    "gzip": lambda: zlib.decompressobj(_GZIP),
    "x-gzip": lambda: zlib.decompressobj(_GZIP),
    "deflate": _Deflate,
    "zstd": lambda: zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: WINDOW_LOG_MAX}),
}
