"""The service's own Batch: every verb takes `now`, nothing waits, nothing is asked of the system.

A batch is a draft until it is finalized; some time later its requests stand in the queue of workers that an endpoint
has for its batches alone (`batch_pool`). Of one that is done nothing but its counts tells.
"""

from collections.abc import Sequence
from typing import Final

from orchestrator.emulator.batches.batch_records import (
    AppendReply,
    Batch,
    BatchesPage,
    BatchReply,
    BatchStatus,
    BatchSummary,
    RequestsPage,
    request_record,
)
from orchestrator.emulator.batches.batch_rules import BatchOrder, BatchRules
from orchestrator.emulator.batches.batch_table import BatchTable
from orchestrator.emulator.contract.answers import ServiceRefusal
from orchestrator.emulator.contract.faults import Fault
from orchestrator.emulator.contract.ids_and_times import resource_id
from orchestrator.emulator.jobs.endpoint_table import batch_pool
from orchestrator.emulator.jobs.jobs import FINISHED, ServiceJob
from orchestrator.emulator.jobs.world import World
from orchestrator.units import SECOND_US

NEVER_US: Final = 10 * 365 * 86_400 * SECOND_US
"""A request has no time to live of its own (not documented): it is kept for as long as its batch."""


class Batches:
    """All batches by id, oldest first; their requests are jobs of `world`."""

    def __init__(self, world: World, rules: BatchRules) -> None:
        self._world = world
        self._rules = rules
        self._dice = world.dice
        self._rng = world.rng
        self._table = BatchTable(world, round(rules.retention_s * SECOND_US))

    # --- changes

    def create(self, endpoint: str, inputs: Sequence[bytes], now: int) -> BatchReply:
        """A draft with these requests. Raises ServiceRefusal."""
        if self._rules.has_active_drafts:
            self._check_active(endpoint, now)
        batch = Batch(f"batch_{resource_id(self._rng)}", endpoint, now)
        self._add(batch, inputs, now)
        self._table.add(batch)
        return batch.reply()

    def append(self, endpoint: str, batch_id: str, inputs: Sequence[bytes], now: int) -> BatchReply | AppendReply:
        """Add requests to a draft: all of them, or none. Raises ServiceRefusal."""
        batch = self._draft(endpoint, batch_id, now)
        added = self._add(batch, inputs, now)
        if self._dice.strikes(Fault.REPEATED_APPEND) and self._has_room(batch, inputs):
            self._add(batch, inputs, now)
        if not self._rules.append_ids:
            return batch.reply()
        return AppendReply(id=batch.id, status=batch.status, requests=tuple(map(request_record, added)))

    def remove(self, endpoint: str, batch_id: str, request_id: str, now: int) -> BatchReply:
        """Take a request out of a draft. Raises ServiceRefusal."""
        batch = self._draft(endpoint, batch_id, now)
        if batch.requests.pop(request_id, None) is None:
            raise ServiceRefusal(404, "request not found")
        return batch.reply()

    def rename(self, endpoint: str, batch_id: str, name: str, now: int) -> BatchSummary:
        """Give a batch a name. Raises ServiceRefusal 404."""
        batch = self._table.find(endpoint, batch_id, now)
        batch.name = name
        return batch.summary()

    def finalize(self, endpoint: str, batch_id: str, now: int) -> BatchReply:
        """From now on the draft is none, and waits for its workers. Raises ServiceRefusal."""
        batch = self._draft(endpoint, batch_id, now)
        if not batch.requests:
            raise ServiceRefusal(400, "the batch has no requests")
        self._check_active(endpoint, now, but=batch)
        queued = sum(each.queued for each in self._table.of(endpoint, now))
        if queued + len(batch.requests) > self._rules.queued_max:
            raise self._over(f"an endpoint has at most {self._rules.queued_max} requests queued")
        batch.status = BatchStatus.FINALIZED
        if not self._dice.strikes(Fault.STUCK_BATCH):
            self._table.start_at(batch, now + round(self._rules.delay_s * SECOND_US))
        if self._dice.strikes(Fault.FAILED_BATCH):
            batch.fails_after = int(self._dice.share(Fault.FAILED_BATCH) * len(batch.requests))
        return batch.reply()

    def cancel(self, endpoint: str, batch_id: str, now: int) -> BatchReply:
        """What waits is cancelled, what is in progress ends; then it is CANCELLED. One that has ended stays as it is.

        Raises ServiceRefusal 404.
        """
        batch = self._table.find(endpoint, batch_id, now)
        if batch.kept_until is None:
            self._table.end(batch, batch.ends_as or BatchStatus.CANCELLED, now)
        return batch.reply()

    def close(self, endpoint: str) -> None:
        """The endpoint is no more, nor are its batches and their workers."""
        for batch in self._table.of(endpoint, 0):
            self._table.forget(batch, 0)  # of no account: its workers go, too
        self._world.close(batch_pool(endpoint))

    # --- questions

    def get(self, endpoint: str, batch_id: str, now: int) -> BatchSummary:
        """How a batch stands. Raises ServiceRefusal 404."""
        self._may_forget_all(endpoint, now)
        return self._table.find(endpoint, batch_id, now).summary()

    def newest(self, endpoint: str, offset: int, limit: int | None, now: int) -> BatchesPage:
        """The batches of an endpoint, newest first."""
        batches = self._table.of(endpoint, now)[::-1]
        size = self._page_size(limit)
        shown = batches[offset : offset + size]
        return BatchesPage(
            batches=tuple(batch.summary() for batch in shown),
            total=len(batches),
            offset=offset,
            limit=size,
            has_more=offset + len(shown) < len(batches),
        )

    def page(self, endpoint: str, batch_id: str, offset: int, limit: int | None, now: int) -> RequestsPage:
        """Some requests of a batch, with their results. Raises ServiceRefusal."""
        self._may_forget_all(endpoint, now)
        batch = self._table.find(endpoint, batch_id, now)
        if batch.status is BatchStatus.DRAFT and not self._rules.has_draft_pages:
            raise ServiceRefusal(409, "the batch is a draft")
        jobs = batch.shown(by_status=self._rules.order is BatchOrder.BY_STATUS)
        size = self._page_size(limit)
        shown = jobs[offset : offset + size]
        for job in shown:
            job.is_read = job.is_read or job.status in FINISHED
        return RequestsPage(
            requests=tuple(map(request_record, shown)),
            total=len(jobs),
            offset=offset,
            limit=size,
            has_more=offset + len(shown) < len(jobs),
        )

    # --- what a verb needs

    def _add(self, batch: Batch, inputs: Sequence[bytes], now: int) -> tuple[ServiceJob, ...]:
        if not self._has_room(batch, inputs):
            raise self._over(f"a batch has at most {self._rules.requests_max} requests")
        added = tuple(self._request(batch, each, now) for each in inputs)
        for job in added:
            if not self._dice.strikes(Fault.LOST_JOB):
                batch.requests[job.id] = job
        if self._rules.order is BatchOrder.RANDOM:
            shuffled = list(batch.requests.items())
            self._rng.shuffle(shuffled)
            batch.requests = dict(shuffled)
        return added

    def _request(self, batch: Batch, raw_input: bytes, now: int) -> ServiceJob:
        return ServiceJob(
            id=f"req_{resource_id(self._rng)}",
            endpoint=batch_pool(batch.endpoint),
            batch_id=batch.id,
            input=raw_input,
            webhook=None,
            s3_config=None,
            execution_timeout_us=self._world.endpoints.state(batch.endpoint).execution_timeout_us,
            expires_at=now + NEVER_US,
            queued_at=now,
            retention_us=NEVER_US,
        )

    def _has_room(self, batch: Batch, inputs: Sequence[bytes]) -> bool:
        return len(batch.requests) + len(inputs) <= self._rules.requests_max

    def _check_active(self, endpoint: str, now: int, but: Batch | None = None) -> None:
        active = (
            each.is_active or (self._rules.has_active_drafts and each.status is BatchStatus.DRAFT)
            for each in self._table.of(endpoint, now)
            if each is not but
        )
        if sum(active) >= self._rules.active_max:
            raise self._over(f"an endpoint has at most {self._rules.active_max} active batches")

    def _over(self, error: str) -> ServiceRefusal:
        return ServiceRefusal(self._rules.limit_status, error)

    def _page_size(self, limit: int | None) -> int:
        return min(self._rules.page_max if limit is None else limit, self._rules.page_max)

    def _draft(self, endpoint: str, batch_id: str, now: int) -> Batch:
        batch = self._table.find(endpoint, batch_id, now)
        if batch.status is not BatchStatus.DRAFT:
            raise ServiceRefusal(409, f"the batch is {batch.status}")
        return batch

    def _may_forget_all(self, endpoint: str, now: int) -> None:
        if self._dice.strikes(Fault.AMNESIA):
            for batch in self._table.of(endpoint, now):
                self._table.forget(batch, now)
