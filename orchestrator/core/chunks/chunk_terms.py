"""Which rows travel together: how many, and how much."""

from collections.abc import Callable, Hashable, Iterable
from typing import Final, Self, TypeVar

import msgspec

ROWS_MAX: Final = 1_000
"""The most rows of a chunk: they are claimed, and come to their ends, in one transaction."""

AT_ONCE_MAX: Final = 400
"""So many rows are claimed at once in chunks, unless a single one has more."""

Row = TypeVar("Row")


class ChunkTerms(msgspec.Struct, frozen=True, kw_only=True):
    """How large a chunk may be."""

    rows: int = ROWS_MAX
    bytes: int | None = None
    """What the inputs of its rows come to, unless it is only one; None for however much."""

    def for_most(self, rows: int | None, chunks: int, *, alone: bool = False) -> tuple[Self, int]:
        """The same, and how many of them there may be, where no more than `chunks` may go, and `rows` in all (None: any
        number). `alone`: each row is to go by itself.
        """
        if alone:
            return msgspec.structs.replace(self, rows=1), chunks
        if rows is None or rows >= self.rows * chunks:
            return self, chunks
        size = max(1, min(self.rows, rows))
        return msgspec.structs.replace(self, rows=size), max(1, rows // size)

    def rows_of(self, row_bytes: int | None) -> int:
        """How many rows a chunk has whose inputs are of that size; None: nobody knows how large they are."""
        if self.bytes is None:
            return self.rows
        return 1 if row_bytes is None else max(1, min(self.rows, self.bytes // row_bytes))

    def rows_at_once(self, chunks: int) -> int:
        """How many rows are claimed at once for so many chunks, at the most."""
        return max(self.rows, min(chunks * self.rows, AT_ONCE_MAX))


def packed(
    rows: Iterable[Row],
    terms: ChunkTerms,
    *,
    key_of: Callable[[Row], Hashable],
    size_of: Callable[[Row], int],
    most_of: Callable[[Row], int | None],
    bytes_max: int,
    has_more: bool = False,
) -> list[list[Row]]:
    """`rows` in chunks, in their order, the chunks in that of their first rows.

    Only those of one key are together. No chunk has more rows than its `terms` and `most_of` each of them allow, nor
    more than `bytes_max` in all, unless it is only one row. `has_more`: others follow, with which the last chunk would
    be larger; then it is left out, unless there is no other.
    """
    room = bytes_max if terms.bytes is None else min(bytes_max, terms.bytes)

    def rows_with(row: Row) -> int:
        return terms.rows if (own := most_of(row)) is None else min(terms.rows, own)

    made: list[list[Row]] = []
    open_chunks: dict[Hashable, tuple[list[Row], int]] = {}
    for row in rows:
        most = rows_with(row)
        key, size = (key_of(row), most), size_of(row)
        chunk, taken = open_chunks.get(key, ([], 0))
        if not chunk or len(chunk) >= most or taken + size > room:
            chunk, taken = [], 0
            made.append(chunk)
        chunk.append(row)
        open_chunks[key] = chunk, taken + size
    if has_more and len(made) > 1 and len(made[-1]) < rows_with(made[-1][0]):
        made.pop()
    return made
