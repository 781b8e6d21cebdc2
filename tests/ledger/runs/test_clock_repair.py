"""Every time of a ledger after a process whose clock was an hour ahead."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import BLOB, REAL, TEXT, Integer, LargeBinary, Table

from orchestrator.core.batch_api.posted_batch import PostedState
from orchestrator.core.batch_api.posted_file import Purpose
from orchestrator.core.batches.batch_record import BatchStage
from orchestrator.core.pipelines.due_fires import GapKind
from orchestrator.core.pipelines.flow_lifecycle import FlowKind, FlowState
from orchestrator.core.pipelines.pipeline import News
from orchestrator.core.pipelines.run_messages import RunNews
from orchestrator.errors import IntakeLostError
from orchestrator.ledger.runs.clock_repair import BROUGHT_BACK, KEPT, WAIT_US_MAX, bring_back, times
from orchestrator.ledger.runs.heartbeats import STALE_US
from orchestrator.ledger.schema.handover_tables import By
from orchestrator.ledger.schema.job_tables import metadata
from orchestrator.ledger.transactions.transaction import Transaction
from tests.factories import S, a_row
from tests.ledger.ledgers import a_run, added, gone, job_now, opened
from tests.simulation.clock import VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

HOUR = 3_600 * S

ROWS: dict[str, tuple[dict[str, Any], ...]] = {
    "jobs": (
        {"state": "queued", "ended_at": None},
        {"id": 2, "state": "succeeded", "custom_id": "2", "retry_until": None, "due_at": 0},
    ),
    "flows": (
        {"kind": FlowKind.SCHEDULED, "state": FlowState.WAITING, "ended_at": None},
        {"id": 2, "name": "2", "fire_at": 1, "kind": FlowKind.SCHEDULED, "state": FlowState.SUCCEEDED},
    ),
    "posted_batches": ({"state": next(iter(PostedState))},),
    "posted_files": ({"purpose": next(iter(Purpose))},),
    "outbox": ({"news": next(iter(News)), "told_at": None}, {"id": 2, "news": next(iter(News)), "given_up_at": None}),
    "run_outbox": (
        {"news": next(iter(RunNews)), "told_at": None},
        {"id": 2, "news": next(iter(RunNews)), "given_up_at": None},
    ),
    "episodes": ({"news": next(iter(RunNews))},),
    "gaps": ({"kind": next(iter(GapKind)), "after_at": 1},),
    "batches": ({"stage": BatchStage.OVER},),
    "gathers": ({"by": next(iter(By))},),
    "commands": ({"outcome": "done"},),
    "actions": ({"outcome": "done", "form": None},),
    "pod_leases": ({"state": "ended", "why": "done"},),
}
"""What else rows need, so that each time can be in one."""


_EMPTY: dict[type, Any] = {LargeBinary: b"{}", BLOB: b"{}", TEXT: "", REAL: 0.0}


def row_of(table: Table, at: int) -> dict[str, Any]:
    """A row of which all times are `at`, and all else says nothing."""
    of_time = {column.name for column in times() if column.table is table}
    row: dict[str, Any] = {}
    for column in table.columns:
        if column.name in of_time:
            row[column.name] = at
        elif not column.nullable or column.primary_key:
            row[column.name] = 1 if isinstance(column.type, Integer) else _EMPTY[type(column.type)]
    return row


async def test_every_stored_time_that_lies_in_the_future_is_brought_back_or_may_lie_there(tmp_path: Path) -> None:
    path, clock = tmp_path / "l.db", VirtualClock()
    ahead_at = clock.now() + HOUR
    async with opened(path, clock=clock):
        pass
    with closing(sqlite3.connect(path)) as database:
        rows = [(table, more) for table in metadata.sorted_tables for more in ROWS.get(table.name, ({},))]
        for table, more in rows:
            row = row_of(table, ahead_at) | more
            names, marks = ", ".join(row), ", ".join("?" * len(row))
            database.execute(f"INSERT INTO {table.name} ({names}) VALUES ({marks})", tuple(row.values()))
        database.commit()

    async with opened(path, clock=clock) as ledger:
        assert ledger.was_ahead_us == pytest.approx(HOUR, abs=S)

    now, found = clock.now(), {}
    with closing(sqlite3.connect(path)) as database:
        for column in times():
            [value] = database.execute(f"SELECT max({column.name}) FROM {column.table.name}").fetchone()
            found[str(column)] = value
    late = {name for name, value in found.items() if value is not None and value > now}
    assert late <= {*KEPT, "jobs.due_at", "submissions.cancel_at", "flows.due_at"}
    assert found["events.at"] == ahead_at, "the story of a job is told as whoever wrote it saw the time"
    assert found["jobs.due_at"] <= now + WAIT_US_MAX
    assert found["submissions.cancel_at"] <= now + WAIT_US_MAX
    assert found["flows.due_at"] <= found["flows.fire_at"], "what is planned for then begins then"
    assert found["outbox.owed_at"] == found["run_outbox.owed_at"] == ahead_at, "messages are called after it"
    assert found["outbox.due_at"] == found["run_outbox.due_at"] <= now, "and are sent nevertheless"
    assert found["jobs.unfinished_at"] == 0, "nobody knows it"
    assert found["heartbeats.beaten_at"] < now - STALE_US, "whoever said that does not work any more"


@pytest.mark.parametrize("as_they_come", [False, True])
async def test_who_takes_rows_in_goes_on_beside_a_process_whose_clock_is_behind(
    tmp_path: Path, as_they_come: bool
) -> None:
    async def back(transaction: Transaction) -> int:
        return await bring_back(transaction.connection, now=ledger.now() - HOUR)

    async with opened(tmp_path / "l.db") as ledger:
        run = await a_run(ledger, [a_row(1)])
        await gone(ledger, await job_now(ledger), "claimed", at=ledger.now())
        intake = await ledger.runs.intakes.start(run, as_they_come=as_they_come)
        assert await ledger.writer.run(back) == pytest.approx(HOUR, abs=S)
        assert await added(ledger, intake, [a_row(2)]) == []
        await ledger.runs.intakes.clear(run.name)
        with pytest.raises(IntakeLostError):
            await added(ledger, intake, [a_row(3)])


def test_what_is_said_of_times_is_said_of_columns_that_there_are() -> None:
    names = {str(column) for column in times()}
    assert names >= {*KEPT, *BROUGHT_BACK}
    assert not BROUGHT_BACK & set(KEPT)
    assert {"events.at", "jobs.ended_at", "submissions.answered_at", "schedules.watermark"} <= names
