"""Deals with what webhooks told: drops what it has twice, and decides.

An outside event does not act. The listener notes it (`engine.collecting.notice_desk`); later the notices of an engine's
endpoints are gone through in batches, each against the job as it is then (`engine.collecting.notice_steps`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import anyio
from anyio.abc import TaskStatus

from orchestrator.core.jobs.job import Job, is_terminal
from orchestrator.core.jobs.lifecycle import Event, State, is_legal
from orchestrator.core.jobs.run_counters import NO_NEWS, PAID_TWICE
from orchestrator.core.jobs.segments import SegmentProgress, segment_end
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.core.service.outcomes import TERMINAL_STATUSES, WEBHOOK_OF_ANOTHER
from orchestrator.core.service.webhook_token import Notice, NoticeKey
from orchestrator.engine.collecting.chunk_results import ChunkResults
from orchestrator.engine.collecting.notice_queue import EARLY_US, NoticeQueue
from orchestrator.engine.collecting.notice_steps import (
    COMPLETED,
    Instead,
    SortedOut,
    completes,
    names_job,
    on_notice,
    tells_of_end,
)
from orchestrator.engine.collecting.validation_pool import GOOD, Validation, ValidationPool
from orchestrator.engine.endpoint.endpoint import Endpoint
from orchestrator.engine.runtime.poll_loop import Wakeup, keep_polling
from orchestrator.engine.runtime.progress import Progress
from orchestrator.engine.runtime.subscribers import Subscribers
from orchestrator.engine.runtime.task_pool import Request
from orchestrator.ledger import Ledger
from orchestrator.ledger.jobs.jobs import Submitted
from orchestrator.ledger.transactions.transaction import Settled
from orchestrator.ledger.transitions.segment_writes import Reported
from orchestrator.units import SECOND_US

GATHER_S: Final = 0.02
"""How long notices gather before they are gone through together."""

IDLE_S: Final = 5.0


class WebhookInbox:
    """Of one engine: works through the notices of its `endpoints`, which wait in `queue`.

    `progress` of runs counts submissions that turned out to be one too many; `owed` is woken when one that is owed a
    `/cancel` can be named at last. An output that `validators` look at leaves the line meanwhile, so that the others do
    not wait; `launch` runs what does that.
    """

    def __init__(
        self,
        *,
        ledger: Ledger,
        endpoints: Mapping[int, Endpoint],
        validators: ValidationPool,
        launch: Callable[[Request], None],
        progress: Mapping[int, Progress],
        owed: Subscribers,
        queue: NoticeQueue,
    ) -> None:
        self._ledger = ledger
        self._endpoints = endpoints
        self._validators = validators
        self._launch = launch
        self._in_validation: dict[NoticeKey, Notice] = {}
        self._validations: dict[NoticeKey, Validation] = {}
        self._steps: dict[NoticeKey, list[Transition]] = {}
        """Of the rows of chunks, by what tells of them."""

        self._progress = progress
        self._owed = owed
        self._queue = queue
        self._polling = anyio.Lock()
        self._wakeup = Wakeup()

    @property
    def waiting(self) -> int:
        """How many notices are held in memory."""
        return len(self._queue)

    def came(self, notice: Notice) -> None:
        """`notice` is durable, and may be of our endpoints."""
        self._queue.came(notice)
        self._wakeup.wake()

    def look(self) -> None:
        """Will take up the notices that are in the ledger: of an earlier process, or of another listener."""
        self._queue.look()
        self._wakeup.wake()

    async def catch_up(self) -> None:
        """Goes through everything that was noted: what it tells may save sending a job, or change how one ended."""
        while self._queue or self._queue.has_unread or self._in_validation:
            await self._poll()
            if self._in_validation and not self._queue:
                await anyio.sleep(GATHER_S)

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Goes through notices until cancelled; what is left stays in the ledger for the next process."""
        task_status.started()
        await keep_polling(self._poll, self._wakeup)

    async def _poll(self) -> float:
        async with self._polling:
            await self._validators.room()
            batch = await self._queue.batch()
            if not batch and self._queue.has_unread:
                return GATHER_S
            if not batch:
                return EARLY_US / SECOND_US if self._queue.has_early else IDLE_S
            sorted_out = await self._go_through(batch)
            for notice in sorted_out.again:
                self._queue.add(notice)
            kept = sorted_out.later.union(notice.key for notice in sorted_out.again)
            for notice in batch:
                if notice.key not in kept:
                    self._validations.pop(notice.key, None)
                    self._queue.leave(notice)
            return GATHER_S

    def _validate(self, notice: Notice, job: Job, endpoint: Endpoint, *, in_chunk: bool) -> None:
        """Has the output judged, and the notice come back with what was found."""
        key, record = notice.key, notice.record
        if record is None or key in self._in_validation:
            return
        self._in_validation[key] = notice

        async def validate() -> None:
            chunks = ChunkResults(endpoint=endpoint, ledger=self._ledger, validators=self._validators)
            try:
                if in_chunk:
                    self._steps[key] = await chunks.steps_by_webhook(job, notice, record)
                validation = GOOD if in_chunk else await self._validators.received(job, record)
                endpoint.runs.observe_validation(job.run, validation.unjudged, validation.disk_fault)
                self._validations[key] = validation
            finally:
                del self._in_validation[key]
            self._queue.add(notice)
            self._wakeup.wake()

        self._launch(validate)

    def _is_to_be_validated(self, notice: Notice, job: Job, *, in_chunk: bool) -> bool:
        if not completes(notice) or notice.key in self._validations:
            return False
        if in_chunk:  # each of its rows may want its part, once it is known what the service calls it
            return job.state is not State.UNCERTAIN or job.submission != notice.submission
        return is_legal(job.state, Event.COMPLETED) and self._validators.is_needed(job.run)  # else it is no result

    def _is_early(self, notice: Notice, job: Job) -> bool:
        """Whether what counts for more is still to come.

        That is the answer to its submission, which is the authority for what the service calls the job, or, where it is
        announced as COMPLETED as well, what is found of its output.
        """
        if job.state is State.SUBMITTING and not job.by_retry and notice.submission == job.submission:
            return True
        return not completes(notice) and (notice.submission, COMPLETED) in self._in_validation

    async def _go_through(self, batch: Sequence[Notice]) -> SortedOut:
        """Acts on a batch; returns what it came to, with the notices whose job changed under our hands.

        A job that is announced as COMPLETED and as FAILED has a result: what announces one goes first.
        """
        found = await self._ledger.jobs.of_submissions(ids=[notice.submission for notice in batch])
        sorted_out = SortedOut(standings=await self._standings(found))
        for notice in sorted(batch, key=completes, reverse=True):
            job = found.jobs.get(found.job_of.get(notice.submission, 0))
            if job is None:
                sorted_out.settled.append(Settled(notice))
            elif (endpoint := self._endpoints.get(found.endpoint_of[notice.submission])) is None:
                pass  # it stays in the ledger for the engine that will serve that endpoint
            elif job.id in sorted_out.by_job or job.id in sorted_out.late:
                sorted_out.again.append(notice)  # one step for each job and batch
            elif _is_foreign(notice, job, found, endpoint):
                self._disbelieve(notice, job, endpoint, sorted_out)
            elif self._is_early(notice, job):
                self._queue.add_early(notice)
                sorted_out.later.add(notice.key)
            elif self._is_to_be_validated(notice, job, in_chunk=(in_chunk := notice.submission in found.chunks)):
                self._validate(notice, job, endpoint, in_chunk=in_chunk)
                sorted_out.later.add(notice.key)
            else:
                self._sort_out(notice, job, found, endpoint, sorted_out)
        await self._write_late(sorted_out)
        for run, _ in sorted_out.foreign:
            await self._ledger.runs.count(run, NO_NEWS)
        taken, settled = sorted_out.taken, sorted_out.settled
        foreign = [Settled(notice) for _, notice in sorted_out.foreign]
        if not taken and not settled and not foreign:
            return sorted_out
        applied = await self._ledger.writer.apply(taken, settled=[*settled, *foreign])
        self._tell_endpoints((each.notice for each in settled if each.job is None or each.job in applied), found)
        stale = [sorted_out.by_job[step.before.id] for step in taken if step.before.id not in applied]
        sorted_out.again = list(dict.fromkeys([*sorted_out.again, *stale]))
        return sorted_out

    async def _standings(self, found: Submitted) -> Mapping[int, SegmentProgress]:
        """How far the jobs that are resumable have come."""
        there = [(job, self._endpoints[job.endpoint]) for job in found.jobs.values() if job.endpoint in self._endpoints]
        long = [job.id for job, endpoint in there if endpoint.outstanding.is_resumable(job)]
        return await self._ledger.jobs.segments.standings(long) if long else {}

    def _ask(self, job: Job) -> None:
        if (endpoint := self._endpoints.get(job.endpoint)) is not None:
            endpoint.outstanding.hint(job.id)

    def _disbelieve(self, notice: Notice, job: Job, endpoint: Endpoint, into: SortedOut) -> None:
        endpoint.disbelieve(WEBHOOK_OF_ANOTHER)
        if not is_terminal(job):
            self._ask(job)
        into.foreign.append((job.run, notice))

    def _sort_out(self, notice: Notice, job: Job, found: Submitted, endpoint: Endpoint, into: SortedOut) -> None:
        """What one notice comes to."""
        if steps := self._steps.pop(notice.key, None):
            self._take_steps(notice, job, found, steps, into)
            return
        standing = into.standings.get(job.id)
        end = None if standing is None else segment_end(standing, notice.record, unfinished_at=job.unfinished_at)
        made = on_notice(
            endpoint,
            notice,
            job,
            validation=self._validations.get(notice.key, GOOD),
            cancel_why=found.cancel_why.get(notice.submission),
            end=end,
            in_chunk=notice.submission in found.chunks,
        )
        step = made if isinstance(made, Transition) else None
        if made is Instead.ASK:
            self._ask(job)
        if step is None and end is not None and end.report is not None:
            said = Reported(job=job.id, submission=notice.submission, report=end.report, at=notice.received_at)
            into.reports.append(said)
        if step is None or is_terminal(job):
            if notice.submission in found.given_up and tells_of_end(notice):
                into.late[job.id] = notice
            elif notice.submission not in found.remote_ids and names_job(notice):
                into.unnamed.append(notice)
        if step is None:
            into.settled.append(Settled(notice))
            return
        record = notice.record
        if record is not None and record.remote_id is not None:
            endpoint.remote_ids.move(record.remote_id, job.id)  # which another one has only where ids are given twice
        into.by_job[job.id] = notice
        into.taken.append(step)
        if is_terminal(step.after) or step.after.state is State.QUEUED:
            into.settled.append(Settled(notice, job.id))
        else:
            into.again.append(notice)  # adopted: now its outcome

    def _take_steps(
        self, notice: Notice, lead: Job, found: Submitted, steps: Sequence[Transition], into: SortedOut
    ) -> None:
        """What the result of a chunk comes to, whose first row is `lead`."""
        del self._validations[notice.key]  # should they be stale, it is looked at anew
        ours = [step.before.id for step in steps]
        if not into.by_job.keys().isdisjoint(ours):
            into.again.append(notice)
            return
        if lead.id not in ours and notice.submission in found.given_up:
            into.late[lead.id] = notice
        into.by_job.update(dict.fromkeys(ours, notice))
        into.taken += steps
        into.settled.append(Settled(notice, ours[0]))

    async def _write_late(self, sorted_out: SortedOut) -> None:
        """What was learned of submissions that were given up. It is kept before their notices are forgotten."""
        if late := list(sorted_out.late.values()):
            more = await self._ledger.jobs.submissions.ran(late)
            for run, n in more.items():
                if run in self._progress:
                    self._progress[run].tally(PAID_TWICE, n)
        if sorted_out.reports:
            await self._ledger.jobs.segments.report(sorted_out.reports)
        if unnamed := sorted_out.unnamed:
            named = await self._ledger.jobs.cancels.name(unnamed)
            if named:
                self._owed.wake()

    def _tell_endpoints(self, settled: Iterable[Notice], found: Submitted) -> None:
        """What notices say of their endpoints: once for each, when it is settled, however often it was gone through.

        Whether it was news the job tells as it was `found`, before the notice's step.
        """
        for notice in settled:
            job, record = found.jobs.get(found.job_of.get(notice.submission, 0)), notice.record
            endpoint = None if job is None else self._endpoints.get(found.endpoint_of[notice.submission])
            if job is not None and endpoint is not None and record is not None and record.status in TERMINAL_STATUSES:
                is_news = notice.submission == job.submission and job.is_first_execution and not is_terminal(job)
                endpoint.on_webhook(job, record, notice.received_at, is_news=is_news)


def _is_foreign(notice: Notice, job: Job, found: Submitted, endpoint: Endpoint) -> bool:
    """Whether `notice` is about another job than that of its submission.

    Where the service gives ids twice, the token tells, and not the id: nobody has the token but the service, and it has
    each for one submission.
    """
    record = notice.record
    if record is not None and record.is_misnamed:
        return True
    if record is None or record.remote_id is None:
        return False
    return endpoint.remote_ids.contradict(record.remote_id, job.id, found.remote_ids.get(notice.submission))
