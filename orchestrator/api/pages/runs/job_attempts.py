"""The attempts of a job as bars: how long it waited here, was in the service's queue, was executed, was collected."""

from collections.abc import Iterator, Sequence
from typing import Final

from orchestrator.core.jobs.lifecycle import Event, State
from orchestrator.units import MILLISECOND_US, SECOND_US
from orchestrator.views.jobs import WholeJob
from orchestrator.views.runs.run_pages import AttemptShown
from orchestrator.views.series import Stretch

ATTEMPTS_SHOWN: Final = 50
"""The latest ones."""

_ENDS: Final = frozenset(
    {Event.RETRIED, Event.CONTINUED, Event.COMPLETED, Event.ABANDONED, Event.CANCELLED, Event.DEFERRED}
)
"""Each ends what began with a claim: an execution, or a request that was refused and costs no attempt."""


def attempts_of(job: WholeJob, taken_in_at: int) -> Sequence[AttemptShown]:
    """Those of `job`, oldest first; the first one waited from when its run was made."""
    return list(_attempts(job, taken_in_at))[-ATTEMPTS_SHOWN:]


def longest_s(attempts: Sequence[AttemptShown]) -> float:
    """How long the longest of them took, as far as that is known."""
    return max((sum(max(0.0, part.seconds or 0.0) for part in each.stretches) for each in attempts), default=0.0)


def _attempts(job: WholeJob, due_at: int) -> Iterator[AttemptShown]:
    failed = {each.attempt: each for each in job.failed_executions}
    claimed_at: int | None = None
    for step in job.timeline:
        if step.event == Event.CLAIMED:
            claimed_at = step.at
        elif step.event == Event.REOPENED:
            due_at = step.at
        elif step.event in _ENDS:
            is_last = step is job.timeline[-1] or job.job.ended_at == step.at
            said = failed.get(step.attempt) if step.event == Event.RETRIED else None
            execution_ms = said.execution_ms if said else job.execution_ms if is_last else None
            delay_ms = job.delay_ms if is_last else None
            yield AttemptShown(
                attempt=step.attempt,
                began_at=due_at,
                ended_at=step.at,
                ended=step.class_ or step.event,
                stretches=_stretches(due_at, claimed_at, step.at, delay_ms, execution_ms),
                error=said.error if said else "",
            )
            due_at, claimed_at = step.at, None
    if claimed_at is not None and job.job.state != State.QUEUED:
        waited_s = max(0, claimed_at - due_at) / SECOND_US
        stretches = (Stretch(kind="waiting", seconds=waited_s), Stretch(kind="queue", seconds=None))
        yield AttemptShown(
            attempt=job.timeline[-1].attempt, began_at=due_at, ended_at=None, ended=None, stretches=stretches
        )


def _stretches(
    due_at: int, claimed_at: int | None, ended_at: int, delay_ms: int | None, execution_ms: int | None
) -> Sequence[Stretch]:
    if claimed_at is None:
        return (Stretch(kind="waiting", seconds=max(0, ended_at - due_at) / SECOND_US),)
    waiting = Stretch(kind="waiting", seconds=max(0, claimed_at - due_at) / SECOND_US)
    there_us = max(0, ended_at - claimed_at)
    if execution_ms is None:
        return waiting, Stretch(kind="queue", seconds=there_us / SECOND_US), Stretch(kind="execution", seconds=None)
    executed_us = min(there_us, execution_ms * MILLISECOND_US)
    queued_us = there_us - executed_us if delay_ms is None else min(there_us - executed_us, delay_ms * MILLISECOND_US)
    late_us = there_us - executed_us - queued_us
    return (
        waiting,
        Stretch(kind="queue", seconds=queued_us / SECOND_US),
        Stretch(kind="execution", seconds=executed_us / SECOND_US),
        *([Stretch(kind="collecting", seconds=late_us / SECOND_US)] if delay_ms is not None else []),
    )
