"""Collects the results of one endpoint's outstanding jobs by polling `/status`, in time.

It keeps a plan in memory of every outstanding job (`core.polling.poll_plan`), which says what to ask next. What an
answer means is decided in `core`, too; polling alone must be able to do everything, webhooks only make it cheaper.
"""

from functools import partial
from typing import Final, assert_never

import anyio
import msgspec
from anyio.abc import TaskStatus

from orchestrator.client import Permit
from orchestrator.core.jobs.run_counters import NO_NEWS
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.core.limits.rate_pacer import Operation
from orchestrator.core.polling.poll_plan_entry import Entry
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.service.http_answers import Answer, Pointless
from orchestrator.core.service.job_record import Record, plausible
from orchestrator.core.service.outcomes import (
    OF_ANOTHER,
    AskAgain,
    Gone,
    NoNews,
    StatusOutcome,
    Terminal,
    Unfinished,
    status_outcome,
)
from orchestrator.engine.collecting.finished_jobs import FinishedJobs
from orchestrator.engine.collecting.missing_job_check import MissingJobCheck
from orchestrator.engine.collecting.question_turns import QuestionTurns
from orchestrator.engine.collecting.segment_tracker import SegmentTracker
from orchestrator.engine.collecting.validation_pool import ValidationPool
from orchestrator.engine.endpoint.endpoint import Endpoint
from orchestrator.engine.runtime.poll_loop import keep_polling
from orchestrator.engine.runtime.task_pool import TaskPool
from orchestrator.errors import NotSent, Unanswered, bare
from orchestrator.ledger import Ledger
from orchestrator.units import SECOND_US

IDLE_S: Final = 5.0

TURN_S_MAX: Final = 30.0
"""For so long leave is waited for to ask out of turn."""


