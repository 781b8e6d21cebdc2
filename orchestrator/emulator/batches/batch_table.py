"""All batches of the service, and what becomes of each: it begins, ends, fails, is forgotten."""

from collections.abc import Iterable, Sequence

from orchestrator.emulator.batches.batch_records import Batch, BatchStatus
from orchestrator.emulator.contract.answers import ServiceRefusal
from orchestrator.emulator.contract.faults import Fault
from orchestrator.emulator.jobs.endpoint_table import batch_pool
from orchestrator.emulator.jobs.job_table import Timers
from orchestrator.emulator.jobs.jobs import ServiceJob, ServiceStatus
from orchestrator.emulator.jobs.world import NO_RESULT, World


class BatchTable:
    """The batches by id, oldest first; their requests are jobs of `world`. One is kept for `retention_us` after all of
    it has ended.
    """

    def __init__(self, world: World, retention_us: int) -> None:
        self._world = world
        self._retention_us = retention_us
        self._dice = world.dice
        self._by_id: dict[str, Batch] = {}
        self._timers = Timers()
        world.parts.append(self)

    def add(self, batch: Batch) -> None:
        """There is a batch more."""
        self._by_id[batch.id] = batch

    def of(self, endpoint: str, now: int) -> Sequence[Batch]:
        """Those of an endpoint."""
        self._settle(now)
        return [batch for batch in self._by_id.values() if batch.endpoint == endpoint]

    def find(self, endpoint: str, batch_id: str, now: int) -> Batch:
        """Raises ServiceRefusal 404 for one that is unknown, another endpoint's or no longer kept."""
        self._settle(now)
        batch = self._by_id.get(batch_id)
        is_kept = batch is not None and (batch.kept_until is None or now < batch.kept_until)
        if batch is None or batch.endpoint != endpoint or not is_kept:
            raise ServiceRefusal(404, "batch not found")
        return batch

    def start_at(self, batch: Batch, at: int) -> None:
        """Its workers begin at `at`."""
        self._timers.set(batch.id, at)

    def step(self, now: int) -> Iterable[str]:
        """Let happen what is due by itself; the pools of workers for which requests have been queued."""
        self._settle(now)
        started: list[str] = []
        while (batch_id := self._timers.pop_due(now)) is not None:
            batch = self._by_id[batch_id]
            if batch.kept_until is not None:
                self.forget(batch, now)
            else:
                started.append(self._start(batch, now))
        return started

    def next_due(self) -> int | None:
        """When `step` has something to do next (µs)."""
        return 0 if self._world.table.ended_in_batches else self._timers.next_at()

    def _start(self, batch: Batch, now: int) -> str:
        for job in batch.requests.values():
            job.queued_at = now
            self._world.table.observer.accepted(job, is_lost=False)
            self._world.table.add(job, is_shelved=self._dice.strikes(Fault.STUCK_REQUEST))
        self._look_at(batch, now)
        return batch_pool(batch.endpoint)

    def _settle(self, now: int) -> None:
        """Take notice of the requests that have ended."""
        table = self._world.table
        ended, table.ended_in_batches = table.ended_in_batches, []
        for job in ended:
            if (batch := self._by_id.get(job.batch_id or "")) is not None:
                batch.ended += 1
                self._look_at(batch, job.finished_at or now)

    def _look_at(self, batch: Batch, now: int) -> None:
        """Whether it has come to its end."""
        if batch.fails_after is not None and batch.ended >= batch.fails_after and batch.ends_as is None:
            self.end(batch, BatchStatus.FAILED, now)
        elif batch.kept_until is None and batch.ended == len(batch.requests):
            batch.status = batch.ends_as or batch.status
            batch.kept_until = now + self._world.kept_us(self._retention_us)
            self._timers.set(batch.id, batch.kept_until)

    def end(self, batch: Batch, status: BatchStatus, now: int) -> None:
        """It begins no more of its requests, and is this once those in progress have ended."""
        batch.ends_as = status
        self._timers.drop(batch.id)
        for job in batch.requests.values():
            if job.status is ServiceStatus.IN_QUEUE:
                self._cancel(batch, job, now)
        self._settle(now)
        self._look_at(batch, now)

    def _cancel(self, batch: Batch, job: ServiceJob, now: int) -> None:
        """A request that waits is not to be executed; before its batch has begun nobody else knows of it."""
        table = self._world.table
        if job.id in table.by_id:
            table.release(job, now)
            table.finish(job, ServiceStatus.CANCELLED, now, NO_RESULT)
        else:
            job.finish(ServiceStatus.CANCELLED, now, NO_RESULT)
            batch.ended += 1

    def forget(self, batch: Batch, now: int) -> None:
        """The service knows the batch no more, nor its requests; who executes one is to stop."""
        table, pool = self._world.table, self._world.endpoints.state(batch_pool(batch.endpoint))
        del self._by_id[batch.id]
        self._timers.drop(batch.id)
        for job in batch.requests.values():
            if job.id in table.by_id:
                pool.unread += job.status is ServiceStatus.COMPLETED and not job.is_read
                table.release(job, now)
                job.expires_at = now
                table.forget(job)
