"""What becomes of a job by the answer to its request (accepted, 429, refused), or for want of one (uncertain)."""

from typing import assert_never

from orchestrator.core.chunks.chunk_steps import halved_unsent
from orchestrator.core.jobs import transitions
from orchestrator.core.jobs.job import Job, Outcome
from orchestrator.core.jobs.reasons import Reason, ReasonCode
from orchestrator.core.jobs.retry import BACKOFF_S_MAX, backoff_or_asked_us
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.service.http_answers import Pointless
from orchestrator.core.service.outcomes import Accepted, Deferred, NotRetried, Rejected, RunOutcome, Uncertain
from orchestrator.engine.endpoint.endpoint import Endpoint


def on_response(  # noqa: PLR0911  one for each outcome
    endpoint: Endpoint, job: Job, outcome: RunOutcome, *, sent_at: int, now: int, ttl_us: int | None = None
) -> Transition:
    """What `outcome` of the request for `job`, sent at `sent_at`, makes of it. For `ttl_us` see `job.accepted`."""
    match outcome:
        case Accepted(remote_id):
            if not job.by_retry:
                return transitions.accepted(job, remote_id=remote_id, sent_at=sent_at, at=now, ttl_us=ttl_us)
            return transitions.accepted_for_retry(job, sent_at=sent_at, at=now)
        case Deferred(trouble, reason, retry_after_s):
            return _deferred(endpoint, job, trouble, reason, retry_after_s or 0, now)
        case Rejected(reason):
            return endpoint.homes.homeward(refused(job, reason, now=now))
        case Pointless(reason):
            return put_back_until(endpoint, job, due_at=now, reason=reason, now=now)
        case Uncertain(reason, is_repeated_id):
            why = ReasonCode.REPEATED_ID if is_repeated_id else reason
            return _unanswered(endpoint, job, why, sent_at=sent_at, now=now)
        case NotRetried():
            return transitions.refused_for_retry(job, at=now)
        case _:
            assert_never(outcome)


def _deferred(endpoint: Endpoint, job: Job, trouble: FailureClass, reason: str, asked_s: float, now: int) -> Transition:
    if job.by_retry and trouble is FailureClass.THROTTLED and asked_s > BACKOFF_S_MAX:  # a new `/run` is sooner
        return endpoint.homes.homeward(transitions.deferred(job, due_at=now, reason=reason, at=now, trouble=trouble))
    # The limiter obeys the whole of a Retry-After: a job that is due early waits for its turn there.
    wait_us = backoff_or_asked_us(job.deferrals + 1, job.id, asked_s)
    return put_back_until(endpoint, job, due_at=now + wait_us, reason=reason, trouble=trouble, now=now)


def _unanswered(endpoint: Endpoint, job: Job, reason: Reason, *, sent_at: int, now: int) -> Transition:
    if job.by_retry:
        return transitions.accepted_for_retry(job, sent_at=sent_at, at=now, answered=False)
    return transitions.unanswered(job, settle_at=endpoint.settle_at(job, now), reason=reason, at=now)


def put_back_until(
    endpoint: Endpoint, job: Job, *, due_at: int, reason: str, now: int, trouble: FailureClass | None = None
) -> Transition:
    """`job` of `endpoint` waits until `due_at`, at no cost; what was to go by `/retry` still is."""
    return endpoint.homes.homeward(
        transitions.deferred(job, due_at=due_at, reason=reason, at=now, trouble=trouble, retry_until=job.retry_until)
    )


def rejected(job: Job, reason: str, *, now: int) -> Transition:
    """The service will not have `job`."""
    if job.by_retry:  # the service no longer has it: the same attempt, made anew
        return transitions.deferred(job, due_at=now, reason=reason, at=now)
    outcome = Outcome(
        submission=job.submission, remote_id=None, status=None, trouble=FailureClass.REJECTED, message=reason
    )
    return transitions.abandoned(job, outcome, reason="rejected", at=now)


def refused(job: Job, reason: str, *, now: int) -> Transition:
    """The same, unless `job` leads others: it may be for one of them that the service will not have it."""
    return halved_unsent(job, because=reason, at=now) if job.has_riders else rejected(job, reason, now=now)


def interrupted(endpoint: Endpoint, job: Job, *, sent_at: int, now: int) -> Transition:
    """We end before the answer to the request for `job` is there."""
    if job.by_retry:
        return transitions.accepted_for_retry(job, sent_at=sent_at, at=now, answered=False)
    at = endpoint.settle_at(job, now)
    return transitions.left_unanswered(job, settle_at=at, reason="interrupted before the answer came", at=now)
