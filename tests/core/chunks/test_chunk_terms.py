"""Which rows travel together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.chunks.chunk_terms import AT_ONCE_MAX, ChunkTerms, packed

Row = tuple[str, int, int | None]
"""Its key, its size, and with how many it may travel at most."""


def chunks_of(rows: list[Row], terms: ChunkTerms, bytes_max: int = 1_000, *, has_more: bool = False) -> list[list[Row]]:
    return packed(
        rows,
        terms,
        key_of=lambda row: row[0],
        size_of=lambda row: row[1],
        most_of=lambda row: row[2],
        bytes_max=bytes_max,
        has_more=has_more,
    )


def test_rows_are_packed_in_their_order_each_with_its_like() -> None:
    a, b, few = ("a", 1, None), ("b", 1, None), ("a", 1, 2)
    assert chunks_of([a, b, a, a, b], ChunkTerms(rows=2)) == [[a, a], [b, b], [a]]
    assert chunks_of([few, a, few, few], ChunkTerms(rows=4)) == [[few, few], [a], [few]]


def test_a_row_that_is_too_large_travels_alone() -> None:
    large, small = ("a", 9, None), ("a", 2, None)
    assert chunks_of([small, large, small, small], ChunkTerms(bytes=5)) == [[small], [large], [small, small]]
    assert chunks_of([small, small, small], ChunkTerms(), bytes_max=4) == [[small, small], [small]]


def test_a_chunk_with_room_for_those_that_follow_is_left_to_them_unless_it_is_the_only_one() -> None:
    a, few = ("a", 1, None), ("a", 1, 2)
    assert chunks_of([a] * 5, ChunkTerms(rows=2), has_more=True) == [[a, a], [a, a]]
    assert chunks_of([a] * 4, ChunkTerms(rows=2), has_more=True) == [[a, a], [a, a]]
    assert chunks_of([a, few, few], ChunkTerms(rows=4), has_more=True) == [[a], [few, few]]
    assert chunks_of([a], ChunkTerms(rows=2), has_more=True) == [[a]]
    assert chunks_of([], ChunkTerms(rows=2), has_more=True) == []


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 9), st.none() | st.integers(1, 4)), max_size=30),
    st.integers(1, 5),
    st.none() | st.integers(1, 20),
)
def test_each_row_is_in_one_chunk_and_none_is_too_large(rows: list[Row], most: int, room: int | None) -> None:
    made = chunks_of(rows, ChunkTerms(rows=most, bytes=room))
    assert sorted(map(repr, rows)) == sorted(repr(row) for chunk in made for row in chunk)
    for chunk in made:
        assert 1 <= len(chunk) <= min(most, *(row[2] or most for row in chunk), most)
        assert len({row[0] for row in chunk}) == 1
        assert len(chunk) == 1 or sum(row[1] for row in chunk) <= (room or 1_000)


@pytest.mark.parametrize(
    ("rows", "chunks", "expected"),
    [(None, 5, (16, 5)), (80, 5, (16, 5)), (79, 5, (16, 4)), (16, 5, (16, 1)), (3, 5, (3, 1)), (0, 5, (1, 1))],
)
def test_where_few_rows_may_go_chunks_are_fewer_and_smaller(
    rows: int | None, chunks: int, expected: tuple[int, int]
) -> None:
    terms, most = ChunkTerms(rows=16).for_most(rows, chunks)
    assert (terms.rows, most) == expected


def test_rows_that_find_something_out_go_by_themselves() -> None:
    assert ChunkTerms(rows=16).for_most(3, 5, alone=True) == (ChunkTerms(rows=1), 5)


def test_how_many_rows_a_chunk_has_follows_from_their_size() -> None:
    assert ChunkTerms(rows=16).rows_of(None) == ChunkTerms(rows=16).rows_of(9) == 16
    assert [ChunkTerms(bytes=100).rows_of(size) for size in (None, 30, 900)] == [1, 3, 1]


def test_not_too_many_rows_are_claimed_at_once() -> None:
    assert ChunkTerms(rows=16).rows_at_once(2) == 32
    assert ChunkTerms(rows=16).rows_at_once(400) == AT_ONCE_MAX
    assert ChunkTerms(rows=900).rows_at_once(2) == 900
