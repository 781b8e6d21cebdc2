"""What generators have put out and nobody has fetched yet.

`/stream` drains: a chunk is given out once, to whoever asks first (as observed).
"""

import msgspec


class Chunk(msgspec.Struct, frozen=True):
    """One yield of a handler, as JSON."""

    output: msgspec.Raw


class Streams:
    """Chunks by job. A job without chunks takes no room."""

    def __init__(self) -> None:
        self._chunks: dict[str, list[Chunk]] = {}

    def put(self, job_id: str, raw: bytes) -> None:
        self._chunks.setdefault(job_id, []).append(Chunk(msgspec.Raw(raw)))

    def has(self, job_id: str) -> bool:
        return job_id in self._chunks

    def drain(self, job_id: str) -> tuple[Chunk, ...]:
        """The chunks since the previous call."""
        return tuple(self._chunks.pop(job_id, ()))

    def drop(self, job_id: str) -> None:
        self._chunks.pop(job_id, None)
