"""A job, and the steps it can take.

`Job` is the narrow record that the moving parts hold and the ledger guards. A `Transition` is made only by the named
constructors below, one for each way something can happen; each takes exactly what it needs, asks the lifecycle table
for the next state, and returns the job as it will be. The ledger applies a step only if the job still is what it was
(`id`, state, submission, attempt); else the step is stale, and nothing is written.
"""

from typing import Final, TypedDict, Unpack

import msgspec

from orchestrator.core.jobs.lifecycle import TERMINAL, Event, State, next_state
from orchestrator.core.jobs.overrides import Afresh, Escalation
from orchestrator.core.jobs.reasons import Detail, Reason, ReasonCode
from orchestrator.core.jobs.segments import Report, SegmentEnd
from orchestrator.core.service.answers import Trouble
from orchestrator.core.service.records import Failure, Record

RUN_CANCELLED: Final = "the run was cancelled"
"""What the errors file says of its jobs."""

RUN_CANCELLED_UNCERTAIN: Final = f"{RUN_CANCELLED}; the answer to its submission never came"

JOB_CANCELLED: Final = "it was cancelled on request"
JOB_CANCELLED_UNCERTAIN: Final = f"{JOB_CANCELLED}; the answer to its submission never came"
"""The same of a job that was cancelled without its run."""

PAID_TWICE: Final = "paid_twice"
"""How a submission ended that ran beside another one of its job; and the run's counter of these."""

RAN: Final = "ran"
"""How a submission ended that was given up and ran after all, while no other one of its job is known to have run."""

FAILED_EXECUTIONS: Final = "failed_executions"
RETRIED_EXECUTIONS: Final = "retried_executions"
"""The run's counter of executions that failed, timed out or gave no usable output; most of them are tried again."""

FREE_EXECUTIONS: Final = "free_executions"
"""Of those that were tried again, the run's counter of those that have cost no attempt."""

CONTINUED_SEGMENTS: Final = "continued_segments"
"""The run's counter of segments of resumable jobs that ended without a result, and that others went on from."""

NO_NEWS: Final = "no_news"
"""The run's counter of answers and webhooks that said nothing of the job that they should have been about."""


class Job(msgspec.Struct, frozen=True, kw_only=True, gc=False, array_like=True):
    """The hot record of a job. Times are microseconds UTC."""

    id: int
    run: int
    endpoint: int
    """Which (service URL, endpoint) it is for: the number of a row of the ledger's `endpoints`."""

    state: State
    submission: int | None = None
    """The latest submission; None before the first."""

    attempt: int = 0
    """Executions that may have been paid so far, the current one included. Never reset."""

    failures: int = 0
    """Executions that failed, timed out or gave invalid output; fresh after a reopening, like the next three. With the
    one that brings the result these are the `attempts` of the files, which `--max-attempts` bounds."""

    lost: int = 0
    uncertain: int = 0
    """Submissions that the service did not answer, the latest one included if it is uncertain through that."""

    expired: int = 0
    deferrals: int = 0
    """Requests in a row that came to nothing without effect; sets the backoff."""

    due_at: int = 0
    """Queued: not to be sent before. Uncertain: to be settled then."""

    retry_until: int | None = None
    """Queued or submitting: the attempt is a `/retry` of the latest submission until then; else `/run`."""

    remote_id: str | None = None
    """What the service calls the latest submission, once known."""

    first_attempt: int = 0
    """The attempt with which the latest submission began: after a `/retry`, `attempt` is larger."""

    sent_at: int | None = None
    """When the latest submission was sent; its claim time until that is known."""

    ttl_at: int | None = None
    """When the service deletes the latest submission, whatever its state."""

    unfinished_at: int | None = None
    """The latest time at which the current execution was certainly not finished."""

    attempts_max: int | None = None
    """Executions that may fail, where it was reopened with a number of its own; else the run's number holds."""

    policy: bytes | None = None
    """What it was reopened with, as JSON; each field wins over its line's and the run's policy."""

    priority: int = 0
    """Of jobs that were never sent those with a higher one go first."""

    escalated: bytes | None = None
    """What it was given after its troubles, by the rules of its run, as JSON (`core.escalation`)."""

    segment: int = 0
    """The number of its latest segment, if it is resumable; each `/run` has another one, whatever became of it."""

    @property
    def by_retry(self) -> bool:
        """Whether the current attempt is (or is to be) a `/retry`."""
        return self.retry_until is not None

    @property
    def is_first_execution(self) -> bool:
        """Whether the latest submission has been executed at most once, so that a webhook can only speak of that.

        A deferral gives the attempt back: what it was refused for (a 503) may have been executed all the same.
        """
        return self.attempt <= self.first_attempt


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a job ended: one row of the results or the errors file."""

    submission: int | None
    remote_id: str | None
    status: str | None
    """What the service last said."""

    output: bytes | None = None
    """Compact JSON. For `invalid_output`, the raw bytes of the answer: nothing paid is thrown away."""

    trouble: Trouble | None = None
    message: str | None = None
    delay_ms: int | None = None
    execution_ms: int | None = None
    worker: str | None = None
    """Who executed it, where that was told."""

    margin_us: int | None = None
    """Time that was left to the result when it was collected; a lower bound."""


class Transition(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One event in the life of a job: what it was, what it becomes, and why."""

    before: Job
    after: Job
    event: Event
    reason: Reason
    at: int
    detail: Detail | None = None
    trouble: Trouble | None = None
    outcome: Outcome | None = None
    failure: Failure | None = None
    """The execution that a `/retry` is to follow, to be recognised should that not be applied."""

    report: Report | None = None
    """What the worker of a segment said as it gave the job back."""

    execution_ms: int | None = None
    """How long a worker had the segment that ends."""

    told: Outcome | None = None  # what is known of an execution that another one is to follow


