"""The buffer between who makes rows and who writes them."""

import itertools
import threading
from collections.abc import AsyncIterator, Iterator, Sequence

import anyio
import pytest

from orchestrator.engine.pump import ROWS_MAX, Pump
from orchestrator.formats.rows import Problem, Row
from orchestrator.ledger.input_rows import PackedRow
from tests.factories import a_row

pytestmark = pytest.mark.anyio


def read(number: int, value: object) -> Row | Problem:
    return Problem(line=number, text="bad") if value is None else a_row(number)


async def coming(values: Iterator[object]) -> AsyncIterator[object]:
    for value in values:
        yield value


@pytest.mark.parametrize("kind", [iter, coming, list], ids=["in a thread", "async", "at once"])
async def test_rows_come_in_order_and_no_more_are_read_than_the_buffer_holds(kind: object) -> None:
    made, written, ahead = 0, 0, 0

    def values() -> Iterator[object]:
        nonlocal made
        for number in range(1, 2 * ROWS_MAX + 101):
            made = number
            yield number

    async def write(rows: Sequence[PackedRow]) -> None:
        nonlocal written, ahead
        assert [row.line for row in rows] == list(range(written + 6, written + len(rows) + 6))
        written += len(rows)
        ahead = max(ahead, made - written)

    assert callable(kind)
    await Pump(kind(values()), read, first=5).into(write)
    assert written == made == 2 * ROWS_MAX + 100
    assert ahead <= (ROWS_MAX + 1 if kind is not list else made)


async def test_rows_that_are_there_do_not_wait_for_a_slow_one() -> None:
    is_written = threading.Event()
    lines: list[int] = []

    def values() -> Iterator[object]:
        yield 1
        assert is_written.wait(30)
        yield 2

    async def write(rows: Sequence[PackedRow]) -> None:
        lines.extend(row.line for row in rows)
        is_written.set()

    await Pump(values(), read).into(write)
    assert lines == [1, 2]


@pytest.mark.parametrize("kind", [iter, coming], ids=["in a thread", "async"])
async def test_what_the_values_raise_is_raised_when_all_before_it_is_written(kind: object) -> None:
    def values() -> Iterator[object]:
        yield 1
        raise ZeroDivisionError

    lines: list[int] = []

    async def write(rows: Sequence[PackedRow]) -> None:
        lines.extend(row.line for row in rows)

    assert callable(kind)
    with pytest.raises(ZeroDivisionError):
        await Pump(kind(values()), read).into(write)
    assert lines == [1]


async def test_it_ends_at_a_bad_value_or_goes_on_to_find_them_all() -> None:
    for to_the_end, found in ((False, [2]), (True, [2, 4])):
        pump = Pump([1, None, 3, None], read, to_the_end=to_the_end)

        async def write(_rows: Sequence[PackedRow]) -> None:
            await anyio.lowlevel.checkpoint()

        await pump.into(write)
        assert [problem.line for problem in pump.problems] == found


async def test_who_writes_no_more_ends_who_reads_and_waits_for_no_generator() -> None:
    is_left, has_ended = threading.Event(), threading.Event()

    def values() -> Iterator[object]:
        try:
            yield 1
            assert is_left.wait(30)
            yield from itertools.count(2)
        finally:
            has_ended.set()

    async def write(_rows: Sequence[PackedRow]) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as raised:
        await Pump(values(), read).into(write)
    assert raised.value.__suppress_context__
    is_left.set()
    assert has_ended.wait(30)
