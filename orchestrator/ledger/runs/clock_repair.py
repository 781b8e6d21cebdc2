"""What a process whose clock was ahead has left: nothing that is read from the ledger may lie in the future.

Within a process `orchestrator.clock` never goes back.

A time that does is of such a process. Whoever believed it would wait until then, for an hour perhaps, and take results
for safe that are gone. So it is brought back, before anything is read, to the latest that it can be: what has happened
to the present, a wait to the longest that there is. That a job was last seen unfinished in the future says nothing at
all: 0, and the collector asks for it at once. A test sees that each time of each table has its place here.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from sqlalchemy import (
    INTEGER,
    Column,
    ColumnElement,
    Integer,
    Select,
    Table,
    bindparam,
    delete,
    func,
    literal_column,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.clock import JUMP_US_MIN
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.jobs.retry import BACKOFF_S_MAX
from orchestrator.ledger.expressions import greatest, least
from orchestrator.ledger.runs.heartbeats import STALE_US
from orchestrator.ledger.schema import posted_tables  # noqa: F401  the times of all tables are looked at
from orchestrator.ledger.schema.flow_tables import flows, outbox, run_outbox
from orchestrator.ledger.schema.job_tables import events, heartbeats, jobs, metadata, run_endpoints, runs, submissions
from orchestrator.ledger.schema.pod_tables import pod_leases
from orchestrator.ledger.schema.sample_tables import endpoint_samples, process_totals, run_samples
from orchestrator.units import SECOND_US

WAIT_US_MAX: Final = BACKOFF_S_MAX * SECOND_US
"""What is queued, or is owed a `/cancel`, is put off for no longer."""

KEPT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "events.at": "the story of a job, as whoever wrote it saw the time; nothing waits for it",
        "jobs.ended_at": "the time of its last event, with which it is compared",
        "intakes.started_at": "who takes rows in tells by it that they are still its own",
        "intakes.accepted_at": "the same, of one whose jobs count as they come",
        "outbox.owed_at": "a message is called after it: its receiver would take another one for another message",
        "run_outbox.owed_at": "the same",
        "schedules.watermark": "the fires until then are recorded, and must not be a second time",
        "schedules.paused_until": "people said so",
        "fires.fire_at": "the time of a calendar",
        "flows.fire_at": "the time of a calendar",
        "gaps.after_at": "the time of a calendar",
        "gaps.until_at": "the time of a calendar",
        "gaps.first_at": "the time of a calendar",
        "posted_files.expires_at": "its sender was told so",
        "posted_batches.expires_at": "its sender was told so",
    }
)
"""The times that may lie ahead whatever clocks say, and why."""

_LATEST: Final = select(
    greatest(
        # Not its number, which is ahead of its claim where many were claimed at once.
        func.coalesce(select(submissions.c.sent_at).order_by(submissions.c.id.desc()).limit(1).scalar_subquery(), 0),
        select(func.coalesce(func.max(heartbeats.c.beaten_at), 0)).scalar_subquery(),
        select(func.coalesce(func.max(pod_leases.c.wanted_at), 0)).scalar_subquery(),
        func.coalesce(select(events.c.at).order_by(events.c.id.desc()).limit(1).scalar_subquery(), 0),
    )
)

_queued = jobs.alias("queued")


def _queued_at(served: Table, run: ColumnElement[int]) -> Select[tuple[int]]:
    """The queued jobs of runs at endpoints, as `served` has both, that are due after `latest`."""
    here = (_queued.c.run_id == run) & (_queued.c.endpoint_id == served.c.endpoint_id)
    return (
        select(_queued.c.id)
        .select_from(served.join(_queued, here))
        .where(
            _queued.c.state == literal_column(f"'{State.QUEUED}'"),
            _queued.c.due_at > bindparam("latest"),
        )
    )


_QUEUED: Final = (
    update(jobs)
    .values(due_at=bindparam("latest"))
    .where(jobs.c.id.in_(_queued_at(runs, runs.c.id).union_all(_queued_at(run_endpoints, run_endpoints.c.run_id))))
)
_UNCERTAIN: Final = (
    update(jobs)
    .values(due_at=greatest(jobs.c.due_at - bindparam("ahead"), bindparam("now")))
    .where(jobs.c.state == literal_column(f"'{State.UNCERTAIN}'"), jobs.c.due_at > bindparam("now"))
)
_SENT: Final = (
    update(submissions)
    .values(sent_at=bindparam("now"), ttl_at=submissions.c.ttl_at - (submissions.c.sent_at - bindparam("now")))
    .where(submissions.c.sent_at > bindparam("now"))
)
_CANCELS: Final = (
    update(submissions)
    .values(cancel_at=bindparam("latest"))
    .where(submissions.c.cancel_at.is_not(None), submissions.c.cancel_at > bindparam("latest"))
)
_UNFINISHED: Final = (
    update(jobs).values(unfinished_at=literal_column("0")).where(jobs.c.unfinished_at > bindparam("now"))
)
_RETRIES: Final = (
    update(jobs)
    .values(retry_until=greatest(jobs.c.retry_until - bindparam("ahead"), bindparam("now")))
    .where(jobs.c.retry_until > bindparam("now"))
)
_FLOWS: Final = (
    update(flows)
    .values(due_at=least(flows.c.due_at, greatest(flows.c.fire_at, bindparam("now"))))
    .where(flows.c.due_at > bindparam("now"))
)
_MESSAGES: Final = tuple(
    update(table)
    .values(due_at=greatest(table.c.due_at - bindparam("ahead"), bindparam("now")))
    .where(table.c.due_at > bindparam("now"))
    for table in (outbox, run_outbox)
)
_HEARTBEATS: Final = (
    update(heartbeats)
    .values(began_at=least(heartbeats.c.began_at, bindparam("stale", type_=INTEGER)), beaten_at=bindparam("stale"))
    .where(heartbeats.c.beaten_at > bindparam("now"))
)
"""Whoever said that does not live, or it would hold the ledger: it must not pass for a process at work for an hour."""


def _samples_brought_back(table: Table) -> Iterator[Any]:
    """Of samples in the future the last one of each is kept, for what its counters have come to, and is of now."""
    of, at = next(iter(table.primary_key.columns)), table.c.at
    later = table.alias("later")
    newer = (at < later.c.at) | ((at == later.c.at) & (table.c.step_s < later.c.step_s))
    of_same = later.c[of.name] == of
    yield delete(table).where(at > bindparam("now"), select(later.c.at).where(of_same, newer).exists())
    of_step = later.c.step_s == table.c.step_s
    its_time = at == bindparam("now")
    yield delete(table).where(its_time, select(later.c.at).where(of_same, of_step, later.c.at > at).exists())
    yield update(table).values(at=bindparam("now")).where(at > bindparam("now"))


_SAMPLES: Final = tuple(
    statement for table in (run_samples, endpoint_samples, process_totals) for statement in _samples_brought_back(table)
)

_WAITS: Final = (_QUEUED, _UNCERTAIN, _SENT, _CANCELS, _UNFINISHED, _RETRIES, _FLOWS, *_MESSAGES, _HEARTBEATS)

BROUGHT_BACK: Final = frozenset(
    {
        *("jobs.due_at", "jobs.unfinished_at", "jobs.retry_until"),
        *("flows.due_at", "outbox.due_at", "run_outbox.due_at"),
        *("submissions.sent_at", "submissions.ttl_at", "submissions.cancel_at"),
        *("heartbeats.began_at", "heartbeats.beaten_at"),
        *("run_samples.at", "endpoint_samples.at", "process_totals.at"),
    }
)
"""The times that have a statement of their own. All others tell when something happened: now, at the latest."""


def times() -> Iterator[Column[Any]]:
    """All columns of a ledger that hold a time, by their names."""
    for table in metadata.sorted_tables:
        for column in table.columns:
            is_time = column.name in ("at", "watermark") or column.name.endswith(("_at", "_until"))
            if isinstance(column.type, Integer) and is_time:
                yield column


def _happened() -> Iterator[Any]:
    for column in times():
        if str(column) not in KEPT and str(column) not in BROUGHT_BACK:
            changes: dict[str, Any] = {column.name: bindparam("now")}
            yield update(column.table).values(changes).where(column > bindparam("now"))


_HAPPENED: Final = (*_SAMPLES, *_happened())


async def bring_back(connection: AsyncConnection, *, now: int) -> int:
    """Brings back what lies in the future; returns by how much the latest time was ahead, 0 where none was.

    A submission's number stays: it is only a name, and later ones get larger ones.
    """
    ahead: int = (await connection.execute(_LATEST)).scalar_one() - now
    if ahead <= JUMP_US_MIN:
        return 0
    bounds = {"now": now, "ahead": ahead, "latest": now + WAIT_US_MAX, "stale": now - STALE_US - 1}
    for statement in (*_WAITS, *_HAPPENED):
        await connection.execute(
            statement, {name: bounds[name] for name in statement.compile(dialect=connection.dialect).params}
        )
    return ahead
