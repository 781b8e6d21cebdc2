"""A transition of a job: what it was, what it becomes, and why; and what that leaves behind at the service.

Transitions are made by the named constructors in `transitions` only. The ledger applies one only if the job still is
what it was (`id`, state, submission, attempt); else it is stale, and nothing is written.
"""

from typing import Final, TypedDict, Unpack

import msgspec

from orchestrator.core.jobs.job import Job, Outcome, is_terminal
from orchestrator.core.jobs.lifecycle import Event, State, next_state
from orchestrator.core.jobs.reasons import Detail, Reason
from orchestrator.core.jobs.segments import Report, SegmentEnd
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.service.job_record import Failure, Record
from orchestrator.core.service.outcomes import TERMINAL_STATUSES
from orchestrator.core.service.webhook_token import Notice


class Transition(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One event in the life of a job: what it was, what it becomes, and why."""

    before: Job
    after: Job
    event: Event
    reason: Reason
    at: int
    detail: Detail | None = None
    trouble: FailureClass | None = None
    outcome: Outcome | None = None
    failure: Failure | None = None
    """The execution that a `/retry` is to follow, to be recognised should that not be applied."""

    report: Report | None = None
    """What the worker of a segment said as it gave the job back."""

    execution_ms: int | None = None
    """How long a worker had the segment that ends."""

    previous_outcome: Outcome | None = None
    """What is known of an execution that another one is to follow."""

    riders: tuple["Transition", ...] = ()
    """Of the lead of a chunk that has ended: the steps of the others in it. They are written if this one is."""

    is_ridden: bool = False
    """Whether it is that of another job in the same chunk, by which requests and executions are counted."""


class Counters(TypedDict, total=False):
    """The counters that troubles raise."""

    failures: int
    lost: int
    expired: int


class Changes(Counters, total=False):
    """What a step may change besides the state."""

    endpoint: int
    uncertain: int
    submission: int
    attempt: int
    deferrals: int
    due_at: int
    retry_until: int | None
    remote_id: str | None
    first_attempt: int
    sent_at: int
    ttl_at: int | None
    unfinished_at: int
    attempts_max: int | None
    policy: bytes | None
    escalated: bytes | None
    segment: int
    retention_us: int | None
    batch: int | None
    chunk: int | None
    chunk_rows: int
    chunk_most: int | None


def transition(
    job: Job,
    event: Event,
    reason: Reason,
    at: int,
    *,
    detail: Detail | None = None,
    trouble: FailureClass | None = None,
    outcome: Outcome | None = None,
    failure: Failure | None = None,
    end: SegmentEnd | None = None,
    previous_outcome: Outcome | None = None,
    **changes: Unpack[Changes],
) -> Transition:
    """What `event` makes of `job`, with these changes besides the state. Raises `IllegalStep`."""
    state = next_state(job.state, event)
    after: Job = msgspec.structs.replace(job, state=state, **changes)
    return Transition(
        before=job,
        after=after,
        event=event,
        reason=reason,
        at=at,
        detail=detail,
        trouble=trouble,
        outcome=outcome,
        failure=failure,
        previous_outcome=previous_outcome,
        report=None if end is None else end.report,
        execution_ms=None if end is None else end.execution_ms,
    )


AT_SERVICE: Final = (State.OUTSTANDING, State.SUBMITTING, State.UNCERTAIN)
"""Where the service may have the latest submission."""


def leaves_extra(step: Transition) -> bool:
    """Whether `step` takes the result of an earlier submission, or execution, while the latest one is at the service.

    That one is too many. It is paid unless it is uncertain, and then it may be. So may an execution by a `/retry` that
    is on its way: the result may even be its own.
    """
    before = step.before
    if step.event is not Event.COMPLETED or before.state not in AT_SERVICE:
        return False
    return not is_of_latest(step) or (before.state is State.SUBMITTING and before.by_retry)


def leaves_in_doubt(step: Transition) -> bool:
    """Whether `step` gives up a submission that the service may hold: the job is cancelled while nobody can name it, or
    is sent anew as nothing of its endpoint can be heard.
    """
    before = step.before.state
    if step.event is Event.CANCELLED:
        return before is State.UNCERTAIN
    return step.event is Event.RETRIED and step.trouble is FailureClass.UNCERTAIN and before is State.OUTSTANDING


def is_of_latest(step: Transition) -> bool:
    """Whether the result that `step` takes is of the job's latest submission."""
    return step.outcome is not None and step.outcome.submission == step.before.submission


def names_late(step: Transition) -> bool:
    """Whether `step` tells what the service calls the latest submission of a job that was given up without knowing."""
    return is_terminal(step.before) and step.before.remote_id is None and is_of_latest(step)


def late_notice(step: Transition) -> Notice | None:
    """What the service has told of the latest submission by the answer that `step` was made of, as a webhook would tell
    it: for whoever works in our place by now. None where it tells the same again to anybody who asks.
    """
    before = step.before
    if before.submission is None or before.state not in AT_SERVICE or before.is_carried:
        return None
    told = step.outcome or step.previous_outcome
    record = None if told is None or told.submission != before.submission else _record_of(told)
    remote_id = step.after.remote_id if told is None else told.remote_id
    if record is None and before.remote_id is None and remote_id is not None:
        record = Record(remote_id=remote_id, status="IN_QUEUE")
    return None if record is None else Notice(submission=before.submission, received_at=step.at, record=record)


def _record_of(told: Outcome) -> Record | None:
    """The record that `told` was made of; None where it says no end, or its output is not as it was told."""
    is_changed = told.status == "COMPLETED" and (told.trouble is not None or told.saved)
    if told.status not in TERMINAL_STATUSES or is_changed:
        return None
    return Record(
        remote_id=told.remote_id,
        status=told.status,
        output=told.output,
        error=told.message,
        delay_ms=told.delay_ms,
        execution_ms=told.execution_ms,
        worker_id=told.worker,
    )
