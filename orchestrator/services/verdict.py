"""What a finished execution makes of its job: the one place where collector and notices turn a record into a step."""

from orchestrator.core import job as steps
from orchestrator.core.job import Job, Outcome, Step, outcome_of
from orchestrator.core.outcome import Record, Trouble, ended
from orchestrator.core.policy import EXECUTION_TIMEOUT_MS_DEFAULT
from orchestrator.core.retry import Abandon, decide
from orchestrator.services.endpoint import Endpoint


def finished(endpoint: Endpoint, job: Job, record: Record, *, reason: str, margin_us: int | None) -> Step:
    """The step for `job` whose latest execution has ended as `record` says."""
    settings = endpoint.settings_of[job.run]
    end = ended(record, output_required=settings.output_required)
    now = endpoint.clock.now()
    if end.trouble is None:
        outcome = outcome_of(job, record, trouble=None, message=None, margin_us=margin_us)
        return steps.completed(job, outcome, reason=reason, at=now)
    outcome = outcome_of(job, record, trouble=end.trouble, message=end.message, margin_us=None)
    if end.trouble is Trouble.CANCELLED:
        return steps.cancelled(job, outcome, reason="at the service", at=now)
    step = in_trouble(endpoint, job, outcome, reason=reason)
    if step.after.by_retry:
        endpoint.remember_failed(job.id, record)
    return step


def in_trouble(endpoint: Endpoint, job: Job, outcome: Outcome, *, reason: str) -> Step:
    """The step for `job` whose latest execution came to nothing: another one, or the end. `outcome` is for the end."""
    settings = endpoint.settings_of[job.run]
    trouble = outcome.trouble
    assert trouble is not None
    now = endpoint.clock.now()
    timeout_ms = settings.policy.execution_timeout_ms or EXECUTION_TIMEOUT_MS_DEFAULT
    decision = decide(
        job,
        trouble,
        limits=settings.limits,
        now=now,
        retention_us=settings.retention_us,
        execution_timeout_us=timeout_ms * 1000,
        queue_us=endpoint.turnaround.queue.p95_us or 0,
    )
    if isinstance(decision, Abandon):
        return steps.abandoned(job, outcome, reason=decision.reason, at=now)
    return steps.retried(job, trouble, due_at=decision.due_at, retry_until=decision.retry_until, reason=reason, at=now)
