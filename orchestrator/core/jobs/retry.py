"""Whether a failed job is executed again (retry), how, and after which pause (backoff), or has failed for good.

This is the second of two levels of retry, the one across calls: it is decided here and stored in the ledger. (The
first, inside one call, exists only for requests that are safe to repeat.) An uncertain job comes here only once it is
settled: `Endpoint.settle_at`.
"""

import msgspec

from orchestrator.core.jobs.deadlines import margin_us
from orchestrator.core.jobs.job import Job
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.units import SECOND_US

BACKOFF_S_MAX = 60
"""The longest wait before a request is tried again."""


class AttemptLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How often a job may be executed again.

    `executions` bounds the executions that ended in failure, time-out or invalid output; the others are numbers of
    repeats for each kind of trouble.
    """

    executions: int = 3
    lost: int = 3
    uncertain: int = 3
    expired: int = 1


class Retry(msgspec.Struct, frozen=True):
    """Another execution, due at `due_at`; by `/retry` until `retry_until` where that is given, else by `/run`."""

    due_at: int
    retry_until: int | None


class Abandon(msgspec.Struct, frozen=True):
    """No other execution."""

    reason: str


def decide(
    job: Job,
    trouble: FailureClass,
    *,
    limits: AttemptLimits,
    now: int,
    retention_us: int,
    reserve_us: int,
    is_retained: bool = True,
    is_free: bool = False,
) -> Retry | Abandon:
    """What follows an execution that came to nothing through `trouble`, found at `now`.

    `reserve_us` is what a whole execution and its wait in the queue may take. `/retry` is chosen for executions that
    failed or timed out while the service still retains them (until the time of the last "not finished" + retention,
    less a sixth) and while TTL leaves room for that. `is_retained` is False for what the service will not take up
    again, a cancelled job for example. `is_free`: it costs no attempt.
    """
    if not is_free and (reason := _exhausted(job, trouble, limits)) is not None:
        return Abandon(reason)
    if trouble in (FailureClass.LOST, FailureClass.EXPIRED, FailureClass.UNCERTAIN):
        return Retry(now, None)
    due_at = now + backoff_us(job.failures + 1, job.id)
    until = _retry_until(job, retention_us=retention_us, reserve_us=reserve_us)
    remote = is_retained and trouble in (FailureClass.FAILED, FailureClass.TIMED_OUT) and job.remote_id is not None
    return Retry(due_at, until if remote and until is not None and until > due_at else None)


def is_tried_again(job: Job, trouble: FailureClass, *, limits: AttemptLimits) -> bool:
    """Whether `job` gets another execution after one that comes to nothing through `trouble`."""
    return _exhausted(job, trouble, limits) is None


def _exhausted(job: Job, trouble: FailureClass, limits: AttemptLimits) -> str | None:
    """Why there is no other execution, or None where there is one."""
    match trouble:
        case FailureClass.FAILED | FailureClass.TIMED_OUT | FailureClass.INVALID_OUTPUT:
            most = limits.executions if job.attempts_max is None else job.attempts_max
            spent, allowed, reason = job.failures + 1, most - 1, f"out of attempts ({most})"
        case FailureClass.LOST:
            spent, allowed, reason = job.lost + 1, limits.lost, f"lost more than {limits.lost} times"
        case FailureClass.EXPIRED:
            spent, allowed, reason = job.expired + 1, limits.expired, f"expired more than {limits.expired} times"
        case FailureClass.UNCERTAIN:
            # The try at hand is counted already, unless it was our own end that made it uncertain.
            spent, allowed = max(job.uncertain, 1), limits.uncertain
            reason = f"uncertain more than {limits.uncertain} times"
        case _:
            return f"{trouble} is not retried"
    return reason if spent > allowed else None


def _retry_until(job: Job, *, retention_us: int, reserve_us: int) -> int | None:
    """Until when a `/retry` of the latest submission makes sense."""
    if job.unfinished_at is None or job.ttl_at is None:
        return None
    return min(job.unfinished_at + retention_us - margin_us(retention_us), job.ttl_at - reserve_us)


def backoff_us(failures: int, spread: int) -> int:
    """1 s, doubling to 60 s, less up to a quarter so that jobs that failed together do not come back together.

    `spread` is any number that differs between them: chance would make a run impossible to replay.
    """
    return spread_out(min(BACKOFF_S_MAX, 1 << min(failures - 1, 10)) * SECOND_US, spread)


def backoff_or_asked_us(failures: int, spread: int, asked_s: float) -> int:
    """The same, or as long as the service asks to wait, if that is longer; no more than a backoff can be."""
    return max(backoff_us(failures, spread), int(min(asked_s, BACKOFF_S_MAX) * SECOND_US))


def spread_out(wait_us: int, spread: int) -> int:
    """`wait_us`, less up to a quarter, as `spread` wants it: any number that differs between those who wait."""
    return wait_us - (spread * 2654435761 % 2**32) * (wait_us // 4) // 2**32