class _Counters(TypedDict, total=False):
    """The counters that troubles raise."""

    failures: int
    lost: int
    expired: int


class _Changes(_Counters, total=False):
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


def _step(
    job: Job,
    event: Event,
    reason: Reason,
    at: int,
    *,
    detail: Detail | None = None,
    trouble: Trouble | None = None,
    outcome: Outcome | None = None,
    failure: Failure | None = None,
    end: SegmentEnd | None = None,
    told: Outcome | None = None,
    **changes: Unpack[_Changes],
) -> Transition:
    state = next_state(job.state, event)
    after: Job = msgspec.structs.replace(job, state=state, **changes)
    return Transition(
        before=job, after=after, event=event, reason=reason, at=at, detail=detail, trouble=trouble, outcome=outcome,
        failure=failure, told=told, report=None if end is None else end.report,
        execution_ms=None if end is None else end.execution_ms,
    )  # fmt: skip


def claimed(job: Job, *, submission: int, ttl_us: int, at: int, is_resumable: bool = False) -> Transition:
    """The job is about to be sent by `/run` as a new submission: if it is resumable, as a new segment."""
    return _step(
        job, Event.CLAIMED, ReasonCode.RUN, at,
        submission=submission, attempt=job.attempt + 1, first_attempt=job.attempt + 1, remote_id=None,
        retry_until=None, sent_at=at, ttl_at=at + ttl_us, unfinished_at=at,
        segment=job.segment + 1 if is_resumable else job.segment,
    )  # fmt: skip


def claimed_for_retry(job: Job, *, at: int) -> Transition:
    """The job is about to be sent by `/retry` of its latest submission."""
    return _step(job, Event.CLAIMED, ReasonCode.RETRY, at, attempt=job.attempt + 1, unfinished_at=at)


def accepted(job: Job, *, remote_id: str, sent_at: int, at: int, ttl_us: int | None = None) -> Transition:
    """The service answered `/run` with a usable id. `sent_at` is when that request left; `ttl_us` for how long it lasts
    there, where more is known of that than as it was claimed.
    """
    if ttl_us is None and job.ttl_at is not None and job.sent_at is not None:
        ttl_us = job.ttl_at - job.sent_at
    ttl_at = None if ttl_us is None else sent_at + ttl_us
    return _step(
        job, Event.ACCEPTED, ReasonCode.RUN, at,
        remote_id=remote_id, sent_at=sent_at, ttl_at=ttl_at, unfinished_at=sent_at, deferrals=0, due_at=0,
    )  # fmt: skip


def accepted_for_retry(job: Job, *, sent_at: int, at: int, answered: bool = True) -> Transition:
    """The service took the `/retry`, or did not answer it: its remote id is known, so `/status` decides."""
    reason = ReasonCode.RETRY if answered else ReasonCode.RETRY_UNANSWERED
    return _step(job, Event.ACCEPTED, reason, at, retry_until=None, unfinished_at=sent_at, deferrals=0, due_at=0)


def refused_for_retry(job: Job, *, at: int) -> Transition:
    """The service made no `/retry` of a job that it knows: before another `/run`, `/status` tells how it really is."""
    return _step(job, Event.ACCEPTED, ReasonCode.RETRY_REFUSED, at, retry_until=None, deferrals=0, due_at=0)


