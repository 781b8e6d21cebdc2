"""Counts what was done to each input, under a key that a test chooses: who was executed (and paid for) twice?"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable

from orchestrator.emulator.jobs.job_table import JobObserver
from orchestrator.emulator.jobs.jobs import ServiceJob, ServiceStatus, WorkerResult


class ExecutionCounts(JobObserver):
    """How often each key was accepted, executed and completed.

    `key` turns the raw JSON of an input into what makes it "the same input" (a line number inside it, or all of it).
    """

    def __init__(self, key: Callable[[bytes], Hashable] = bytes) -> None:
        self._key = key
        self.submitted: Counter[Hashable] = Counter()
        """Submissions that got a job."""
        self.executed: Counter[Hashable] = Counter()
        """Executions that a worker began; each of them is paid for."""
        self.completed: Counter[Hashable] = Counter()

    def _keys(self, raw_input: bytes) -> Iterable[Hashable]:
        """Those of one submission."""
        return (self._key(raw_input),)

    def accepted(self, job: ServiceJob, *, is_lost: bool) -> None:
        self.submitted.update(self._keys(job.input))

    def started(self, job: ServiceJob, *, is_silent: bool) -> None:
        self.executed.update(self._keys(job.input))

    def finished(self, job: ServiceJob, result: WorkerResult, now: int) -> None:
        if job.status is ServiceStatus.COMPLETED:
            self.completed.update(self._keys(job.input))
