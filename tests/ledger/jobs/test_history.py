"""What the ledger still tells of the executions of an earlier process."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from orchestrator.core.jobs.job import Outcome
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.jobs.transitions import completed as completed_step
from orchestrator.ledger import Ledger
from orchestrator.ledger.jobs.history import AGE_US_MAX, EVENTS_LEARNED_FROM_MAX, EXECUTIONS_MAX
from tests.ledger.ledgers import a_run, brought_to, gone, job_now, opened
from tests.simulation.clock import EPOCH_AT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

S = 1_000_000
AT = EPOCH_AT


async def completed(ledger: Ledger, job: int, *, at: int, delay_ms: int | None, execution_ms: int | None) -> None:
    """A job that was sent 2 s before, and took so long."""
    outstanding = await brought_to(ledger, State.OUTSTANDING, at - 2 * S, job=job)
    outcome = Outcome(
        submission=outstanding.submission,
        remote_id="r",
        status="COMPLETED",
        output=b"1",
        delay_ms=delay_ms,
        execution_ms=execution_ms,
    )
    assert await ledger.writer.step(completed_step(outstanding, outcome, reason="status", at=at))


async def test_the_latest_executions_of_an_endpoint_are_remembered_oldest_first(tmp_path: Path) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        run = await a_run(ledger, 5)
        await completed(ledger, 1, at=AT, delay_ms=10, execution_ms=1_000)
        await completed(ledger, 3, at=AT + S, delay_ms=None, execution_ms=3_000)
        await completed(ledger, 2, at=AT + 2 * S, delay_ms=None, execution_ms=None)  # the service did not say
        await brought_to(ledger, State.CANCELLED, AT + 5 * S, job=4)
        await brought_to(ledger, State.OUTSTANDING, AT + 7 * S, job=5)
        found = await ledger.jobs.history.took(endpoint_id=run.endpoint_id, now=AT + 3 * S)
        assert [(each.delay_ms, each.execution_ms) for each in found] == [(10, 1_000), (None, 3_000), (None, None)]
        assert 2_000 <= found[-1].whole_ms <= 3_000
        assert await ledger.jobs.history.took(endpoint_id=run.endpoint_id + 1, now=AT + 3 * S) == []
        later = AT + S + AGE_US_MAX
        assert [each.execution_ms for each in await ledger.jobs.history.took(endpoint_id=1, now=later)] == [
            3_000,
            None,
        ]


async def test_failures_tell_how_long_they_took_and_what_never_ran_tells_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        await a_run(ledger, 2)
        await brought_to(ledger, State.FAILED, AT)
        await gone(ledger, await job_now(ledger, 2), "claimed", "unanswered", "abandoned", at=AT + 5 * S)
    with closing(sqlite3.connect(tmp_path / "l.db")) as connection, connection:
        connection.execute("UPDATE outcomes SET execution_ms = 700 WHERE job_id = 1")
    async with opened(tmp_path / "l.db") as ledger:
        found = await ledger.jobs.history.took(endpoint_id=1, now=AT + 9 * S)
    assert [each.execution_ms for each in found] == [700]


def many(path: Path, jobs: int) -> None:
    """Makes the one job of the ledger at `path` the first of so many that have succeeded."""
    with closing(sqlite3.connect(path)) as connection, connection:
        numbers = f"WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < {jobs})"
        columns = [row[1] for row in connection.execute("PRAGMA table_info(jobs)")]
        others = ", ".join({"id": "i", "custom_id": "'c' || i", "line": "i"}.get(name, name) for name in columns)
        connection.execute(f"INSERT INTO jobs {numbers} SELECT {others} FROM n, jobs WHERE id = 1")
        connection.execute(
            f"INSERT INTO outcomes (job_id, submission_id, status, execution_ms)"
            f" {numbers} SELECT i, submission_id, 'COMPLETED', i FROM n, jobs WHERE id = 1"
        )
        connection.execute(
            f"INSERT INTO events (job_id, at, event, submission_id, attempt, reason)"
            f" {numbers} SELECT i, {AT}, 'completed', submission_id, 1, 'status' FROM n, jobs WHERE id = 1"
        )


async def test_only_so_many_are_read_and_only_so_far_back(tmp_path: Path) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        await a_run(ledger)
        await completed(ledger, 1, at=AT, delay_ms=None, execution_ms=1)
    jobs = EVENTS_LEARNED_FROM_MAX + 10
    many(tmp_path / "l.db", jobs)
    async with opened(tmp_path / "l.db") as ledger:
        found = await ledger.jobs.history.took(endpoint_id=1, now=AT)
        assert [each.execution_ms for each in found] == list(range(jobs - EXECUTIONS_MAX + 1, jobs + 1))
    with closing(sqlite3.connect(tmp_path / "l.db")) as connection, connection:
        connection.execute("UPDATE events SET event = 'accepted' WHERE job_id > 1")  # so many that nothing is left
    async with opened(tmp_path / "l.db") as ledger:
        assert await ledger.jobs.history.took(endpoint_id=1, now=AT) == []
