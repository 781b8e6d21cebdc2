"""The transitions (steps) that a job can take, each by a constructor of its own.

Each takes exactly what it needs, asks the lifecycle table for the next state, and returns the job as it will be.
"""

from typing import Final

from orchestrator.core.jobs.job import Escalation, Job, Outcome, Overrides
from orchestrator.core.jobs.lifecycle import Event, State
from orchestrator.core.jobs.reasons import Detail, Reason, ReasonCode
from orchestrator.core.jobs.segments import SegmentEnd
from orchestrator.core.jobs.transition_type import Counters, Transition, transition
from orchestrator.core.lanes.sync_requests import SYNC_RETENTION_US
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.service.job_record import Failure

RUN_CANCELLED: Final = "the run was cancelled"
"""What the errors file says of its jobs."""

RUN_CANCELLED_UNCERTAIN: Final = f"{RUN_CANCELLED}; the answer to its submission never came"

JOB_CANCELLED: Final = "it was cancelled on request"
JOB_CANCELLED_UNCERTAIN: Final = f"{JOB_CANCELLED}; the answer to its submission never came"
"""The same of a job that was cancelled without its run."""


def claimed(
    job: Job,
    *,
    submission: int,
    ttl_us: int,
    at: int,
    is_resumable: bool = False,
    endpoint: int | None = None,
    is_sync: bool = False,
    batch: int | None = None,
) -> Transition:
    """The job is about to be sent by `/run` as a new submission: if it is resumable, as a new segment. It is at
    `endpoint` from now on, or (None) where it was. `is_sync`: it is sent by `/runsync`; `batch`: in that batch.
    """
    return transition(
        job,
        Event.CLAIMED,
        ReasonCode.BATCH if batch is not None else ReasonCode.RUNSYNC if is_sync else ReasonCode.RUN,
        at,
        batch=batch,
        chunk=None,
        chunk_rows=0,
        retention_us=SYNC_RETENTION_US if is_sync else None,
        endpoint=job.endpoint if endpoint is None else endpoint,
        submission=submission,
        attempt=job.attempt + 1,
        first_attempt=job.attempt + 1,
        remote_id=None,
        retry_until=None,
        sent_at=at,
        ttl_at=at + ttl_us,
        unfinished_at=at,
        segment=job.segment + 1 if is_resumable else job.segment,
    )


def claimed_for_retry(job: Job, *, at: int) -> Transition:
    """The job is about to be sent by `/retry` of its latest submission."""
    return transition(job, Event.CLAIMED, ReasonCode.RETRY, at, attempt=job.attempt + 1, unfinished_at=at)


def accepted(
    job: Job,
    *,
    remote_id: str,
    sent_at: int,
    at: int,
    ttl_us: int | None = None,
    reason: ReasonCode = ReasonCode.RUN,
    unfinished_at: int | None = None,
) -> Transition:
    """The service answered with a usable id. `sent_at` is when that request left; `ttl_us` for how long it lasts there,
    where more is known of that than as it was claimed. `unfinished_at`: the latest time at which it was certainly not
    finished, where that is later.
    """
    if ttl_us is None and job.ttl_at is not None and job.sent_at is not None:
        ttl_us = job.ttl_at - job.sent_at
    ttl_at = None if ttl_us is None else sent_at + ttl_us
    return transition(
        job,
        Event.ACCEPTED,
        reason,
        at,
        remote_id=remote_id,
        sent_at=sent_at,
        ttl_at=ttl_at,
        unfinished_at=sent_at if unfinished_at is None else unfinished_at,
        deferrals=0,
        due_at=0,
    )


def accepted_for_retry(job: Job, *, sent_at: int, at: int, answered: bool = True) -> Transition:
    """The service took the `/retry`, or did not answer it: its remote id is known, so `/status` decides."""
    reason = ReasonCode.RETRY if answered else ReasonCode.RETRY_UNANSWERED
    return transition(job, Event.ACCEPTED, reason, at, retry_until=None, unfinished_at=sent_at, deferrals=0, due_at=0)


