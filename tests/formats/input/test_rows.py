"""Batches of rows: bounded in number and bytes, in order, nothing lost."""

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.formats.input.rows import Row, RowProblem, batches


def row(line: int, size: int) -> Row:
    return Row(line=line, custom_id="x", derived=False, input=b"i" * size, digest=b"", policy=b"p" * 2, s3_config=None)


def test_a_batch_ends_before_it_grows_over_its_bytes() -> None:
    items = [row(1, 7), row(2, 7), row(3, 8), row(4, 100), row(5, 1)]

    assert [[item.line for item in batch] for batch in batches(items, bytes_max=20)] == [[1, 2], [3], [4], [5]]


def test_no_rows_give_no_batches() -> None:
    assert list(batches([])) == []


def test_the_first_batches_are_small_so_that_few_rows_of_a_slow_input_wait_for_others() -> None:
    lengths = [len(batch) for batch in batches((row(line, 1) for line in range(2_000)), rows_max=500)]
    assert lengths == [64, 128, 256, 500, 500, 500, 52]


@given(st.lists(st.integers(0, 50)), st.integers(1, 5), st.integers(1, 100))
def test_batches_keep_order_and_bounds_and_lose_nothing(sizes: list[int], rows_max: int, bytes_max: int) -> None:
    items: list[Row | RowProblem] = [
        row(line, size) if size % 3 else RowProblem(line=line, text="?" * size) for line, size in enumerate(sizes)
    ]

    found = list(batches(items, rows_max=rows_max, bytes_max=bytes_max))

    assert [item for batch in found for item in batch] == items
    for batch in found:
        size = sum(len(item.text) if isinstance(item, RowProblem) else len(item.input) + 3 for item in batch)
        assert 1 <= len(batch) <= rows_max
        assert size <= bytes_max or len(batch) == 1
