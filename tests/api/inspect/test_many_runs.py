"""Looking at a ledger of many runs: as many questions as for one, and the same answers."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from orchestrator.api.inspect.status import runs_now
from orchestrator.core.jobs import transitions
from orchestrator.core.jobs.lifecycle import State
from orchestrator.ledger import Ledger
from orchestrator.ledger.runs.heartbeats import ProcessReport, RunReport
from orchestrator.views.status import CollectedBy, Collecting, JanitorSummary, MarginSummary
from tests.factories import S, an_outcome
from tests.ledger.ledgers import a_run, brought_to, jobs_now, opened
from tests.ledger.statements import statements
from tests.simulation.clock import EPOCH_AT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

AT = EPOCH_AT + 1_000 * S

MANY = 10_000
COPIED = {
    "runs": "name || '-' || ?1, endpoint_id, source, settings, created_at, intake_accepted, rows_accepted, 1, 0, 0, 0",
    "counts": "name, n",
    "margins": "step, n, least_us",
}


async def with_one_run(ledger: Ledger) -> None:
    """A run with a job in several states, and two margins."""
    await a_run(ledger, 5)
    for number, state in ((1, State.OUTSTANDING), (2, State.OUTSTANDING), (3, State.FAILED)):
        await brought_to(ledger, state, AT + number * S, job=number)
    for job, margin_us in zip((await jobs_now(ledger))[3:], (7 * S, 9 * S), strict=True):
        await ledger.writer.step(
            transitions.completed(job, an_outcome(job, margin_us=margin_us), reason="status", at=AT)
        )


def multiplied(path: Path, number: int) -> None:
    """So many more runs like the first one, their jobs aside."""
    with closing(sqlite3.connect(path)) as connection:
        for table, columns in COPIED.items():
            rows = ((n,) for n in range(2, number + 2))
            connection.executemany(
                f"INSERT INTO {table} SELECT ?1, {columns} FROM {table} WHERE {key(table)} = 1", rows
            )
        connection.commit()


def key(table: str) -> str:
    return "id" if table == "runs" else "run_id"


@pytest.mark.slow
async def test_a_look_at_ten_thousand_runs_takes_as_many_questions_as_a_look_at_one(tmp_path: Path) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        await with_one_run(ledger)
        await ledger.runs.heartbeats.beat(ProcessReport(janitor=JanitorSummary(at=AT, failing=("prune",))))
        with statements() as asked_of_one:
            [one] = await runs_now(ledger, None)
        multiplied(tmp_path / "l.db", MANY - 1)
        with statements() as asked_of_many:
            found = await runs_now(ledger, None)

    assert len(asked_of_many) == len(asked_of_one) < 20
    assert len(found) == MANY
    assert {run.run for run in found} == {"run", *(f"run-{n}" for n in range(2, MANY + 1))}
    for run in (found[1], found[-1]):
        assert (run.jobs, run.margin_s) == (one.jobs, one.margin_s)
        assert run.margin_s == MarginSummary(min=7.0, p1=7.0)
        assert run.paused
        assert run.janitor is not None
        assert run.janitor.failing == ("prune",)
    assert one.jobs["outstanding"] == 2
    assert one.safe_offline_s is not None
    assert found[0].safe_offline_s == pytest.approx(one.safe_offline_s, abs=1)


async def test_what_the_process_at_work_says_of_some_runs_is_believed_and_the_others_are_looked_at(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        await with_one_run(ledger)
        [alone] = await runs_now(ledger, None)
        now = ledger.now()
        said = Collecting(by=CollectedBy.POLLING, safe_until=now + 77 * S)
        await ledger.runs.heartbeats.beat(ProcessReport(runs={1: RunReport(collecting=said)}))
        [told] = await runs_now(ledger, "process 4711")
        [stale] = await runs_now(ledger, None)

    assert alone.safe_offline_s is not None
    assert told.safe_offline_s == pytest.approx(77, abs=1)
    assert told.collected_by is CollectedBy.POLLING
    assert stale.safe_offline_s == pytest.approx(alone.safe_offline_s, abs=1)
    assert stale.collected_by is None
