"""What a finished execution makes of its job: the one place where collector and notices turn a record into a step."""

from typing import Final

import msgspec

from orchestrator.core.jobs import transitions
from orchestrator.core.jobs.cancel_reason import BY_PEOPLE, CancelWhy
from orchestrator.core.jobs.escalation import next_step, own_policy
from orchestrator.core.jobs.job import Job, Outcome, outcome_from
from orchestrator.core.jobs.reasons import Reason, ReasonCode
from orchestrator.core.jobs.retry import Abandon, backoff_us, decide
from orchestrator.core.jobs.segments import Exhausted, SegmentEnd, after_segment
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.core.jobs.transitions import JOB_CANCELLED
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.service.job_record import Failure, Record, failure_of
from orchestrator.core.service.outcomes import verdict_of
from orchestrator.engine.collecting.validation_pool import GOOD, Validation
from orchestrator.engine.endpoint.endpoint import Endpoint
from orchestrator.units import MIB

TORN_BYTES_MAX: Final = MIB
"""How much is kept of an answer that cannot be decoded."""

GIVEN_UP: Final = "given up, as its run wants it after such trouble"
STUCK: Final = "it was stuck, and cancelled by us to be sent anew"


def on_finished(
    endpoint: Endpoint,
    job: Job,
    record: Record,
    *,
    reason: str,
    margin_us: int | None,
    cancel_why: CancelWhy | None = None,
    end: SegmentEnd | None = None,
    judged: Validation = GOOD,
) -> Transition:
    """The step for `job` whose latest execution has ended as `record` says.

    `cancel_why`: why we have asked for it to be cancelled, if we have. It may fail before that is done. `end`: how its
    segment ended, if it is resumable. `judged`: what the run's validator says of its output.
    """
    settings = endpoint.settings_of[job.run]
    verdict = verdict_of(record, output_required=settings.output_required, rejected=judged.invalid)
    now = endpoint.clock.now()
    if end is not None and end.report is not None:
        return _given_back(endpoint, job, record, end, cancel_why)
    if verdict.trouble is None:
        outcome = kept_outcome(outcome_from(job, record, trouble=None, message=None, margin_us=margin_us), judged)
        return on_completed(endpoint, job, outcome, reason=reason, judged=judged, end=end)
    outcome = outcome_from(job, record, trouble=verdict.trouble, message=verdict.message, margin_us=None)
    if verdict.trouble is FailureClass.CANCELLED:
        return _on_cancelled(endpoint, job, record, outcome, cancel_why, end)
    if cancel_why in BY_PEOPLE:
        told = f"{JOB_CANCELLED}; its execution had ended with: {verdict.message}"
        outcome = outcome_from(job, record, trouble=FailureClass.CANCELLED, message=told, margin_us=None)
        return transitions.cancelled(job, outcome, reason=ReasonCode.REQUESTED, at=now, end=end)
    return on_failed(endpoint, job, outcome, reason=reason, failure=failure_of(record), end=end)


def _on_cancelled(
    endpoint: Endpoint,
    job: Job,
    record: Record,
    outcome: Outcome,
    cancel_why: CancelWhy | None,
    end: SegmentEnd | None,
) -> Transition:
    """The step for `job`, which was cancelled at the service. What was to be moved is sent anew, and counts as another
    execution only if it had begun after all.
    """
    now = endpoint.clock.now()
    if cancel_why is CancelWhy.STUCK:
        stuck = outcome_from(job, record, trouble=FailureClass.TIMED_OUT, message=STUCK, margin_us=None)
        return on_failed(endpoint, job, stuck, reason=STUCK, is_retained=False, end=end)
    if cancel_why is not CancelWhy.MOVED:
        return transitions.cancelled(job, outcome, reason="at the service", at=now, end=end)
    if not record.has_begun:
        return endpoint.homes.homeward(transitions.deferred(job, due_at=now, reason=ReasonCode.MOVED, at=now))
    step = transitions.retried(
        job,
        FailureClass.CANCELLED,
        due_at=now,
        retry_until=None,
        reason=ReasonCode.MOVED,
        at=now,
        end=end,
        previous_outcome=outcome,
    )
    return endpoint.homes.homeward(step)


def kept_outcome(outcome: Outcome, judged: Validation) -> Outcome:
    """`outcome`, a result, with what is kept of its output, which was `judged`."""
    if (kept := judged.saved) is None:
        return outcome
    return msgspec.structs.replace(outcome, output=kept.output, saved=kept.members, unsaved=kept.unsaved)


def on_completed(
    endpoint: Endpoint, job: Job, outcome: Outcome, *, reason: str, judged: Validation, end: SegmentEnd | None = None
) -> Transition:
    """The step for `job`, of which `outcome` is the result."""
    if judged.unjudged is not None:
        reason = f"{reason}, not judged: {judged.unjudged}"
    return transitions.completed(job, outcome, reason=reason, at=endpoint.clock.now(), end=end)


