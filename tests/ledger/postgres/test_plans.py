"""How a server goes about what is asked most: it goes to where the sought jobs are, wherever most others are."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Connection, Engine

from orchestrator.core.filters.filter_parser import parse
from orchestrator.core.jobs.lifecycle import State
from orchestrator.ledger import Ledger
from orchestrator.ledger.jobs.claim_queue import ClaimLine, Passed
from orchestrator.ledger.postgres.connection import LineBounds
from orchestrator.settings.run_settings import RunSettings
from orchestrator.units import DAY_US, MIB
from tests.factories import a_row
from tests.ledger.ledgers import a_run, added
from tests.postgres.ledgers import opened_on_server, waited_for

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

JOBS: Final = 20_000
FILL: Final = f"""
INSERT INTO endpoints (service_url, endpoint) VALUES ('u', 'e');
INSERT INTO runs (name, endpoint_id, source, settings, created_at, intake_accepted) VALUES ('run', 1, '-', '{{}}', 1, 1);
INSERT INTO jobs (run_id, endpoint_id, custom_id, intake_id, line, state, submission_id, trouble, due_at, unfinished_at,
        ended_at)
    SELECT 1, 1, i::text, 1, i, state, i, CASE WHEN state = 'failed' THEN 'failed' END,
        CASE WHEN state = 'queued' THEN 0 ELSE i END, i, CASE WHEN state IN ('failed', 'succeeded') THEN i END
    FROM (SELECT i, CASE WHEN i > {JOBS} / 2 THEN 'queued' WHEN i % 100 = 0 THEN 'outstanding' WHEN i % 1000 = 1 THEN
        'failed' ELSE 'succeeded' END AS state FROM generate_series(1, {JOBS}) AS i) AS job;
