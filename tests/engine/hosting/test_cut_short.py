"""Whatever ends a run that had begun says how far it came."""

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import anyio
import pytest
from sqlalchemy.exc import DBAPIError

from orchestrator.errors import StorageError, UsageError
from orchestrator.views.status import Summary
from tests.api.runs.test_program import Silence, program
from tests.simulation.clock import VirtualClock
from tests.simulation.world import SimulatedService

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

JOBS = 100
RETENTION_S = 1_800
BEGIN_S = 2.0
JOB_S = 30.0


@contextmanager
def another_program(ledger: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(ledger, isolation_level=None)) as connection:
        yield connection


async def summary_of(folder: Path, error: type[Exception], told: str, statement: str) -> Summary:
    """Of a run that ends with such an error, since `statement` was done to its ledger in the meantime."""
    clock = VirtualClock()
    service = SimulatedService(clock, workers=50, seconds=lambda _: JOB_S)
    with another_program(folder / "ledger.db") as connection:

        async def interfere() -> None:
            await anyio.sleep(BEGIN_S)
            connection.execute(statement)

        async with service.serving(), anyio.create_task_group() as group:
            group.start_soon(interfere)
            with pytest.raises(error, match=told) as raised:
                await program(folder, service, clock, Silence(), jobs=JOBS)
    summary = getattr(raised.value, "summary", None)
    assert isinstance(summary, Summary)
    return summary


@pytest.mark.slow
async def test_a_ledger_that_another_program_locks(tmp_path: Path) -> None:
    summary = await summary_of(tmp_path, StorageError, "another program has locked the ledger", "BEGIN IMMEDIATE")
    with another_program(tmp_path / "ledger.db") as connection:
        there = dict(connection.execute("SELECT name, n FROM counts WHERE n > 0").fetchall())

    assert summary.jobs["total"] == JOBS
    assert {name: n for name, n in summary.jobs.items() if n} == {"total": JOBS, **there}
    assert RETENTION_S - 60 < (summary.safe_offline_s or 0) < RETENTION_S


async def test_a_ledger_that_cannot_even_be_read_any_more(tmp_path: Path) -> None:
    summary = await summary_of(tmp_path, StorageError, "no such table", "ALTER TABLE counts RENAME TO gone")

    assert summary.jobs["total"] == JOBS
    assert summary.jobs["outstanding"] > 0
    assert RETENTION_S - 60 < (summary.safe_offline_s or 0) < RETENTION_S


async def test_a_defect(tmp_path: Path) -> None:
    forbid = 'ALTER TABLE outcomes ADD COLUMN forbidden CONSTRAINT "as a defect would" CHECK (job_id < 0)'
    summary = await summary_of(tmp_path, DBAPIError, "as a defect would", forbid)

    assert summary.jobs["total"] == JOBS
    assert summary.jobs["succeeded"] == 0


class Vandal(Silence):
    """Makes the folder of the results go once the run is at work."""

    def __init__(self, destroy: Callable[[], None]) -> None:
        super().__init__()
        self._destroy = destroy

    def info(self, line: str) -> None:
        if "checked" in line:
            self._destroy()


async def test_results_that_can_be_written_no_more_although_they_could(tmp_path: Path) -> None:
    clock = VirtualClock()
    service = SimulatedService(clock, workers=50)
    console = Vandal((tmp_path / "out.jsonl").mkdir)
    async with service.serving():
        with pytest.raises(
            StorageError, match=r"has appeared while the run went on.*everything is in the ledger"
        ) as raised:
            await program(tmp_path, service, clock, console, jobs=3)

    assert isinstance(raised.value.summary, Summary)
    assert raised.value.summary.jobs["succeeded"] == 3
    assert raised.value.summary.output is None, "no file is named that is not there"


async def test_where_it_cannot_be_marked_what_leaves_the_user_hears_what_that_may_cost(tmp_path: Path) -> None:
    clock, console = VirtualClock(), Silence()
    service = SimulatedService(clock, workers=50)
    (tmp_path / "ledger.db.sent").mkdir()
    async with service.serving():
        summary = await program(tmp_path, service, clock, console, jobs=3)

    assert summary.jobs["succeeded"] == 3
    assert [line for line in console.lines if re.search(r"ledger\.db\.sent cannot be kept \(.*twice", line)]


async def test_an_input_that_there_is_no_room_for_had_not_begun(tmp_path: Path) -> None:
    """Else `finished; all 0 jobs succeeded` would be said before the error."""
    clock = VirtualClock()
    service = SimulatedService(clock, workers=50)
    full = 'ALTER TABLE payloads ADD COLUMN no_room CONSTRAINT "database or disk is full" CHECK (job_id <= 1)'
    async with service.serving():
        await program(tmp_path, service, clock, Silence(), jobs=1)
        with another_program(tmp_path / "ledger.db") as connection:
            connection.execute(full)
        with pytest.raises(DBAPIError) as raised:
            await program(tmp_path, service, clock, Silence(), jobs=3)

    assert raised.value.summary is None  # type: ignore[attr-defined]


async def test_what_was_refused_had_not_begun(tmp_path: Path) -> None:
    clock = VirtualClock()
    (tmp_path / "out.jsonl").mkdir()
    with pytest.raises(UsageError) as raised:
        await program(tmp_path, SimulatedService(clock), clock, Silence(), jobs=3)

    assert not hasattr(raised.value, "summary")
