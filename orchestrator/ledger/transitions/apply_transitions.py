"""Transitions are written: each only where the job still is what it was made for (state, submission, attempt).

Its event, submission, outcome and counts follow in the same transaction, or nothing does.
"""

from collections.abc import Callable, Sequence
from itertools import compress
from operator import attrgetter, not_
from typing import Any, Final, NamedTuple

from sqlalchemy import bindparam, update
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.chunks.chunk_steps import is_led, riders_steps
from orchestrator.core.jobs.job import is_terminal
from orchestrator.core.jobs.lifecycle import Event
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.ledger.schema.job_columns import WrittenBy, columns_written
from orchestrator.ledger.schema.job_tables import jobs
from orchestrator.ledger.statements import Guarded, Many, placeholder
from orchestrator.ledger.transitions.chunk_rows import riders_of
from orchestrator.ledger.transitions.count_writes import counts_write
from orchestrator.ledger.transitions.event_writes import events_write
from orchestrator.ledger.transitions.execution_writes import executions_add
from orchestrator.ledger.transitions.handover_debts import owed_write
from orchestrator.ledger.transitions.outcome_writes import outcomes_forget, outcomes_write
from orchestrator.ledger.transitions.segment_writes import segments_write
from orchestrator.ledger.transitions.submission_writes import submissions_write

_BY_EACH: Final = columns_written(WrittenBy.TRANSITION)
_CHANGED: Final = (*(each.name for each in _BY_EACH), "trouble", "ended_at")

_APPLY = Guarded(
    update(jobs)
    .values({name: placeholder(position) for position, name in enumerate(_CHANGED, start=4)})
    .where(
        jobs.c.id == placeholder(0),
        jobs.c.state == placeholder(1),
        jobs.c.submission_id.is_not_distinct_from(placeholder(2)),
        jobs.c.attempt == placeholder(3),
    )
)


class AppliedSteps(NamedTuple):
    """What was written of steps."""

    steps: list[Transition]
    """Those that were not stale."""

    are_signalled: bool
    """Whether they have made anything owed that engines of other processes see to: these are to look."""


async def transitions_apply(connection: AsyncConnection, steps: Sequence[Transition]) -> AppliedSteps:
    """Writes every step that is not stale, and returns those. At most one step for each job may be among them.

    A stale answer to `/run` still leaves its remote id on its submission: it may be needed to cancel it. With the steps
    that leads of chunks take come those of their riders.
    """
    if not steps:
        return AppliedSteps([], are_signalled=False)
    done, are_signalled = await _apply(connection, steps)
    led = {step.before.chunk: step for step in done if is_led(step)}
    if led:
        taken: list[Transition] = []
        for lead, riders in (await riders_of(connection, led)).items():
            taken += riders_steps(led[lead], riders)
        if taken:
            of_riders = await _apply(connection, taken)
            done, are_signalled = [*done, *of_riders.steps], are_signalled or of_riders.are_signalled
    return AppliedSteps(done, are_signalled)


async def _apply(connection: AsyncConnection, steps: Sequence[Transition]) -> AppliedSteps:
    are_applied = await _APPLY.execute(connection, [_changes(step) for step in steps])
    done = list(compress(steps, are_applied))
    stale = [step for step in compress(steps, map(not_, are_applied)) if step.event is Event.ACCEPTED]
    await submissions_write(connection, done, stale)
    are_signalled = False
    if done:
        await events_write(connection, done, await outcomes_forget(connection, done))
        await outcomes_write(connection, done)
        await counts_write(connection, done)
        if given := [_own_settings(step) for step in done if _has_other_settings(step)]:
            await _SETTINGS.execute(connection, given)
        if moved := [_place(step) for step in done if step.before.endpoint != step.after.endpoint]:
            await _MOVE.execute(connection, moved)
        await executions_add(connection, done)
        if long := [step for step in done if step.after.segment]:
            await segments_write(connection, long)
        are_signalled = await owed_write(connection, done)
    return AppliedSteps(done, are_signalled)


_VALUES: Final = ", ".join(each.of("after") for each in _BY_EACH)
_values: Final[Callable[..., tuple[int | str | None, ...]]] = eval(  # noqa: S307  compiled once, from the names above
    "lambda before, after, trouble, ended_at: "
    f"(before.id, before.state.value, before.submission, before.attempt, {_VALUES}, trouble, ended_at)"
)


def _changes(step: Transition) -> tuple[int | str | None, ...]:
    """The guard of `step`, then its values for `_CHANGED`."""
    after = step.after
    trouble = None if step.trouble is None else step.trouble.value
    return _values(step.before, after, trouble, step.at if is_terminal(after) else None)


_OWN: Final = columns_written(WrittenBy.SETTINGS)
_SETTINGS = Many(
    update(jobs)
    .where(jobs.c.id == bindparam("b_id"))
    .values({each.name: bindparam(f"b_{each.field}") for each in _OWN})
)
_settings_of: Final = attrgetter(*(each.field for each in _OWN))

_MOVE = Many(
    update(jobs).where(jobs.c.id == bindparam("b_id")).values({jobs.c.endpoint_id.name: bindparam("b_endpoint")})
)

_GIVING: Final = frozenset({Event.REOPENED, Event.RETRIED, Event.DEFERRED})
"""The events that can give a job settings of its own."""


def _has_other_settings(step: Transition) -> bool:
    return step.event in _GIVING and _settings_of(step.before) != _settings_of(step.after)


def _place(step: Transition) -> dict[str, Any]:
    return {"b_id": step.after.id, "b_endpoint": step.after.endpoint}


def _own_settings(step: Transition) -> dict[str, Any]:
    given = zip(_OWN, _settings_of(step.after), strict=True)
    return {"b_id": step.after.id, **{f"b_{each.field}": value for each, value in given}}