class Collector:
    """Collects for one endpoint. `task_pool` is where questions in flight live."""

    def __init__(self, *, endpoint: Endpoint, ledger: Ledger, task_pool: TaskPool, validators: ValidationPool) -> None:
        self._endpoint = endpoint
        self._ledger = ledger
        self._clock = endpoint.clock
        self._task_pool = task_pool
        self._segments = SegmentTracker(endpoint=endpoint, ledger=ledger)
        self._outstanding = endpoint.outstanding
        self._plan = endpoint.outstanding.plan
        self._wakeup = endpoint.outstanding.wakeup
        self._finished = FinishedJobs(endpoint=endpoint, ledger=ledger, segments=self._segments, validators=validators)
        self._turns = QuestionTurns(endpoint=endpoint)
        self._posted: set[int] = set()
        """Jobs whose step is on its way into the ledger."""

        self._missing = MissingJobCheck(endpoint=endpoint, ledger=ledger)
        self._counted_on_us = endpoint.estimates.retention.counted_on_us
        endpoint.changes.add(self._wakeup.wake)

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Asks until cancelled."""
        task_status.started()
        await keep_polling(self._poll, self._wakeup)

    async def _poll(self) -> float:
        """Asks for whatever is due; returns the seconds until more is."""
        self._follow_endpoint()
        while self._is_due() and self._turns.wait_us() == 0:
            await self._endpoint.api.down.room()
            await self._endpoint.api.down.clear()  # another large answer would only wait with those that do
            permit = await self._turns.leave()
            if permit is None:
                continue
            # Waiting for it may have changed everything.
            entry = self._plan.next(self._clock.now()) if self._turns.wait_us() == 0 else None
            if entry is None:
                permit.give_back()
                break
            self._turns.asked()
            self._task_pool.launch(partial(self._ask, entry, permit))
        now = self._clock.now()
        wakes_at = self._plan.wakes_at(now)
        self._outstanding.asked_at = now + int(IDLE_S * SECOND_US) if wakes_at is None else wakes_at
        held_us = self._turns.wait_us()
        return IDLE_S if held_us is None else max(0, self._outstanding.asked_at - now, held_us) / SECOND_US

    def _is_due(self) -> bool:
        now = self._clock.now()
        wakes_at = self._plan.wakes_at(now)
        return wakes_at is not None and wakes_at <= now

    def _follow_endpoint(self) -> None:
        """Takes over what has changed about the endpoint: its limit, whether webhooks arrive, how long results stay."""
        share = self._endpoint.api.limiter.figures(Operation.STATUS).share
        self._plan.allow(self._endpoint.estimates.status_per_s, share=share)
        if self._plan.times.webhooks is not self._endpoint.estimates.webhook_health.healthy:
            self._plan.times.webhooks = self._endpoint.estimates.webhook_health.healthy
            if not self._plan.times.webhooks:
                self._plan.replan()
        if self._counted_on_us != self._endpoint.estimates.retention.counted_on_us:
            self._counted_on_us = self._endpoint.estimates.retention.counted_on_us
            self._plan.deadlines.measure_all()

    # --- one question

    async def ask_for(self, job: int, submission: int) -> str | None:
        """Asks for that `submission` of `job` out of its turn, and acts on the answer as on any other; returns the
        status that was told.

        None where none was, where no question is wanted for now, and where `job` is being asked for anyway or is not
        outstanding by that submission.
        """
        permit = await self._endpoint.api.limiter.permit_within(Operation.STATUS, TURN_S_MAX)
        if permit is None:
            return None
        entry = self._plan.take(job, submission) if self._turns.wait_us() == 0 else None
        if entry is None:
            permit.give_back()
            return None
        told, answered = list[str | None](), anyio.Event()

        async def ask(entry: Entry) -> None:
            told.append(await self._ask(entry, permit))
            answered.set()

        self._turns.asked()
        self._task_pool.launch(partial(ask, entry))  # whoever waits may be cut off, and what was told is kept
        await answered.wait()
        return told[0]

    async def _ask(self, entry: Entry, permit: Permit) -> str | None:
        """Asks for one job and acts on the answer; returns the status that was told, if any was."""
        job, sent_at = entry.job, self._clock.now()
        assert job.remote_id is not None
        try:
            result: Answer | NotSent | Unanswered = await self._endpoint.api.status(permit, job.remote_id)
        except (NotSent, Unanswered) as error:
            result = bare(error)
        else:
            self._endpoint.health.connectivity.record_success(self._clock.now())
        now = self._clock.now()
        entry.asked_at, entry.asks = now, entry.asks + 1
        if isinstance(result, Answer) and (scrubbed := self._endpoint.scrub(result.body)) is not result.body:
            result = msgspec.structs.replace(result, body=scrubbed)
        outcome = status_outcome(result, job.remote_id)
        self._endpoint.health.question(job.id, outcome, sent_at, now)
        if self._turns.answered(outcome):
            self._wakeup.wake()
        if isinstance(outcome, Gone) and not self._missing.is_known_to_go(job, now):
            self._endpoint.health.missing_jobs.missing(job.submission or 0, now)
        elif isinstance(outcome, Terminal | Unfinished):
            self._endpoint.health.missing_jobs.answered(sent_at, now)
        if isinstance(outcome, Unfinished) and job.segment:
            await self._segments.observe(job, outcome.record, sent_at)
        if self._plan.get(job.id) is entry:  # else a webhook, or a person, was faster
            await self._act(entry, outcome, result.sent_at if isinstance(result, Answer) else sent_at)
        if job.id not in self._posted:
            self._obey_hint(entry)
        return outcome.record.status if isinstance(outcome, Terminal | Unfinished) else None

    def _obey_hint(self, entry: Entry) -> None:
        """Asks anew at once where a hint came while the answer was on its way, and that did not settle the job."""
        if entry.is_hinted and self._plan.get(entry.job.id) is entry:
            entry.is_hinted = False
            self._reschedule(entry, self._clock.now())

    def _settle(self, entry: Entry, found: Transition | int | None) -> None:
        """Hands over the step that was found for the job, which nobody asks for until it is known to be written, or
        stale. Else it is asked for again: at that time, or (None) after a pause that grows.
        """
        if isinstance(found, Transition):
            self._posted.add(entry.job.id)
            self._ledger.writer.submit(found, partial(self._landed, entry))
        elif found is None:
            self._ask_again(entry, None)
        else:
            self._reschedule(entry, found)

    def _landed(self, entry: Entry, error: Exception | None) -> None:
        self._posted.discard(entry.job.id)
        if error is not None:
            self._task_pool.fail(error)
        else:
            self._obey_hint(entry)

    async def _act(self, entry: Entry, outcome: StatusOutcome, sent_at: int) -> None:
        match outcome:
            case Terminal(record):
                within_us = (self._clock.now() - (entry.job.sent_at or 0)) * self._endpoint.api.time_scale
                record = plausible(record, within_us=round(within_us))
                self._settle(entry, await self._finished.step(entry, record))
            case Unfinished(status=status, known=known, record=record):
                self._endpoint.stuck_detector.observe(entry.job, status, sent_at)
                self._is_unfinished(entry, sent_at if known else None, record)
            case Gone():
                found = await self._missing.after_404(entry, self._clock.now())
                if isinstance(found, int):
                    self._reschedule(entry, found)
                else:
                    await self._fail(entry, found.trouble, found.message)
            case AskAgain(trouble=trouble, reason=reason, retry_after_s=retry_after_s):
                if trouble is FailureClass.TRANSPORT:
                    self._endpoint.health.unreachable(reason, sent_at, self._clock.now())
                self._ask_again(entry, retry_after_s)
            case NoNews():
                await self._no_news(entry, outcome)
            case Pointless():
                self._ask_again(entry, None)
            case _:
                assert_never(outcome)

    def _is_unfinished(self, entry: Entry, unfinished_at: int | None, record: Record) -> None:
        entry.troubles, entry.gone_at, entry.gone_after_us = 0, None, None
        job = entry.job
        if unfinished_at is not None:
            entry.retry_in_doubt = None
            job = msgspec.structs.replace(job, unfinished_at=unfinished_at)
            self._ledger.writer.record_unfinished(job)
        self._outstanding.refresh(entry, job, record, unfinished_at)

    def _ask_again(self, entry: Entry, retry_after_s: float | None) -> None:
        entry.troubles += 1
        self._reschedule(entry, self._turns.again_at(entry, retry_after_s))

    def _reschedule(self, entry: Entry, ask_at: int) -> None:
        if self._plan.get(entry.job.id) is entry:  # else it came to its end while we looked at the endpoint's health
            self._plan.schedule(entry, ask_at, is_firm=True)
            self._outstanding.planned(entry)

    async def _no_news(self, entry: Entry, answer: NoNews) -> None:
        self._task_pool.launch(partial(self._ledger.runs.count, entry.job.run, NO_NEWS))
        if answer.is_of_another:
            self._endpoint.disbelieve(OF_ANOTHER)
        found = await self._missing.after_no_news(entry.job, answer, self._clock.now())
        if found is None:
            self._ask_again(entry, None)
        else:
            await self._fail(entry, found.trouble, found.message, output=answer.raw if answer.is_torn else None)

    async def _fail(self, entry: Entry, trouble: FailureClass, message: str, *, output: bytes | None = None) -> None:
        self._settle(entry, await self._finished.failed(entry, trouble, message, output=output))