def _given_back(
    endpoint: Endpoint, job: Job, record: Record, end: SegmentEnd, cancel_why: CancelWhy | None
) -> Transition:
    """The step for a resumable `job` whose worker has given it back unfinished, as it should before its time is up."""
    now = endpoint.clock.now()
    if cancel_why in BY_PEOPLE:
        outcome = outcome_from(job, record, trouble=FailureClass.CANCELLED, message=JOB_CANCELLED, margin_us=None)
        return transitions.cancelled(job, outcome, reason=ReasonCode.REQUESTED, at=now, end=end)
    follows = after_segment(end, segments=job.attempt, limits=endpoint.settings_of[job.run].segments)
    if isinstance(follows, Exhausted):
        outcome = outcome_from(job, record, trouble=FailureClass.FAILED, message=follows.message, margin_us=None)
        return transitions.abandoned(job, outcome, reason=follows.message, at=now, end=end)
    return endpoint.homes.homeward(transitions.continued(job, end, due_at=now, reason="given back unfinished", at=now))


def on_failed(
    endpoint: Endpoint,
    job: Job,
    outcome: Outcome,
    *,
    reason: Reason,
    is_retained: bool = True,
    failure: Failure | None = None,
    end: SegmentEnd | None = None,
) -> Transition:
    """The step for `job` whose latest execution came to nothing: another one, or the end. `outcome` is for the end.

    `is_retained`: whether the service would take a `/retry` of it. None is made where ids are given twice: it may be of
    another job. `failure` is what it would have to be told from. `end`: how its segment ended, if it is resumable; then
    a newer checkpoint is worth another segment, and `/retry` is not used: no two workers may write to one place.
    """
    settings = endpoint.settings_of[job.run]
    trouble = outcome.trouble
    assert trouble is not None
    now = endpoint.clock.now()
    if end is not None and (step := _after_segment(endpoint, job, outcome, reason, end)) is not None:
        return step
    policy = own_policy(settings.policy, job.policy, job.escalated)
    taken = next_step(settings.escalate, trouble, outcome.message or "", job.escalated)
    is_free = taken is not None and taken.step.is_free
    other = endpoint.homes.other_than(job.run, endpoint.id)
    decision = decide(
        job,
        trouble,
        limits=settings.limits,
        now=now,
        retention_us=endpoint.estimates.retention_of(job),
        reserve_us=endpoint.estimates.here_us(policy.timeout_ms * 1000)
        + (endpoint.estimates.durations.queue.p95_us or 0),
        is_retained=is_retained
        and job.batch is None
        and job.chunk is None
        and end is None
        and other is None
        and not endpoint.remote_ids.are_repeated,
        is_free=is_free,
    )
    if isinstance(decision, Abandon):
        return transitions.abandoned(job, outcome, reason=decision.reason, at=now, end=end)
    if taken is not None and taken.step.gives_up:
        return transitions.abandoned(job, outcome, reason=GIVEN_UP, at=now, end=end)
    if not is_free and (spent := endpoint.retries.why_spent(job.run, trouble)) is not None:
        return transitions.abandoned(job, outcome, reason=spent, at=now, end=end)
    escalation = None if taken is None else endpoint.retries.escalation(job, taken)
    step = transitions.retried(
        job,
        trouble,
        due_at=decision.due_at,
        retry_until=None if escalation is not None and escalation.description else decision.retry_until,
        reason=reason,
        at=now,
        failure=failure,
        end=end,
        escalation=escalation,
        previous_outcome=outcome,
    )
    if step.after.endpoint == job.endpoint and other is not None:
        return msgspec.structs.replace(step, after=msgspec.structs.replace(step.after, endpoint=other))
    return endpoint.homes.homeward(step)


def _after_segment(
    endpoint: Endpoint, job: Job, outcome: Outcome, reason: Reason, end: SegmentEnd
) -> Transition | None:
    """The step for a resumable `job` whose segment came to nothing: the next segment, or the end; None where it has
    come no further, and is to be executed again as any other.
    """
    now, trouble = endpoint.clock.now(), outcome.trouble
    follows = after_segment(end, segments=job.attempt, limits=endpoint.settings_of[job.run].segments)
    if isinstance(follows, Exhausted):
        told = f"{follows.message}; the last one ended with: {outcome.message}"
        outcome = msgspec.structs.replace(outcome, message=told)
        return transitions.abandoned(job, outcome, reason=follows.message, at=now, end=end)
    if follows is None:
        return None
    wait_us = 0 if trouble in (FailureClass.LOST, FailureClass.EXPIRED) else backoff_us(1, job.id)
    step = transitions.continued(
        job, end, due_at=now + wait_us, reason=reason, at=now, trouble=trouble, previous_outcome=outcome
    )
    return endpoint.homes.homeward(step)
