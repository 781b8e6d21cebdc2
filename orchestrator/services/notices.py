"""Deals with what webhooks told: notes it durably, answers at once, and decides afterwards.

An outside event does not act. The listener calls `note`, which returns when the notice is durable; later the notices
are gone through in batches, each against the job as it is then. A result is taken from a webhook only if it can speak
of nothing but the execution at hand; otherwise it is a hint to ask.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
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
from orchestrator.ledger.cancels import submissions_ran
from orchestrator.ledger.reports import Submitted
from orchestrator.ledger.writer import Settled
from orchestrator.services.endpoint import Endpoint
from orchestrator.services.loop import Bell, keep_polling
from orchestrator.services.verdict import finished

BATCH_MAX: Final = 500
GATHER_S: Final = 0.02
"""How long notices gather before they are gone through together."""

IDLE_S: Final = 5.0

WAITING_MAX: Final = 5_000
"""How many notices wait in memory at most."""

BYTES_MAX: Final = 64 * 1024 * 1024
"""No more are taken into memory once their outputs come to this."""

Hint = Callable[[Job], None]
PaidTwice = Callable[[int, int], None]


class Notices:
    """The desk of one process: a `NoticeSink` for the listener, and the one who works through what it took.

    A few notices wait in memory. While more come than are dealt with, the others wait in the ledger only and are read
    from there, in pages, once memory is empty. `paid_twice` is told how many submissions of a run turned out to be one
    too many.
    """

    def __init__(
        self,
        *,
        ledger: Ledger,
        clock: Clock,
        endpoint_of: Callable[[int], Endpoint | None],
        hint: Hint,
        paid_twice: PaidTwice = lambda _run, _n: None,
        waiting_max: int = WAITING_MAX,
        bytes_max: int = BYTES_MAX,
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._endpoint_of = endpoint_of
        self._hint = hint
        self._paid_twice = paid_twice
        self._waiting_max = waiting_max
        self._bytes_max = bytes_max
        self._waiting: deque[Notice] = deque()
        self._bytes = 0
        self._unread: int | None = None
        self._passed_over = 0
        self._known_over = 0
        self._bell = Bell()

    @property
    def waiting(self) -> int:
        """How many notices are held in memory."""
        return len(self._waiting)

    async def note(self, notice: Notice) -> None:
        """Makes `notice` durable; raises `StorageError` when it could not be."""
        await self._ledger.note(notice)
        if self._unread is None and (len(self._waiting) >= self._waiting_max or self._bytes >= self._bytes_max):
            self._unread = 0
        if self._unread is not None:
            self._passed_over += 1
        else:
            self._wait(notice)
        self._bell.ring()

    async def recover(self) -> int:
        """Will take up the notices that an earlier process did not get to; returns how many."""
        self._unread = 0
        self._bell.ring()
        return await self._ledger.read(reports.notices_count)

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Goes through notices until cancelled; what is left stays in the ledger for the next process."""
        task_status.started()
        await keep_polling(self._poll, self._bell)

    def _wait(self, notice: Notice) -> None:
        self._waiting.append(notice)
        self._bytes += _size(notice)

    async def _poll(self) -> float:
        if not self._waiting and self._unread is not None:
            await self._read_on(self._unread)
        if not self._waiting:
            return IDLE_S
        batch = [self._waiting.popleft() for _ in range(min(BATCH_MAX, len(self._waiting)))]
        self._bytes -= sum(map(_size, batch))
        for notice in await self._go_through(batch):
            self._wait(notice)
        return GATHER_S

    async def _read_on(self, after: int) -> None:
        """The next page of what waits in the ledger. It was all, once a page is empty and nothing came meanwhile.

        Else from the beginning: numbers of notices that were dealt with are given again.
        """
        if after == 0:
            self._known_over = self._passed_over
        page = await self._ledger.read(
            partial(reports.notices_after, after=after, most=BATCH_MAX, bytes_max=self._bytes_max)
        )
        for _, notice in page:
            self._wait(notice)
        if page:
            self._unread = page[-1][0]
        elif self._known_over == self._passed_over:
            self._unread = None
        else:
            self._unread = 0
            self._bell.ring()

    async def _go_through(self, batch: Sequence[Notice]) -> list[Notice]:
        """Acts on a batch; returns the notices whose job changed under our hands."""
        found = await self._ledger.read(
            partial(reports.jobs_of_submissions, ids=[notice.submission for notice in batch])
        )
        taken: list[Step] = []
        settled: list[Settled] = []
        again: list[Notice] = []
        by_job: dict[int, Notice] = {}
        late: list[Notice] = []
        for notice in batch:
            job = found.jobs.get(found.job_of.get(notice.submission, 0))
            if job is not None and self._endpoint_of(job.endpoint) is None:
                continue  # it stays in the ledger for the process that will serve that endpoint
            if job is not None and job.id in by_job:
                again.append(notice)  # one step for each job and batch
                continue
            step = self._step(notice, job, was_stuck=notice.submission in found.stuck) if job is not None else None
            if step is None or job is None:
                if notice.submission in found.given_up and _ran(notice):
                    late.append(notice)
                settled.append(Settled(notice))
                continue
            by_job[job.id] = notice
            taken.append(step)
            if is_ended(step.after) or step.after.state is State.QUEUED:
                settled.append(Settled(notice, job.id))
            else:
                again.append(notice)  # adopted: now its outcome
        if late:
            await self._count_late(late)
        if not taken and not settled:
            return again
        applied = await self._ledger.take(taken, settled=settled)
        self._tell_endpoints((each.notice for each in settled if each.job is None or each.job in applied), found)
        again += [by_job[step.before.id] for step in taken if step.before.id not in applied]
        return list(dict.fromkeys(again))

    async def _count_late(self, late: Sequence[Notice]) -> None:
        """Submissions that were given up ran after all. They are marked before their notices are forgotten."""
        more = await self._ledger.write(lambda transaction: submissions_ran(transaction.connection, late))
        for run, n in more.items():
            self._paid_twice(run, n)

    def _tell_endpoints(self, settled: Iterable[Notice], found: Submitted) -> None:
        """What notices say of their endpoints: once for each, when it is settled, however often it was gone through.

        Whether it was news the job tells as it was `found`, before the notice's step.
        """
        for notice in settled:
            job, record = found.jobs.get(found.job_of.get(notice.submission, 0)), notice.record
            endpoint = None if job is None else self._endpoint_of(job.endpoint)
            if job is not None and endpoint is not None and record is not None and record.status in FINISHED:
                is_news = notice.submission == job.submission and job.is_first_execution and not is_ended(job)
                endpoint.told(job, record, notice.received_at, is_news=is_news)

    def _step(self, notice: Notice, job: Job, *, was_stuck: bool) -> Step | None:
        """The step that `notice` causes for `job`, or None where it causes none."""
        endpoint = self._endpoint_of(job.endpoint)
        record = notice.record
        assert endpoint is not None
        if is_ended(job):
            return None
        if record is None or record.status not in FINISHED:
            self._hint(job)
            return None
        if notice.submission != job.submission:
            return self._of_older(notice, job, record, endpoint)
        return self._of_latest(notice, job, record, endpoint, was_stuck=was_stuck)

    def _of_older(self, notice: Notice, job: Job, record: Record, endpoint: Endpoint) -> Step | None:
        """News of a submission that was given up for another: only a result counts, and the first one wins."""
        if not self._is_result(record, job, endpoint):
            return None
        margin_us = self._margin_us(notice, job, endpoint)
        outcome = outcome_of(job, record, trouble=None, message=None, margin_us=margin_us)
        outcome = msgspec.structs.replace(outcome, submission=notice.submission, remote_id=record.remote_id)
        return steps.completed(job, outcome, reason="webhook of an earlier submission", at=self._clock.now())

    def _of_latest(
        self, notice: Notice, job: Job, record: Record, endpoint: Endpoint, *, was_stuck: bool
    ) -> Step | None:
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
        margin_us = self._margin_us(notice, job, endpoint)
        return finished(endpoint, job, record, reason="webhook", margin_us=margin_us, was_stuck=was_stuck)

    def _is_result(self, record: Record, job: Job, endpoint: Endpoint) -> bool:
        return ended(record, output_required=endpoint.settings_of[job.run].output_required).trouble is None

    def _margin_us(self, notice: Notice, job: Job, endpoint: Endpoint) -> int:
        return margin_left(notice.received_at, endpoint.settings_of[job.run].retention_us, self._clock.now())


def _size(notice: Notice) -> int:
    """The bytes of its output."""
    return len(notice.record.output or b"") if notice.record is not None else 0


def _ran(notice: Notice) -> bool:
    """Whether `notice` tells of an execution that came to an end by itself."""
    return notice.record is not None and notice.record.status in FINISHED - {"CANCELLED"}
