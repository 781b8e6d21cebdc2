"""Answers that came packed: what they hold, and how little of a bomb is unpacked."""

import gzip
import sys
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.client.http.unpacking import PIECE_BYTES, decompressed
from orchestrator.errors import Unanswered

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

pytestmark = pytest.mark.anyio


def deflated(data: bytes) -> bytes:
    """Bare, as some servers send it, without zlib's frame."""
    packing = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packing.compress(data) + packing.flush()


PACKERS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", lambda data: gzip.compress(data, 1)),
    "x-gzip": ("X-GZIP", lambda data: gzip.compress(data, 1)),
    "deflate": ("deflate", zlib.compress),
    "bare deflate": ("deflate", deflated),
    "zstd": ("zstd", zstd.compress),
    "identity": ("identity", lambda data: data),
}
every_packer = pytest.mark.parametrize("name", PACKERS)


async def coming(data: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


async def pieces_of(packed: bytes, encoding: str, size: int = 1 << 16) -> list[bytes]:
    return [piece async for piece in decompressed(coming(packed, size), {"content-encoding": encoding})]


@every_packer
@pytest.mark.parametrize("size", [1, 7, 1 << 16])
async def test_a_body_is_what_it_was_before_it_was_packed(name: str, size: int) -> None:
    encoding, pack = PACKERS[name]
    data = b"some " * 500 + b"words"
    assert b"".join(await pieces_of(pack(data), encoding, size)) == data
    assert b"".join(await pieces_of(pack(b""), encoding, size)) == b""


@pytest.mark.parametrize("name", ["gzip", "zstd", "deflate"])
async def test_several_that_are_packed_behind_each_other_are_one_body(name: str) -> None:
    encoding, pack = PACKERS[name]
    assert b"".join(await pieces_of(pack(b"one") + pack(b"two"), encoding, 5)) == b"onetwo"


@given(st.binary(max_size=300), st.integers(1, 50))
async def test_whatever_is_packed_twice_comes_out_whole(data: bytes, size: int) -> None:
    packed = zstd.compress(gzip.compress(data, 1))
    assert b"".join(await pieces_of(packed, "gzip, zstd", size)) == data


@pytest.mark.parametrize("name", ["gzip", "deflate", "bare deflate", "zstd"])
async def test_of_a_bomb_no_more_is_unpacked_than_is_asked_for(name: str) -> None:
    encoding, pack = PACKERS[name]
    packed = pack(bytes(30_000_000))
    tracemalloc.start()
    pieces = aiter(decompressed(coming(packed, len(packed)), {"content-encoding": encoding}))
    taken = [await anext(pieces) for _ in range(3)]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 0 < max(map(len, taken)) <= PIECE_BYTES
    assert peak < 1_000_000


@pytest.mark.parametrize("name", ["gzip", "deflate", "bare deflate", "zstd"])
async def test_what_ends_too_early_or_is_damaged_is_no_answer(name: str) -> None:
    encoding, pack = PACKERS[name]
    packed = pack(b"".join(b"%d," % n for n in range(1000)))
    with pytest.raises(Unanswered, match="ended in the middle of what was packed"):
        await pieces_of(packed[:-9], encoding)
    with pytest.raises(Unanswered, match=r"cannot be unpacked|ended in the middle"):
        await pieces_of(b"\xff" * 20 + packed[20:], encoding)


@pytest.mark.parametrize(
    ("encoding", "told"),
    [
        ("br", "packed in a way that nobody asked for (br)"),
        ("gzip, compress", "nobody asked for (compress)"),
        (", ".join(["gzip"] * 5), "packed 5 times over"),
    ],
)
async def test_what_nobody_here_can_unpack_in_pieces_is_no_answer(encoding: str, told: str) -> None:
    with pytest.raises(Unanswered) as caught:
        await pieces_of(b"\x00\x01", encoding)
    assert told in str(caught.value)


async def test_a_window_that_takes_much_memory_is_refused() -> None:
    options: dict[int, int] = {zstd.CompressionParameter.window_log: 27}
    packing = zstd.ZstdCompressor(options=options)
    packed = packing.compress(b"x" * 100) + packing.flush()
    with pytest.raises(Unanswered, match="cannot be unpacked"):
        await pieces_of(packed, "zstd")