def unanswered(job: Job, *, settle_at: int, reason: Reason, at: int) -> Transition:
    """A `/run` left and no usable answer came. It is settled at `settle_at` unless a webhook adopts it before.

    The service's silence is one of the job's uncertain tries.
    """
    return _step(
        job, Event.UNANSWERED, reason, at,
        trouble=Trouble.UNCERTAIN, uncertain=job.uncertain + 1, due_at=settle_at, deferrals=0,
    )  # fmt: skip


def left_unanswered(job: Job, *, settle_at: int, reason: Reason, at: int) -> Transition:
    """The same, but it was us who ended before an answer could come: that costs the job none of its tries."""
    return _step(job, Event.UNANSWERED, reason, at, trouble=Trouble.UNCERTAIN, due_at=settle_at, deferrals=0)


def deferred(
    job: Job, *, due_at: int, reason: Reason, at: int, trouble: Trouble | None = None, retry_until: int | None = None
) -> Transition:
    """The request had no effect: the attempt is given back. `trouble` None means that we were interrupted.

    `retry_until` is given by a `/retry` that is to be repeated; without it the next attempt is a `/run`.
    """
    deferrals = job.deferrals + 1 if trouble is not None else job.deferrals
    return _step(
        job, Event.DEFERRED, reason, at,
        trouble=trouble, attempt=job.attempt - 1, due_at=due_at, deferrals=deferrals, retry_until=retry_until,
    )  # fmt: skip


def adopted(job: Job, *, remote_id: str, at: int) -> Transition:
    """A webhook told the remote id of the latest submission before, or instead of, the answer to its `/run`."""
    return _step(job, Event.ADOPTED, "webhook", at, remote_id=remote_id, due_at=0, retry_until=None)


def retried(
    job: Job,
    trouble: Trouble,
    *,
    due_at: int,
    retry_until: int | None,
    reason: Reason,
    at: int,
    failure: Failure | None = None,
    end: SegmentEnd | None = None,
    escalation: Escalation | None = None,
    told: Outcome | None = None,
) -> Transition:
    """The current execution came to nothing; the next is due at `due_at`, by `/retry` until `retry_until` if given:
    not where an `escalation` gives it anything, since `/retry` would do what was done before.
    """
    is_free = escalation is not None and escalation.is_free
    detail = None
    if escalation is not None and (is_free or escalation.told):
        detail = Detail(settings=escalation.told, is_free=is_free)
    return _step(
        job, Event.RETRIED, reason, at,
        endpoint=job.endpoint if escalation is None else escalation.endpoint,
        escalated=job.escalated if escalation is None else escalation.escalated,
        detail=detail, trouble=trouble, due_at=due_at, retry_until=retry_until, end=end, told=told,
        failure=None if retry_until is None else failure,
        **({} if is_free else _counted(job, trouble)),
    )  # fmt: skip


def continued(
    job: Job, end: SegmentEnd, *, due_at: int, reason: Reason, at: int, trouble: Trouble | None = None
) -> Transition:
    """A segment has come further and ended without a result, through `trouble` if it did not by itself: fresh counters,
    since whatever went wrong was got over.
    """
    return _step(
        job, Event.CONTINUED, reason, at,
        trouble=trouble, end=end, due_at=due_at, retry_until=None,
        failures=0, lost=0, uncertain=0, expired=0, deferrals=0,
    )  # fmt: skip


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
    return _step(
        job, Event.COMPLETED, reason, at, detail=detail, outcome=outcome, end=end, due_at=0, retry_until=None,
        failures=job.failures if failures is None else failures,
    )  # fmt: skip


def revoked(job: Job, outcome: Outcome, *, at: int) -> Transition:
    """What the job has succeeded with is no result by now. `outcome.trouble` says what it is."""
    trouble = outcome.trouble or Trouble.INVALID_OUTPUT
    return _step(
        job, Event.REVOKED, ReasonCode.REVALIDATED, at, trouble=trouble, outcome=outcome, **_counted(job, trouble)
    )


def abandoned(job: Job, outcome: Outcome, *, reason: Reason, at: int, end: SegmentEnd | None = None) -> Transition:
    """The job has failed for good. `outcome.trouble` says why."""
    trouble = outcome.trouble or Trouble.FAILED
    counted = _counted(job, trouble)
    attempt = job.attempt - 1 if trouble is Trouble.REJECTED and job.state is State.SUBMITTING else job.attempt
    return _step(
        job, Event.ABANDONED, reason, at,
        trouble=trouble, outcome=outcome, end=end, attempt=attempt, due_at=0, retry_until=None, **counted,
    )  # fmt: skip


