"""The buffer between who makes rows and who writes them."""

import itertools
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Sequence
from typing import Any

import anyio
import pytest

from orchestrator.engine.intake.row_pump import ROWS_MAX, RowPump
from orchestrator.formats.input.rows import Row, RowProblem
from orchestrator.ledger.runs.input_rows import PackedRow
from orchestrator.user_code import UserCodeError
from tests.factories import a_row
from tests.raising import KINDS, raises, type_of

pytestmark = pytest.mark.anyio

PATIENCE_S = 60


def read(number: int, value: object) -> Row | RowProblem:
    return RowProblem(line=number, text="bad") if value is None else a_row(number)


async def coming(values: Iterator[object]) -> AsyncIterator[object]:
    try:
        for value in values:
            yield value
    finally:
        if isinstance(values, Generator):
            values.close()


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
    await RowPump(kind(values()), read, first=5).into(write)
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

    await RowPump(values(), read).into(write)
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
    with pytest.raises(UserCodeError) as raised:
        await RowPump(kind(values()), read).into(write)
    assert isinstance(raised.value.error, ZeroDivisionError)
    assert lines == [1]


class Bad:
    """Values of which the second one cannot be had."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.given = 0

    def __iter__(self) -> Iterator[object]:
        return self

    def __next__(self) -> object:
        self.given += 1
        if self.given > 1:
            raises(self.kind)
        return self.given


class BadAwaited(Bad):
    def __aiter__(self) -> "BadAwaited":
        return self

    async def __anext__(self) -> object:
        return self.__next__()


class BadSequence(Sequence[object]):
    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __len__(self) -> int:
        return 2

    def __getitem__(self, place: object) -> Any:
        if place:
            raises(self.kind)
        return place


@pytest.mark.parametrize("values", [Bad, BadAwaited, BadSequence], ids=["in a thread", "async", "at once"])
@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"stop_iteration", "stop_async_iteration"}))
async def test_whatever_the_values_raise_ends_them_and_nothing_else(kind: str, values: Callable[[str], Any]) -> None:
    lines: list[int] = []

    async def write(rows: Sequence[PackedRow]) -> None:
        lines.extend(row.line for row in rows)

    with anyio.fail_after(PATIENCE_S), pytest.raises(UserCodeError) as raised:
        await RowPump(values(kind), read).into(write)
    assert type(raised.value.error) is type_of(kind)
    assert lines == [1]


@pytest.mark.parametrize("kind", ["error", "exit", "cancelled"])
async def test_an_input_that_raises_as_it_is_closed_holds_nobody_up(kind: str) -> None:
    def values() -> Iterator[object]:
        try:
            yield None
            yield 2
        finally:
            raises(kind)

    async def write(_: Sequence[PackedRow]) -> None:
        pass

    for given in (values(), coming(values())):
        with anyio.fail_after(PATIENCE_S), pytest.raises(UserCodeError):
            await RowPump(given, read).into(write)


async def test_it_ends_at_a_bad_value_or_goes_on_to_find_them_all() -> None:
    for to_the_end, found in ((False, [2]), (True, [2, 4])):
        pump = RowPump([1, None, 3, None], read, to_the_end=to_the_end)

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
        await RowPump(values(), read).into(write)
    assert raised.value.__suppress_context__
    is_left.set()
    assert has_ended.wait(30)


async def test_a_defect_of_the_reading_thread_holds_nobody_up() -> None:
    def misread(_number: int, _value: object) -> Row | RowProblem:
        return None  # type: ignore[return-value]

    async def write(_: Sequence[PackedRow]) -> None:
        pass

    with anyio.fail_after(PATIENCE_S), pytest.raises(AttributeError):
        await RowPump(iter([1]), misread).into(write)
