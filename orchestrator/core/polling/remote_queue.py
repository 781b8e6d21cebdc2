"""When an endpoint will begin with a job that waits in its queue, as far as those before it tell.

What was learned of the times of finished jobs is of no use while a queue grows or shrinks: who was sent later waits
longer, or shorter. But a queue is worked off in the order in which it was filled. So the times at which executions
began lie on a line over the numbers of the jobs, and that line goes on: it is fitted to the latest of them. Times are
microseconds UTC.
"""

from typing import Final

from orchestrator.core.jobs.job import Job
from orchestrator.core.polling.latency import DurationHistogram
from orchestrator.core.service.job_record import Record

QUEUED_US: Final = 1_000_000
"""Who waited for less than this found no queue worth speaking of."""

ENOUGH: Final = 16
"""Fewer jobs than this make no line."""

MEMORY: Final = 32.0
"""About so many of the latest jobs count."""


class RemoteQueue:
    """The line through the beginnings of an endpoint's latest executions. Jobs are numbered in the order of sending."""

    def __init__(self) -> None:
        self._forget()

        self._waiting = 0
        self._waiting_at = 0

    def _forget(self) -> None:
        self._seen = 0
        self._weight = 0.0
        self._number = 0.0
        self._begun_at = 0.0
        self._spread = 0.0
        self._together = 0.0

    def began(self, number: int, at: int, *, waited_us: int) -> None:
        """The execution of a job began at `at`, after it had waited so long: if it did not, there is no queue."""
        if waited_us < QUEUED_US:
            self._forget()
            return
        self._observe(number, at)

    def waits(self, number: int, now: int) -> None:
        """A job is in the queue still: news where its execution should have begun."""
        self._waiting, self._waiting_at = number, now
        begins_at = self.begins_at(number)
        if begins_at is not None and begins_at < now:
            self._observe(number, now)

    def not_before(self, number: int, sent_at: int) -> int | None:
        """When the execution of a job begins at the earliest: by the line, and not before one ahead of it has begun.

        None where nothing is known of a queue.
        """
        begins_at = self.begins_at(number)
        if number < self._waiting or self._waiting_at <= sent_at:
            return begins_at
        return self._waiting_at if begins_at is None else max(begins_at, self._waiting_at)

    def begins_at(self, number: int) -> int | None:
        """When the execution of a job will probably begin, or has begun; None where there is no queue to speak of."""
        if self._seen < ENOUGH or not self._spread:
            return None
        return int(self._begun_at + self.gap_us * (number - self._number))

    @property
    def gap_us(self) -> float:
        """The time between the beginnings of two jobs."""
        return max(0.0, self._together / self._spread) if self._spread else 0.0

    def _observe(self, number: int, at: int) -> None:
        """Moves the means and the sums of squares about them; what is old fades (a regression that forgets)."""
        keep = 1 - 1 / MEMORY
        self._seen += 1
        self._weight = self._weight * keep + 1
        by_number, by_time = number - self._number, at - self._begun_at
        self._number += by_number / self._weight
        self._begun_at += by_time / self._weight
        self._spread = self._spread * keep + by_number * (number - self._number)
        self._together = self._together * keep + by_number * (at - self._begun_at)


class Expected:
    """The times of a job that begins `queue_us` after it was sent; a `DurationHistogram` tells those of others."""

    def __init__(self, queue_us: int, execution: DurationHistogram) -> None:
        self._queue_us = queue_us
        self._execution = execution
        self.weight = execution.weight

    def quantile_us(self, share: float) -> int | None:
        """The time within which the job has finished with the probability `share` (0-1)."""
        execution_us = self._execution.quantile_us(share)
        return None if execution_us is None else self._queue_us + execution_us


def begun_at_of(job: Job, record: Record, now: int) -> int | None:
    """When the execution that `record` tells of began; None where it does not say, or cannot be right."""
    if record.delay_ms is None or job.sent_at is None or not job.is_first_execution:
        return None
    begun_at = job.sent_at + record.delay_ms * 1_000
    return begun_at if begun_at <= now else None