ANALYZE;
"""
"""A run half of whose jobs have ended, and none of the others: what is queued does not lie evenly among all."""

Question = Callable[[Ledger], Awaitable[object]]


def claim(behind: Passed) -> Question:
    line = ClaimLine(1, endpoint=1, by_retry=False, ttl_of=lambda _: DAY_US, behind=behind)
    return lambda ledger: ledger.jobs.claims.take(line, most=10)


def page(where: str) -> Question:
    return lambda ledger: ledger.reports.job_queries.page(1, parse(where, now=0), most=10)


def in_order(ledger: Ledger) -> Awaitable[object]:
    return ledger.jobs.results.page(1, [State.SUCCEEDED], after=(15_000, 0), most=10, bytes_max=MIB)


IN_LINE: Final = " AND ".join(
    f"({name} = '{n}'::bigint)" for name, n in {"run_id": 1, "endpoint_id": 1, "due_at": 0, "priority": 0}.items()
)


QUESTIONS: Final[dict[str, tuple[str, Question]]] = {
    "claim": (f"{IN_LINE} AND ((id + 0) > '0'::bigint)", claim(Passed())),
    "claim behind others": (
        f"{IN_LINE} AND ((id + 0) > '15000'::bigint)",
        claim(Passed(fresh_priority=0, fresh_job=15_000)),
    ),
    "of a class": ("jobs_of_trouble", page("class=failed")),
    "of a state": ("jobs_given_up_by_number", page("state=failed")),
    "at the service": (
        "jobs_at_service",
        lambda ledger: ledger.jobs.in_state(State.OUTSTANDING, after=(100, 0), most=10),
    ),
    "by its custom_id": ("jobs_of_custom_id", lambda ledger: ledger.jobs.place(1, "77")),
    "in the order of its lines": ("jobs_in_line", in_order),
}


EXPLAIN: Final = "EXPLAIN"

GROWN: Final = 3_000
"""So many rows, of names so long, that the index of names is higher than that of lines: to go along the latter seems
cheaper to who believes that a run has hardly any rows.
"""
LONG: Final = "n" * 200


async def test_names_are_sought_in_their_index_in_a_run_that_has_grown_since_anybody_looked(url: str) -> None:
    connect = waited_for(url)
    async with opened_on_server(url) as ledger:
        await a_run(ledger, 2)
        server = await connect({}, LineBounds())
        await server.execute("ANALYZE")
        run = await ledger.runs.create(name="new", service_url="u", endpoint="e", source="-", settings=RunSettings())
        intake = await ledger.runs.intakes.start(run)
        with plans_of("payloads.digest") as found:
            for begin in range(1, GROWN, 1_000):
                await added(ledger, intake, [a_row(n, f"{LONG}-{n}") for n in range(begin, begin + 1_000)])
            ledger.runs.intakes.pace.is_beside = lambda: True
            await added(ledger, intake, [a_row(GROWN + 1, f"{LONG}-{GROWN + 1}")])
        assert len(found) == GROWN / 1_000 + 1
        await server.close()
        for plan in found:
            assert "jobs_of_custom_id" in plan, plan
            assert "Seq Scan on jobs" not in plan, plan
        for plan in found[1:]:  # at the first, each index is of one page, and costs as much as any other
            assert "jobs_in_line" not in plan, plan


async def test_what_was_removed_and_is_seen_by_others_still_is_not_gone_through(url: str) -> None:
    async with opened_on_server(url) as ledger:
        with plans_of("payloads.digest") as found:
            await a_run(ledger, 2)
        [plan] = found
        assert "(custom_id >= (element.value)::text) AND (custom_id <= (element.value)::text)" in plan, plan


async def test_a_writer_goes_by_indexes_also_where_there_are_hardly_any_rows(url: str) -> None:
    """What it has found best it keeps, also while rows become many."""
    connect = waited_for(url)
    async with opened_on_server(url) as ledger:
        run = await a_run(ledger, 2)
        server = await connect({}, LineBounds())
        await server.execute("ANALYZE")
        with plans_of("jobs") as found:
            claimed = await ledger.jobs.claims.take(
                ClaimLine(run.id, endpoint=1, by_retry=False, ttl_of=lambda _: DAY_US), most=2
            )
        assert len(claimed.claims) == 2
        assert found
        for plan in found:
            assert "Seq Scan on jobs" not in plan, plan
        await server.close()


async def test_what_is_sought_is_found_in_its_index(url: str) -> None:
    connect = waited_for(url)
    async with opened_on_server(url) as ledger:
        server = await connect({}, LineBounds())
        await server.execute(FILL)
        for what, (index, question) in QUESTIONS.items():
            with asked_of_jobs() as asked:
                await question(ledger)
            plans = [await server.fetch(f"EXPLAIN {sql}", *values) for sql, values in asked]
            lines = [f"{what}: {row[0]}" for plan in plans for row in plan]
            assert any(index in line for line in lines), "\n".join(lines)
            assert not any("Seq Scan on jobs" in line for line in lines), "\n".join(lines)
        await server.close()


@contextmanager
def plans_of(part: str) -> Iterator[list[str]]:
    """How each question, or change, with that in it is gone about meanwhile, found where it is asked."""
    plans: list[str] = []

    def note(connection: Connection, _cursor: object, sql: str, parameters: Any, *_: object) -> None:
        if part in sql and not sql.startswith(EXPLAIN):
            cursor = connection.connection.cursor()
            cursor.execute(f"{EXPLAIN} {sql}", parameters)
            plans.append("\n".join(line for [line] in cursor.fetchall()))

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield plans
    finally:
        event.remove(Engine, "before_cursor_execute", note)


@contextmanager
def asked_of_jobs() -> Iterator[list[tuple[str, Any]]]:
    """The questions that are asked meanwhile, with their parameters."""
    asked: list[tuple[str, Any]] = []

    def note(_connection: object, _cursor: object, sql: str, parameters: Any, *_: object) -> None:
        if sql.startswith("SELECT") and "FROM jobs" in sql:
            asked.append((sql, parameters))

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield asked
    finally:
        event.remove(Engine, "before_cursor_execute", note)
