"""What a finished execution makes of its job: the one place where collector and notices turn a record into a step."""

from typing import Final

from orchestrator.core import job as transitions
from orchestrator.core.job import JOB_CANCELLED, CancelWhy, Job, Outcome, Transition, outcome_of
from orchestrator.core.policy import EXECUTION_TIMEOUT_MS_DEFAULT, Policy, decode_policy
from orchestrator.core.responses import Failure, Record, Trouble, failure_of, verdict_of
from orchestrator.core.retry import Abandon, decide
from orchestrator.engine.endpoint import Endpoint

NO_POLICY: Final = Policy()
STUCK: Final = "it was stuck, and cancelled by us to be sent anew"


def finished(
    endpoint: Endpoint,
    job: Job,
    record: Record,
    *,
    reason: str,
    margin_us: int | None,
    cancel_why: CancelWhy | None = None,
) -> Transition:
    """The step for `job` whose latest execution has ended as `record` says.

    `cancel_why`: why we have asked for it to be cancelled, if we have. It may fail before that is done.
    """
    settings = endpoint.settings_of[job.run]
    end = verdict_of(record, output_required=settings.output_required)
    now = endpoint.clock.now()
    if end.trouble is None:
        outcome = outcome_of(job, record, trouble=None, message=None, margin_us=margin_us)
        endpoint.succeeded(job.run)
        return transitions.completed(job, outcome, reason=reason, at=now)
    outcome = outcome_of(job, record, trouble=end.trouble, message=end.message, margin_us=None)
    if end.trouble is Trouble.CANCELLED and cancel_why is CancelWhy.STUCK:
        stuck = outcome_of(job, record, trouble=Trouble.TIMED_OUT, message=STUCK, margin_us=None)
        return in_trouble(endpoint, job, stuck, reason=STUCK, is_retained=False)
    if end.trouble is Trouble.CANCELLED:
        return transitions.cancelled(job, outcome, reason="at the service", at=now)
    if cancel_why is CancelWhy.ASKED:
        told = f"{JOB_CANCELLED}; its execution had ended with: {end.message}"
        outcome = outcome_of(job, record, trouble=Trouble.CANCELLED, message=told, margin_us=None)
        return transitions.cancelled(job, outcome, reason="asked for", at=now)
    endpoint.failed(job.run, end.message)
    return in_trouble(endpoint, job, outcome, reason=reason, failure=failure_of(record))


def in_trouble(
    endpoint: Endpoint,
    job: Job,
    outcome: Outcome,
    *,
    reason: str,
    is_retained: bool = True,
    failure: Failure | None = None,
) -> Transition:
    """The step for `job` whose latest execution came to nothing: another one, or the end. `outcome` is for the end.

    `is_retained`: whether the service would take a `/retry` of it. None is made where ids are given twice: it may be of
    another job. `failure` is what it would have to be told from.
    """
    settings = endpoint.settings_of[job.run]
    trouble = outcome.trouble
    assert trouble is not None
    now = endpoint.clock.now()
    own = NO_POLICY if job.policy is None else decode_policy(job.policy)
    timeout_ms = own.execution_timeout_ms or settings.policy.execution_timeout_ms or EXECUTION_TIMEOUT_MS_DEFAULT
    decision = decide(
        job,
        trouble,
        limits=settings.limits,
        now=now,
        retention_us=endpoint.retention_us(job.run),
        execution_timeout_us=endpoint.here_us(timeout_ms * 1000),
        queue_us=endpoint.durations.queue.p95_us or 0,
        is_retained=is_retained and not endpoint.ids.are_repeated,
    )
    if isinstance(decision, Abandon):
        return transitions.abandoned(job, outcome, reason=decision.reason, at=now)
    return transitions.retried(
        job,
        trouble,
        due_at=decision.due_at,
        retry_until=decision.retry_until,
        reason=reason,
        at=now,
        failure=failure,
    )
