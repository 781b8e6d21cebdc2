"""Chunks over the limit are split (as observed)."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.emulator.jobs.streams import CHUNK_BYTES_MAX, Streams, split


def test_a_chunk_of_the_longest_length_stays_whole() -> None:
    raw = msgspec.json.encode("x" * (CHUNK_BYTES_MAX - 2))
    assert (len(raw), list(split(raw))) == (CHUNK_BYTES_MAX, [raw])


@pytest.mark.slow
@given(st.text(alphabet='ab"é\u0000😀', min_size=1, max_size=9))
def test_a_longer_text_is_split_into_texts_that_make_it_up(pattern: str) -> None:
    text = pattern * (CHUNK_BYTES_MAX // len(pattern.encode()) + 1)
    parts = list(split(msgspec.json.encode(text)))
    assert "".join(msgspec.json.decode(part, type=str) for part in parts) == text
    assert all(len(part) <= CHUNK_BYTES_MAX for part in parts)


@pytest.mark.parametrize("opening", [b'{"a":"', b'"\\ud800'], ids=["an object", "a text that cannot be decoded"])
def test_anything_else_is_split_into_texts_that_make_up_its_json(opening: bytes) -> None:
    raw = opening + b"x" * CHUNK_BYTES_MAX + (b'"}' if opening.startswith(b"{") else b'"')
    streams = Streams()
    streams.put("job", raw)
    chunks = streams.drain("job")
    assert "".join(msgspec.json.decode(chunk.output, type=str) for chunk in chunks) == raw.decode()
    assert len(chunks) == 2
    assert streams.drain("job") == ()
