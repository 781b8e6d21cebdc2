"""Transitions are written: each only where the job still is what it was made for (state, submission, attempt).

Its event, submission, outcome and counts follow in the same transaction, or nothing does.
"""

from collections.abc import Sequence
from itertools import compress
from operator import not_
from typing import Any, Final

from sqlalchemy import bindparam, update
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.jobs.job import (
    Job,
    Transition,
    is_terminal,
)
from orchestrator.core.jobs.lifecycle import Event
from orchestrator.ledger.schema.job_tables import jobs
from orchestrator.ledger.sqlite.statements import (
    Guarded,
    Many,
    place,
)
from orchestrator.ledger.transitions.count_writes import counts_write
from orchestrator.ledger.transitions.event_writes import events_write
from orchestrator.ledger.transitions.execution_totals import executions_add
from orchestrator.ledger.transitions.handover_debts import owed_write
from orchestrator.ledger.transitions.outcome_writes import outcomes_forget, outcomes_write
from orchestrator.ledger.transitions.segment_writes import segments_write
from orchestrator.ledger.transitions.submission_writes import submissions_write

_CHANGED: Final = (
    "state",
    "submission_id",
    "attempt",
    "failures",
    "lost",
    "uncertain",
    "expired",
    "deferrals",
    "due_at",
    "retry_until",
    "unfinished_at",
    "trouble",
    "ended_at",
)

_APPLY = Guarded(
    update(jobs)
    .values({name: place(position) for position, name in enumerate(_CHANGED, start=4)})
    .where(
        jobs.c.id == place(0),
        jobs.c.state == place(1),
        jobs.c.submission_id.is_not_distinct_from(place(2)),
        jobs.c.attempt == place(3),
    )
)


async def transitions_apply(connection: AsyncConnection, steps: Sequence[Transition]) -> list[Transition]:
    """Writes every step that is not stale, and returns those. At most one step for each job may be among them.

    A stale answer to `/run` still leaves its remote id on its submission: it may be needed to cancel it.
    """
    if not steps:
        return []
    are_applied = await _APPLY.execute(connection, [_changes(step) for step in steps])
    done = list(compress(steps, are_applied))
    stale = [step for step in compress(steps, map(not_, are_applied)) if step.event is Event.ACCEPTED]
    await submissions_write(connection, done, stale)
    if done:
        await events_write(connection, done, await outcomes_forget(connection, done))
        await outcomes_write(connection, done)
        await counts_write(connection, done)
        if given := [_own_settings(step) for step in done if _has_other_settings(step)]:
            await _SETTINGS.execute(connection, given)
        await executions_add(connection, done)
        if long := [step for step in done if step.after.segment]:
            await segments_write(connection, long)
        await owed_write(connection, done)
    return done


def _changes(step: Transition) -> tuple[int | str | None, ...]:
    """The guard of `step`, then its values for `_CHANGED`."""
    before, after = step.before, step.after
    return (
        before.id,
        before.state.value,
        before.submission,
        before.attempt,
        after.state.value,
        after.submission,
        after.attempt,
        after.failures,
        after.lost,
        after.uncertain,
        after.expired,
        after.deferrals,
        after.due_at,
        after.retry_until,
        after.unfinished_at,
        None if step.trouble is None else step.trouble.value,
        step.at if is_terminal(after) else None,
    )


_SETTINGS = Many(
    update(jobs)
    .where(jobs.c.id == bindparam("b_id"))
    .values(
        endpoint_id=bindparam("b_endpoint"),
        attempts_max=bindparam("b_attempts_max"),
        policy=bindparam("b_policy"),
        escalated=bindparam("b_escalated"),
    )
)


def _has_other_settings(step: Transition) -> bool:
    before, after = step.before, step.after
    return step.event in _GIVING and _settings_of(before) != _settings_of(after)


_GIVING: Final = frozenset({Event.REOPENED, Event.RETRIED})
"""The events that can give a job settings of its own."""


def _settings_of(job: Job) -> tuple[int, int | None, bytes | None, bytes | None]:
    return job.endpoint, job.attempts_max, job.policy, job.escalated


def _own_settings(step: Transition) -> dict[str, Any]:
    after = step.after
    return {
        "b_id": after.id,
        "b_endpoint": after.endpoint,
        "b_attempts_max": after.attempts_max,
        "b_policy": after.policy,
        "b_escalated": after.escalated,
    }
