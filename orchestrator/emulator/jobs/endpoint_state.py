"""One endpoint's queue, workers and counts."""

from collections import OrderedDict

from orchestrator.emulator.jobs.fleet import Fleet
from orchestrator.emulator.jobs.jobs import ServiceJob
from orchestrator.units import SECOND_US

EXECUTION_TIMEOUT_US_DEFAULT = 600 * SECOND_US
"""How long an execution may take where nobody says so (contract, Policy)."""


class EndpointState:
    """What the world keeps of an endpoint; its jobs stand in line here only while they are queued."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.execution_timeout_us = EXECUTION_TIMEOUT_US_DEFAULT
        """Of jobs whose policy does not say."""

        self.queue: OrderedDict[str, ServiceJob] = OrderedDict()
        self.waiting: OrderedDict[str, ServiceJob] = OrderedDict()
        """The part of the queue that may start workers: not of low priority."""
        self._shelved: dict[str, ServiceJob] = {}
        self.in_progress = 0
        self.completed = 0
        self.failed = 0
        self.retried = 0
        self.unread = 0
        """Results that were forgotten without anybody having asked for them."""

    @property
    def in_queue(self) -> int:
        """How many jobs are shown as queued."""
        return len(self.queue) + len(self._shelved)

    def push(self, job: ServiceJob, *, first: bool = False) -> None:
        for line in (self.queue,) if job.low_priority else (self.queue, self.waiting):
            line[job.id] = job
            if first:
                line.move_to_end(job.id, last=False)

    def shelve(self, job: ServiceJob) -> None:
        """By a fault: the job is queued, and no worker will ever get it."""
        self._shelved[job.id] = job

    def pop(self, worker_id: str) -> ServiceJob | None:
        """The first job that the worker is to have: not one that it had before while another worker is free."""
        for job in self.queue.values():
            if job.avoids != worker_id or not self.fleet.has_free_beside(worker_id):
                self.drop(job.id)
                return job
        return None

    def drop(self, job_id: str) -> None:
        for line in (self.queue, self.waiting, self._shelved):
            line.pop(job_id, None)

    def clear(self) -> tuple[ServiceJob, ...]:
        """Empties the queue; what was in it."""
        jobs = (*self.queue.values(), *self._shelved.values())
        for line in (self.queue, self.waiting, self._shelved):
            line.clear()
        return jobs
