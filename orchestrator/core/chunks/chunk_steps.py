"""What becomes of the rows of a chunk. The first of them, its lead, has the submission as any job has: it is asked for,
settled and cancelled. The others, its riders, take each step that it takes, in the same transaction; but once it has
ended, each has a step of its own.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from orchestrator.core.jobs.job import Job, Outcome
from orchestrator.core.jobs.lifecycle import Event
from orchestrator.core.jobs.reasons import Detail, ReasonCode
from orchestrator.core.jobs.transition_type import AT_SERVICE, Transition, transition
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.service.job_record import Record
from orchestrator.core.text.error_text import summary_of
from orchestrator.core.text.wording import shortened

BECAUSE_CHARS_MAX: Final = 300
UNTOLD: Final = "its chunk has ended, and nothing was told of this row"


def claimed_together(step: Transition, *, lead: int, rows: int) -> Transition:
    """The claim `step` of a row that is to travel in a chunk of so many `rows`, whose first submission is `lead`."""
    reason = ReasonCode.CHUNK if step.reason is ReasonCode.RUN else step.reason
    return replace(step, reason=reason, after=replace(step.after, chunk=lead, chunk_rows=rows))


def is_led(step: Transition) -> bool:
    """Whether other rows take the `step`, too."""
    return step.before.has_riders and step.before.state in AT_SERVICE


def with_riders(steps: Sequence[Transition]) -> Transition:
    """The first of `steps`, the lead's, which carries those of its riders: they are written if it is."""
    lead, *riders = steps
    return replace(lead, riders=tuple(riders)) if riders else lead


def riders_steps(step: Transition, riders: Iterable[Job]) -> list[Transition]:
    """What the `step` of a lead makes of its `riders`, as they are now; of those that have left it before, nothing."""
    own = {each.before.id: each for each in step.riders}
    there = [rider for rider in riders if rider.state is step.before.state]
    return [own[rider.id] if rider.id in own else _ridden(step, rider) for rider in there]


def _ridden(step: Transition, rider: Job) -> Transition:
    """The same step, of a rider. Where the lead's was about itself alone, the rider is sent anew."""
    before, after = step.before, step.after
    if step.riders or step.event is Event.COMPLETED:
        made = halved(rider, FailureClass.INVALID_OUTPUT, because=UNTOLD, due_at=step.at, at=step.at)
        return replace(made, is_ridden=True)
    same = replace(
        rider,
        state=after.state,
        endpoint=after.endpoint,
        attempt=max(0, rider.attempt + after.attempt - before.attempt),
        failures=rider.failures + after.failures - before.failures,
        lost=rider.lost + after.lost - before.lost,
        uncertain=rider.uncertain + after.uncertain - before.uncertain,
        expired=rider.expired + after.expired - before.expired,
        deferrals=after.deferrals,
        due_at=after.due_at,
        retry_until=None,
        sent_at=after.sent_at,
        ttl_at=after.ttl_at,
        unfinished_at=after.unfinished_at,
        escalated=after.escalated,
        chunk_most=after.chunk_most,
    )
    return replace(
        step,
        before=rider,
        after=same,
        outcome=_of(rider, step.outcome),
        previous_outcome=_of(rider, step.previous_outcome),
        failure=None,
        is_ridden=True,
    )


def _of(rider: Job, outcome: Outcome | None) -> Outcome | None:
    return None if outcome is None else replace(outcome, submission=rider.submission)


def halved(
    job: Job,
    trouble: FailureClass,
    *,
    because: str,
    due_at: int,
    at: int,
    previous_outcome: Outcome | None = None,
) -> Transition:
    """The chunk of `job` came to nothing through `trouble`, and nobody knows through which row: each of them goes
    again, in chunks of half as many, and that costs none of its attempts.
    """
    return transition(
        job,
        Event.RETRIED,
        ReasonCode.CHUNK_HALVED,
        at,
        detail=_detail(because, is_free=True),
        trouble=trouble,
        due_at=due_at,
        retry_until=None,
        previous_outcome=previous_outcome,
        chunk_most=_half(job),
    )


def halved_unsent(job: Job, *, because: str, at: int) -> Transition:
    """The same of a chunk that the service would not have, or that could not be made: nothing was executed."""
    return transition(
        job,
        Event.DEFERRED,
        ReasonCode.CHUNK_HALVED,
        at,
        detail=_detail(because),
        attempt=job.attempt - 1,
        due_at=at,
        retry_until=None,
        chunk_most=_half(job),
    )


def _half(job: Job) -> int:
    return max(1, job.chunk_rows // 2)


def _detail(because: str, *, is_free: bool = False) -> Detail:
    return Detail(because=shortened(summary_of(because), BECAUSE_CHARS_MAX), is_free=is_free)


def share_of(record: Record, place: int, rows: int) -> Record:
    """`record` of a whole chunk, with the part of its execution time that counts for the row at `place`: all of them
    together come to the whole.
    """
    if record.execution_ms is None:
        return record
    whole = record.execution_ms
    return replace(record, execution_ms=whole * (place + 1) // rows - whole * place // rows)