def refused_for_retry(job: Job, *, at: int) -> Transition:
    """The service made no `/retry` of a job that it knows: before another `/run`, `/status` tells how it really is."""
    return transition(job, Event.ACCEPTED, ReasonCode.RETRY_REFUSED, at, retry_until=None, deferrals=0, due_at=0)


def unanswered(job: Job, *, settle_at: int, reason: Reason, at: int) -> Transition:
    """A `/run` left and no usable answer came. It is settled at `settle_at` unless a webhook adopts it before.

    The service's silence is one of the job's uncertain tries.
    """
    return transition(
        job,
        Event.UNANSWERED,
        reason,
        at,
        trouble=FailureClass.UNCERTAIN,
        uncertain=job.uncertain + 1,
        due_at=settle_at,
        deferrals=0,
    )


def left_unanswered(job: Job, *, settle_at: int, reason: Reason, at: int) -> Transition:
    """The same, but it was us who ended before an answer could come: that costs the job none of its tries."""
    return transition(job, Event.UNANSWERED, reason, at, trouble=FailureClass.UNCERTAIN, due_at=settle_at, deferrals=0)


def deferred(
    job: Job,
    *,
    due_at: int,
    reason: Reason,
    at: int,
    trouble: FailureClass | None = None,
    retry_until: int | None = None,
) -> Transition:
    """The request had no effect: the attempt is given back. `trouble` None means that we were interrupted.

    `retry_until` is given by a `/retry` that is to be repeated; without it the next attempt is a `/run`.
    """
    deferrals = job.deferrals + 1 if trouble is not None else job.deferrals
    return transition(
        job,
        Event.DEFERRED,
        reason,
        at,
        trouble=trouble,
        attempt=job.attempt - 1,
        due_at=due_at,
        deferrals=deferrals,
        retry_until=retry_until,
    )


def adopted(job: Job, *, remote_id: str, at: int) -> Transition:
    """A webhook told the remote id of the latest submission before, or instead of, the answer to its `/run`."""
    return transition(job, Event.ADOPTED, "webhook", at, remote_id=remote_id, due_at=0, retry_until=None)


def retried(
    job: Job,
    trouble: FailureClass,
    *,
    due_at: int,
    retry_until: int | None,
    reason: Reason,
    at: int,
    failure: Failure | None = None,
    end: SegmentEnd | None = None,
    escalation: Escalation | None = None,
    previous_outcome: Outcome | None = None,
) -> Transition:
    """The current execution came to nothing; the next is due at `due_at`, by `/retry` until `retry_until` if given:
    not where an `escalation` gives it anything, since `/retry` would do what was done before.
    """
    is_free = escalation is not None and escalation.is_free
    detail = None
    if escalation is not None and (is_free or escalation.description):
        detail = Detail(settings=escalation.description, is_free=is_free)
    return transition(
        job,
        Event.RETRIED,
        reason,
        at,
        endpoint=job.endpoint if escalation is None else escalation.endpoint,
        escalated=job.escalated if escalation is None else escalation.escalated,
        detail=detail,
        trouble=trouble,
        due_at=due_at,
        retry_until=retry_until,
        end=end,
        previous_outcome=previous_outcome,
        failure=None if retry_until is None else failure,
        **({} if is_free else _counted(job, trouble)),
    )


def continued(
    job: Job,
    end: SegmentEnd,
    *,
    due_at: int,
    reason: Reason,
    at: int,
    trouble: FailureClass | None = None,
    previous_outcome: Outcome | None = None,
) -> Transition:
    """A segment has come further and ended without a result, through `trouble` if it did not by itself: fresh counters,
    since whatever went wrong was got over.
    """
    return transition(
        job,
        Event.CONTINUED,
        reason,
        at,
        trouble=trouble,
        previous_outcome=previous_outcome,
        end=end,
        due_at=due_at,
        retry_until=None,
        failures=0,
        lost=0,
        uncertain=0,
        expired=0,
        deferrals=0,
    )