def cancelled(job: Job, outcome: Outcome, *, reason: Reason, at: int, end: SegmentEnd | None = None) -> Transition:
    """Stopped by a person, here or at the service."""
    return _step(
        job, Event.CANCELLED, reason, at,
        trouble=Trouble.CANCELLED, outcome=outcome, end=end, due_at=0, retry_until=None,
    )  # fmt: skip


def cancelled_on_request(job: Job, *, at: int, alone: bool = False) -> Transition:
    """`job` is of a run that somebody has cancelled; or `alone` was."""
    told, told_uncertain = (
        (JOB_CANCELLED, JOB_CANCELLED_UNCERTAIN) if alone else (RUN_CANCELLED, RUN_CANCELLED_UNCERTAIN)
    )
    outcome = Outcome(
        submission=job.submission,
        remote_id=job.remote_id,
        status=None,
        trouble=Trouble.CANCELLED,
        message=told_uncertain if job.state is State.UNCERTAIN else told,
    )
    return cancelled(job, outcome, reason=ReasonCode.JOB_CANCELLED if alone else ReasonCode.RUN_CANCELLED, at=at)


def reopened(job: Job, *, at: int, afresh: Afresh = Afresh()) -> Transition:  # noqa: B008  it is frozen
    """A person asked to try again: fresh counters, a new submission."""
    return _step(
        job, Event.REOPENED, ReasonCode.REQUESTED, at, detail=Detail(settings=afresh.told) if afresh.told else None,
        failures=0, lost=0, uncertain=0, expired=0, deferrals=0, due_at=0, retry_until=None,
        endpoint=job.endpoint if afresh.endpoint is None else afresh.endpoint,
        attempts_max=afresh.attempts_max, policy=afresh.policy, escalated=None,
    )  # fmt: skip


def _counted(job: Job, trouble: Trouble) -> _Counters:
    """The counter that `trouble` raises by one. Uncertain tries are counted as they begin, see `unanswered`."""
    match trouble:
        case Trouble.FAILED | Trouble.TIMED_OUT | Trouble.INVALID_OUTPUT:
            return {"failures": job.failures + 1}
        case Trouble.LOST:
            return {"lost": job.lost + 1}
        case Trouble.EXPIRED:
            return {"expired": job.expired + 1}
        case _:
            return {}


_AT_SERVICE: Final = (State.OUTSTANDING, State.SUBMITTING, State.UNCERTAIN)
"""Where the service may have the latest submission."""


def leaves_extra(step: Transition) -> bool:
    """Whether `step` takes the result of an earlier submission, or execution, while the latest one is at the service.

    That one is too many. It is paid unless it is uncertain, and then it may be. So may an execution by a `/retry` that
    is on its way: the result may even be its own.
    """
    before = step.before
    if step.event is not Event.COMPLETED or before.state not in _AT_SERVICE:
        return False
    return not is_of_latest(step) or (before.state is State.SUBMITTING and before.by_retry)


def leaves_in_doubt(step: Transition) -> bool:
    """Whether `step` ends a job of which the service may hold a submission that nobody can name yet."""
    return step.event is Event.CANCELLED and step.before.state is State.UNCERTAIN


def is_of_latest(step: Transition) -> bool:
    """Whether the result that `step` takes is of the job's latest submission."""
    return step.outcome is not None and step.outcome.submission == step.before.submission


def names_late(step: Transition) -> bool:
    """Whether `step` tells what the service calls the latest submission of a job that was given up without knowing."""
    return is_terminal(step.before) and step.before.remote_id is None and is_of_latest(step)


def is_terminal(job: Job) -> bool:
    """Whether the job is finished (a person may still reopen it)."""
    return job.state in TERMINAL


def outcome_of(
    job: Job, record: Record, *, trouble: Trouble | None, message: str | None, margin_us: int | None
) -> Outcome:
    """The outcome that a finished record of the latest submission gives."""
    return Outcome(
        submission=job.submission,
        remote_id=record.remote_id or job.remote_id,
        status=record.status or None,
        output=record.output if trouble in (None, Trouble.INVALID_OUTPUT) else None,
        trouble=trouble,
        message=message,
        delay_ms=record.delay_ms,
        execution_ms=record.execution_ms,
        worker=record.worker_id,
        margin_us=margin_us,
    )
