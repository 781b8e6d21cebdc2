"""How an intake makes room for others: the size of its transactions, and the rests between them."""

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from orchestrator.ledger import open_ledger
from orchestrator.ledger.runs.intake_pace import (
    BYTES_BESIDE,
    HOLD_US,
    REST,
    REST_S_MAX,
    ROWS_ALONE,
    ROWS_FIRST,
    ROWS_MIN,
    Pace,
)
from orchestrator.units import SECOND_US
from tests.factories import a_row
from tests.ledger.ledgers import a_run, added
from tests.simulation.clock import VirtualClock
from tests.simulation.database import async_creator

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


def beside() -> Pace:
    pace = Pace()
    pace.is_beside = lambda: True
    return pace


async def rested(pace: Pace, rows: int, took_us: int) -> float:
    began = anyio.current_time()
    await pace.rest(rows, took_us)
    return anyio.current_time() - began


async def settled(pace: Pace, us_of: Callable[[int], int]) -> int:
    """How many rows a transaction has in the end, where `us_of` says how long one of so many takes."""
    for _ in range(30):
        await pace.rest(pace.rows, us_of(pace.rows))
    return pace.rows


@pytest.mark.parametrize("row_us", [5, 15, 100])
async def test_beside_others_a_transaction_has_as_many_rows_as_may_take_their_time(row_us: int) -> None:
    pace = beside()
    assert pace.rows == ROWS_FIRST
    assert HOLD_US * 0.99 < await settled(pace, lambda rows: rows * row_us) * row_us <= HOLD_US


async def test_a_slow_disk_makes_transactions_small_but_not_empty() -> None:
    assert await settled(beside(), lambda rows: 200_000 + rows) == ROWS_MIN


async def test_a_slow_transaction_is_learned_from_at_once_and_a_short_one_only_if_it_was_slow() -> None:
    pace = beside()
    rows = await settled(pace, lambda rows: rows * 10)
    await pace.rest(3, 2_000)
    assert pace.rows == rows
    await pace.rest(3, HOLD_US + 1)
    assert pace.rows == ROWS_MIN


async def test_beside_others_it_rests_longer_than_it_worked_and_alone_not_at_all() -> None:
    pace = beside()
    assert await rested(pace, 100, 20_000) == pytest.approx(REST * 0.02)
    assert await rested(pace, 100, 3_600 * SECOND_US) == REST_S_MAX, "a clock that jumps is not waited for"
    pace.is_beside = lambda: False
    assert (await rested(pace, 100, 20_000), pace.rows) == (0, ROWS_ALONE)


async def test_a_large_row_goes_alone_beside_others() -> None:
    pace, sizes = beside(), [10, 10, 9 * BYTES_BESIDE, 10]
    assert (pace.fitting(sizes), pace.fitting(sizes[2:]), pace.fitting(sizes[3:])) == (2, 1, 1)
    assert Pace().fitting(sizes) == 4


class Commits:
    """Counts the transactions of a ledger that changed something."""

    number = 0

    def committing(self) -> bool:
        return True

    def committed(self) -> None:
        self.number += 1


async def test_what_was_refused_is_removed_in_transactions_of_that_size_too(tmp_path: Path) -> None:
    commits, path = Commits(), tmp_path / "l.db"
    connect = async_creator(path, delay=lambda: 0.01, commits=commits)  # so slow that few rows would do
    async with open_ledger(path, clock=VirtualClock(), connect=connect) as ledger, anyio.create_task_group() as group:
        await group.start(ledger.writer.serve)
        run = await a_run(ledger)
        await added(ledger, await ledger.runs.intakes.start(run), [a_row(n) for n in range(2, 500)])
        ledger.runs.intakes.pace.is_beside = lambda: True
        before = commits.number
        await ledger.runs.intakes.clear("run")
        assert commits.number - before > 1 + (500 - ROWS_FIRST) // ROWS_FIRST
        assert await ledger.reports.audit.jobs_number() == 1
        group.cancel_scope.cancel()
