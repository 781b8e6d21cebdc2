"""What generators have put out and nobody has fetched yet by `/stream`.

`/stream` drains: a chunk is given out once, to whoever asks first. A chunk has at most 1 MB, and longer ones are split
(as observed). Into what is not known: here a text is split into texts that make it up, and any other value into texts
that make up its JSON.
"""

from collections.abc import Iterator

import msgspec

from orchestrator.units import MIB

CHUNK_BYTES_MAX = MIB
"""The longest chunk, as JSON."""


class StreamedChunk(msgspec.Struct, frozen=True):
    """One yield of a handler, as JSON."""

    output: msgspec.Raw


class Streams:
    """Chunks by job. A job without chunks takes no room."""

    def __init__(self) -> None:
        self._chunks: dict[str, list[StreamedChunk]] = {}

    def put(self, job_id: str, raw: bytes) -> None:
        self._chunks.setdefault(job_id, []).extend(StreamedChunk(msgspec.Raw(part)) for part in split(raw))

    def drain(self, job_id: str) -> tuple[StreamedChunk, ...]:
        """The chunks since the previous call."""
        return tuple(self._chunks.pop(job_id, ()))

    def drop(self, job_id: str) -> None:
        self._chunks.pop(job_id, None)


def split(raw: bytes) -> Iterator[bytes]:
    """The chunks, as JSON, that one yield of a handler makes, as JSON."""
    if len(raw) <= CHUNK_BYTES_MAX:
        yield raw
        return
    try:
        text = msgspec.json.decode(raw, type=str)
    except msgspec.DecodeError:  # another value, or a text that only a lax decoder would take
        text = raw.decode()
    yield from _parts(text)


def _parts(text: str) -> Iterator[bytes]:
    """Halved until it fits: how long a text is as JSON is only known once it is."""
    raw = msgspec.json.encode(text)
    if len(raw) <= CHUNK_BYTES_MAX:
        yield raw
        return
    middle = len(text) // 2
    yield from _parts(text[:middle])
    yield from _parts(text[middle:])
