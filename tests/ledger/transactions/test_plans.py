"""How SQLite goes about it: no question of the hot paths walks through all jobs."""

import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Update, event
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine import Connection, Engine

from orchestrator.core.filters.filter import ClusterIs, Comparison, StateIs, Text
from orchestrator.core.jobs.lifecycle import TERMINAL, State
from orchestrator.ledger import Ledger
from orchestrator.ledger.commands.command_types import Action
from orchestrator.ledger.jobs.claim_queue import HEAD, ClaimLine, Passed
from orchestrator.ledger.sqlite.statements import SQLiteGuarded
from orchestrator.ledger.transactions import notice_writes, run_controls
from orchestrator.ledger.transitions import apply_transitions
from orchestrator.settings.addresses.ledger_address import file_of
from orchestrator.units import DAY_US, MIB
from tests.factories import S, a_row
from tests.ledger.ledgers import a_run, added, brought_to, obeyed, opened
from tests.simulation.clock import EPOCH_AT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

AT = EPOCH_AT + 1_000 * S

Question = Callable[[Ledger], Awaitable[object]]


async def plans(ledger: Ledger, question: Question) -> list[str]:
    """What SQLite says about each SELECT of jobs, submissions or events that `question` makes."""
    asked: list[tuple[str, Any]] = []

    def note(_connection: Connection, _cursor: object, sql: str, parameters: Any, *_: object) -> None:
        if sql.startswith("SELECT") and "payloads" not in sql:
            asked.append((sql, parameters))

    event.listen(Engine, "before_cursor_execute", note)
    try:
        await question(ledger)
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    with closing(sqlite3.connect(file_of(ledger.address))) as connection:
        return [row[3] for sql, values in asked for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", values)]


def a_claim(ledger: Ledger, *, by_retry: bool = False, behind: Passed = HEAD) -> Awaitable[object]:
    return ledger.jobs.claims.take(
        ClaimLine(1, endpoint=1, by_retry=by_retry, ttl_of=lambda _: S, behind=behind), most=9, bytes_max=MIB
    )


async def ended_by_wish(ledger: Ledger) -> None:
    await obeyed(ledger, Action.CANCEL, run=1)
    await ledger.jobs.cancels.end(1, most=99)


async def cleared(ledger: Ledger) -> None:
    run = await ledger.runs.named("run")
    assert run is not None
    await added(ledger, await ledger.runs.intakes.start(run), [a_row(99)])
    await ledger.runs.intakes.clear("run")


QUESTIONS: dict[str, tuple[str, Question]] = {
    "claim by run": ("jobs_claimable", a_claim),
    "claim by retry": ("jobs_claimable", partial(a_claim, by_retry=True)),
    "claim behind others": (
        "jobs_claimable (run_id=? AND endpoint_id=? AND due_at=? AND priority=? AND rowid>? AND rowid<?)",
        partial(a_claim, behind=Passed(due_at=5, due_job=5, ttl_us=1)),
    ),
    "of the next priority": (
        "jobs_claimable (run_id=? AND endpoint_id=? AND due_at=? AND priority<?)",
        partial(a_claim, behind=Passed(due_at=5, due_job=5, ttl_us=1)),
    ),
    "next by run": ("jobs_claimable", lambda ledger: ledger.jobs.next_queued_at(1, endpoint=1, by_retry=False, now=AT)),
    "next not failed here": (
        "jobs_claimable (run_id=? AND endpoint_id=? AND due_at>?)",
        lambda ledger: ledger.jobs.next_queued_at(1, endpoint=1, by_retry=False, now=AT, not_failed_at=2),
    ),
    "next by retry": (
        "jobs_claimable (run_id=? AND endpoint_id=? AND due_at>?)",
        lambda ledger: ledger.jobs.next_queued_at(1, endpoint=1, by_retry=True, now=AT),
    ),
    "jobs in": (
        "jobs_at_service (state=? AND due_at=? AND rowid>?)",
        lambda ledger: ledger.jobs.in_state(State.OUTSTANDING, after=(0, 5), most=9),
    ),
    "safe until": (
        "jobs_at_service (state=?)",
        lambda ledger: ledger.jobs.margins.safe_until(1, retention_us=1, now=AT),
    ),
    "past": (
        "SEARCH events USING INTEGER PRIMARY KEY (rowid>?)",
        lambda ledger: ledger.jobs.history.took(endpoint_id=1, now=AT),
    ),
    "finished page": (
        "jobs_in_line (run_id=? AND line>?)",
        lambda ledger: ledger.jobs.results.page(1, list(TERMINAL), after=(3, 1), most=9, bytes_max=MIB),
    ),
    "jobs of submissions": ("INTEGER PRIMARY KEY", lambda ledger: ledger.jobs.of_submissions([1, 2])),
    "chosen by state": (
        "SEARCH jobs USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
        lambda ledger: ledger.reports.job_queries.page(1, StateIs(State.FAILED), after=5, most=9),
    ),
    "of a cluster": (
        "SEARCH outcomes USING COVERING INDEX outcomes_of_cluster (error_key=? AND rowid>? AND rowid<?)",
        lambda ledger: ledger.reports.job_queries.page(1, ClusterIs(7), after=5, most=9),
    ),
    "named": (
        "sqlite_autoindex_jobs_1 (run_id=? AND custom_id=?)",
        lambda ledger: ledger.reports.job_queries.page(1, Text("id", Comparison.EQUAL, "a"), after=5, most=9),
    ),
    "unfinished intake": (
        "jobs_claimable (run_id=? AND endpoint_id=? AND due_at=? AND priority=? AND rowid>?)",
        cleared,
    ),
    "not there": ("jobs_at_service (state=?)", ended_by_wish),
    "samples": (
        "SEARCH run_samples USING PRIMARY KEY (run_id=? AND step_s=? AND at>? AND at<?)",
        lambda ledger: ledger.samples.of_run(1, AT, 2 * AT),
    ),
    "samples of a year": (
        "SEARCH run_samples USING PRIMARY KEY (run_id=? AND step_s=? AND at=?)",
        lambda ledger: ledger.samples.of_run(1, AT, AT + 365 * DAY_US),
    ),
    "latest samples": (
        "SEARCH run_samples USING PRIMARY KEY (run_id=? AND step_s=? AND at=?)",
        lambda ledger: ledger.samples.runs.latest([1, 2]),
    ),
    "expired samples": (
        "SEARCH run_samples USING PRIMARY KEY (run_id=? AND step_s=? AND at<?)",
        lambda ledger: ledger.samples.forget_expired(AT, most=9),
    ),
    "unsampled": (
        "SEARCH events USING INTEGER PRIMARY KEY (rowid>?)",
        lambda ledger: ledger.samples.unsampled.after(5, most=9),
    ),
    "history": ("events_of_job", lambda ledger: ledger.jobs.history.of(1)),
    "events": (
        "SEARCH events USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
        lambda ledger: ledger.reports.pruning.events_doomed({1: 2 * AT}, after=0, most=9),
    ),
    "submissions": (
        "SEARCH submissions USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
        lambda ledger: ledger.reports.pruning.submissions_doomed({1: 2 * AT}, ttl_before=2 * AT, after=0, most=9),
    ),
}


@pytest.mark.parametrize("name", QUESTIONS)
async def test_no_question_of_the_hot_paths_walks_through_all_jobs_or_sorts_them(name: str, tmp_path: Path) -> None:
    index, question = QUESTIONS[name]
    async with opened(tmp_path / "l.db") as ledger:
        await a_run(ledger, 20)
        await brought_to(ledger, State.SUCCEEDED, AT)
        found = await plans(ledger, question)

    assert any(index in line for line in found), found
    assert not [line for line in found if line.startswith(("SCAN jobs", "SCAN submissions"))], found
    if name not in {"finished page", "history"}:
        assert not [line for line in found if "TEMP B-TREE FOR ORDER BY" in line], found


def in_sql(statement: Update) -> str:
    return str(statement.compile(dialect=sqlite.dialect()))


STEP = SQLiteGuarded(apply_transitions._APPLY)._compiled


@pytest.mark.parametrize(
    "sql",
    [
        STEP.one,
        STEP.many,
        in_sql(notice_writes._UNFINISHED),
        in_sql(run_controls._TAKE_BACK),
    ],
    ids=["step", "steps", "news", "continue"],
)
async def test_a_step_and_news_find_their_job_by_number(tmp_path: Path, sql: str) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        await a_run(ledger, 20)
    with closing(sqlite3.connect(tmp_path / "l.db")) as connection:
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", ["[]"] * sql.count("?"))]
    assert any("SEARCH jobs USING INTEGER PRIMARY KEY" in line for line in plan), plan
