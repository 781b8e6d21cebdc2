"""How a server goes about what is asked most: it goes to where the sought jobs are, wherever most others are."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine

from orchestrator.core.filters.filter_parser import parse
from orchestrator.core.jobs.lifecycle import State
from orchestrator.ledger import Ledger
from orchestrator.ledger.jobs.claim_queue import ClaimLine, Passed
from orchestrator.ledger.postgres.connection import LineBounds
from orchestrator.settings.run_settings import RunSettings
from orchestrator.units import DAY_US, MIB
from tests.factories import a_row
from tests.ledger.ledgers import added
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


async def taken_in(ledger: Ledger) -> None:
    """Rows of a run of which the server knows nothing yet."""
    run = await ledger.runs.create(name="new", service_url="u", endpoint="e", source="-", settings=RunSettings())
    await added(ledger, await ledger.runs.intakes.start(run), [a_row(1)])


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
    "known ids of a new run": ("((run_id = '2'::bigint) AND (custom_id >=", taken_in),
    "in the order of its lines": ("jobs_in_line", in_order),
}


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
