"""Deals with what webhooks told: notes it durably, answers at once, and decides afterwards.

An outside event does not act. The listener calls `note`, which returns when the notice is durable; later the notices
are gone through in batches, each against the job as it is then. A result is taken from a webhook only if it can speak
of nothing but the execution at hand; otherwise it is a hint to ask.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import anyio
import msgspec
from anyio.abc import TaskStatus

from orchestrator.clock import Clock
from orchestrator.core import job as steps
from orchestrator.core.deadlines import margin_left
from orchestrator.core.job import Job, Step, is_ended, outcome_of
from orchestrator.core.lifecycle import State
from orchestrator.core.notice import Notice
from orchestrator.core.outcome import FINISHED, Record, ended
from orchestrator.ledger import Ledger, reports
from orchestrator.ledger.writer import Settled
from orchestrator.services.endpoint import Endpoint
from orchestrator.services.loop import Bell, keep_polling
from orchestrator.services.verdict import finished

BATCH_MAX: Final = 500
GATHER_S: Final = 0.02
"""How long notices gather before they are gone through together."""

IDLE_S: Final = 5.0
Hint = Callable[[Job], None]


class Notices:
    """The desk of one process: a `NoticeSink` for the listener, and the one who works through what it took."""

    def __init__(
        self, *, ledger: Ledger, clock: Clock, endpoint_of: Callable[[int], Endpoint | None], hint: Hint
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._endpoint_of = endpoint_of
        self._hint = hint
        self._waiting: deque[Notice] = deque()
        self._bell = Bell()

    async def note(self, notice: Notice) -> None:
        """Makes `notice` durable; raises `StorageError` when it could not be."""
        await self._ledger.note(notice)
        self._waiting.append(notice)
        self._bell.ring()

    async def recover(self) -> int:
        """Takes up the notices that an earlier process did not get to; returns how many."""
        after, found = 0, 0
        while page := await self._ledger.read(partial(reports.notices_after, after=after, most=BATCH_MAX)):
            self._waiting.extend(notice for _, notice in page)
            after, found = page[-1][0], found + len(page)
        self._bell.ring()
        return found

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Goes through notices until cancelled; what is left stays in the ledger for the next process."""
        task_status.started()
        await keep_polling(self._poll, self._bell)

    async def _poll(self) -> float:
        if not self._waiting:
            return IDLE_S
        batch = [self._waiting.popleft() for _ in range(min(BATCH_MAX, len(self._waiting)))]
        again = await self._go_through(batch)
        self._waiting.extend(again)
        return GATHER_S

    async def _go_through(self, batch: Sequence[Notice]) -> list[Notice]:
        """Acts on a batch; returns the notices whose job changed under our hands."""
        job_of, jobs = await self._ledger.read(
            partial(reports.jobs_of_submissions, ids=[notice.submission for notice in batch])
        )
        taken: list[Step] = []
        settled: list[Settled] = []
        again: list[Notice] = []
        by_job: dict[int, Notice] = {}
        for notice in batch:
            job = jobs.get(job_of.get(notice.submission, 0))
            if job is not None and self._endpoint_of(job.endpoint) is None:
                continue  # it stays in the ledger for the process that will serve that endpoint
            if job is not None and job.id in by_job:
                again.append(notice)  # one step for each job and batch
                continue
            step = self._step(notice, job) if job is not None else None
            if step is None or job is None:
                settled.append(Settled(notice))
                continue
            by_job[job.id] = notice
            taken.append(step)
            if is_ended(step.after) or step.after.state is State.QUEUED:
                settled.append(Settled(notice, job.id))
            else:
                again.append(notice)  # adopted: now its outcome
        if not taken and not settled:
            return again
        applied = await self._ledger.take(taken, settled=settled)
        again += [by_job[step.before.id] for step in taken if step.before.id not in applied]
        return list(dict.fromkeys(again))

    def _step(self, notice: Notice, job: Job) -> Step | None:
        """The step that `notice` causes for `job`, or None where it causes none."""
        endpoint = self._endpoint_of(job.endpoint)
        record = notice.record
        assert endpoint is not None
        if record is not None and record.status in FINISHED:
            is_news = notice.submission == job.submission and job.is_first_execution and not is_ended(job)
            endpoint.told(job, record, notice.received_at, is_news=is_news)
        if is_ended(job):
            return None
        if record is None or record.status not in FINISHED:
            self._hint(job)
            return None
        if notice.submission != job.submission:
            return self._of_older(notice, job, record, endpoint)
        return self._of_latest(notice, job, record, endpoint)

    def _of_older(self, notice: Notice, job: Job, record: Record, endpoint: Endpoint) -> Step | None:
        """News of a submission that was given up for another: only a result counts, and the first one wins."""
        if not self._is_result(record, job, endpoint):
            return None
        margin_us = self._margin_us(notice, job, endpoint)
        outcome = outcome_of(job, record, trouble=None, message=None, margin_us=margin_us)
        outcome = msgspec.structs.replace(outcome, submission=notice.submission, remote_id=record.remote_id)
        return steps.completed(job, outcome, reason="webhook of an earlier submission", at=self._clock.now())

    def _of_latest(self, notice: Notice, job: Job, record: Record, endpoint: Endpoint) -> Step | None:
        if not job.is_first_execution:
            self._hint(job)  # whether it speaks of the execution before or after the /retry, only /status can say
            return None
        if job.remote_id is not None and record.remote_id is not None and job.remote_id != record.remote_id:
            self._hint(job)
            return None
        if job.state is not State.OUTSTANDING and not self._is_result(record, job, endpoint):
            if job.state is State.QUEUED or record.remote_id is None:
                return None
            return steps.adopted(job, remote_id=record.remote_id, at=self._clock.now())
        return finished(endpoint, job, record, reason="webhook", margin_us=self._margin_us(notice, job, endpoint))

    def _is_result(self, record: Record, job: Job, endpoint: Endpoint) -> bool:
        return ended(record, output_required=endpoint.settings_of[job.run].output_required).trouble is None

    def _margin_us(self, notice: Notice, job: Job, endpoint: Endpoint) -> int:
        return margin_left(notice.received_at, endpoint.settings_of[job.run].retention_us, self._clock.now())