def completed(
    job: Job,
    outcome: Outcome,
    *,
    reason: Reason,
    at: int,
    detail: Detail | None = None,
    end: SegmentEnd | None = None,
    failures: int | None = None,
) -> Transition:
    """A result, from any submission of the job, also where it had been given up; `failures` if that was one of them."""
    return transition(
        job,
        Event.COMPLETED,
        reason,
        at,
        detail=detail,
        outcome=outcome,
        end=end,
        due_at=0,
        retry_until=None,
        failures=job.failures if failures is None else failures,
    )


def revoked(job: Job, outcome: Outcome, *, at: int) -> Transition:
    """What the job has succeeded with is no result by now. `outcome.trouble` says what it is."""
    trouble = outcome.trouble or FailureClass.INVALID_OUTPUT
    return transition(
        job, Event.REVOKED, ReasonCode.REVALIDATED, at, trouble=trouble, outcome=outcome, **_counted(job, trouble)
    )


def abandoned(job: Job, outcome: Outcome, *, reason: Reason, at: int, end: SegmentEnd | None = None) -> Transition:
    """The job has failed for good. `outcome.trouble` says why."""
    trouble = outcome.trouble or FailureClass.FAILED
    counted = _counted(job, trouble)
    attempt = job.attempt - 1 if trouble is FailureClass.REJECTED and job.state is State.SUBMITTING else job.attempt
    return transition(
        job,
        Event.ABANDONED,
        reason,
        at,
        trouble=trouble,
        outcome=outcome,
        end=end,
        attempt=attempt,
        due_at=0,
        retry_until=None,
        **counted,
    )


def cancelled(job: Job, outcome: Outcome, *, reason: Reason, at: int, end: SegmentEnd | None = None) -> Transition:
    """Stopped by a person, here or at the service."""
    return transition(
        job,
        Event.CANCELLED,
        reason,
        at,
        trouble=FailureClass.CANCELLED,
        outcome=outcome,
        end=end,
        due_at=0,
        retry_until=None,
    )


def cancelled_on_request(job: Job, *, at: int, alone: bool = False) -> Transition:
    """`job` is of a run that somebody has cancelled; or `alone` was."""
    told, told_uncertain = (
        (JOB_CANCELLED, JOB_CANCELLED_UNCERTAIN) if alone else (RUN_CANCELLED, RUN_CANCELLED_UNCERTAIN)
    )
    outcome = Outcome(
        submission=job.submission,
        remote_id=job.remote_id,
        status=None,
        trouble=FailureClass.CANCELLED,
        message=told_uncertain if job.state is State.UNCERTAIN else told,
    )
    return cancelled(job, outcome, reason=ReasonCode.JOB_CANCELLED if alone else ReasonCode.RUN_CANCELLED, at=at)


def reopened(job: Job, *, at: int, overrides: Overrides = Overrides()) -> Transition:  # noqa: B008  it is frozen
    """A person asked to try again: fresh counters, a new submission."""
    return transition(
        job,
        Event.REOPENED,
        ReasonCode.REQUESTED,
        at,
        detail=Detail(settings=overrides.description) if overrides.description else None,
        failures=0,
        lost=0,
        uncertain=0,
        expired=0,
        deferrals=0,
        due_at=0,
        retry_until=None,
        endpoint=job.endpoint if overrides.endpoint is None else overrides.endpoint,
        attempts_max=overrides.attempts_max,
        policy=overrides.policy,
        escalated=None,
    )


def _counted(job: Job, trouble: FailureClass) -> Counters:
    """The counter that `trouble` raises by one. Uncertain tries are counted as they begin, see `unanswered`."""
    match trouble:
        case FailureClass.FAILED | FailureClass.TIMED_OUT | FailureClass.INVALID_OUTPUT:
            return {"failures": job.failures + 1}
        case FailureClass.LOST:
            return {"lost": job.lost + 1}
        case FailureClass.EXPIRED:
            return {"expired": job.expired + 1}
        case _:
            return {}
