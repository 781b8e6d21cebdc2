"""Keeps things in order for as long as the process lives: settles what a dead process has left and uncertain
submissions, and has its duties done.

It begins with what a dead process left behind. Then it settles submissions that nobody adopted, and goes through its
duties, each at its own pace: one that fails is logged and tried again, later and later, while the others go on. When it
last ran stands in the heartbeat, so that its silence can be noticed.
"""

import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

import anyio
import msgspec
from anyio.abc import TaskStatus

from orchestrator.core.jobs import transitions
from orchestrator.core.jobs.deadlines import TTL_GRACE_US, Absence, absence
from orchestrator.core.jobs.job import Job, Outcome
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.jobs.retry import backoff_us, is_tried_again
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.engine.collecting.result_steps import on_failed
from orchestrator.engine.endpoint.endpoint import Endpoint
from orchestrator.engine.runtime.poll_loop import SELDOM_S, Wakeup, keep_polling
from orchestrator.errors import OrchestratorError
from orchestrator.ledger import Ledger
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.words_and_defaults import OnUncertain
from orchestrator.units import SECOND_US
from orchestrator.views.status import JanitorSummary

PAGE: Final = 1_000

_GONE: Final[Mapping[Absence, FailureClass | None]] = {
    Absence.TTL: FailureClass.TIMED_OUT,
    Absence.EXPIRED: FailureClass.EXPIRED,
    Absence.MISSING: None,
}

log = logging.getLogger(__name__)


class Duty:
    """Something to be looked after every `every_s` seconds. `do` may return after how many it wants to go on."""

    def __init__(self, name: str, every_s: float, do: Callable[[], Awaitable[float | None]]) -> None:
        self.name = name
        self.every_s = every_s
        self.do = do
        self.due_at = 0
        self.troubles = 0


class Recovered(msgspec.Struct, frozen=True, kw_only=True):
    """What an earlier process left at the service."""

    outstanding: int
    uncertain: int
    """Submissions whose answer nobody has, those included that a crash caught under way."""

    repay_uncertain: int
    """Uncertain ones that are to be sent again: this and what follows will probably be paid again."""

    repay_expired: int
    """Those whose results have probably expired meanwhile."""

    repay_timed_out: int
    """Those that the service has deleted meanwhile, their TTL being over."""

    @property
    def to_repay(self) -> int:
        """All jobs that will probably be paid again."""
        return self.repay_uncertain + self.repay_expired + self.repay_timed_out


class Janitor:
    """Recovers at start, then settles uncertain submissions when their grace is over."""

    def __init__(
        self,
        ledger: Ledger,
        endpoints: Mapping[int, Endpoint],
        settings_of: Mapping[int, RunSettings],
        duties: Sequence[Duty] = (),
        *,
        settled_after_us: int = 0,
    ) -> None:
        """What an earlier process left unanswered is settled no sooner than after `settled_after_us`."""
        self._settled_after_us = settled_after_us
        self._ledger = ledger
        self._endpoints = endpoints
        self._settings_of = settings_of
        self._duties = (Duty("settle", 0.0, self._settle_due), *duties)
        self.summary: JanitorSummary | None = None
        """When it last ran, and which duties failed; None before the first time."""

        self._wakeup = Wakeup()

    async def recover(self, endpoints: Collection[int]) -> Recovered:
        """Puts in order what an earlier process left at `endpoints`, which this process serves from now on, and has
        them adopt their outstanding jobs, a page at a time.

        Jobs found in `submitting` are uncertain, unless they provably never left: those are queued again. An embedded
        service has forgotten its jobs: they are queued again, and not counted as lost.
        """
        is_meant = frozenset(endpoints).__contains__
        retried: set[int] = set()  # outstanding by now; the feed has told the collector that their /retry is unanswered
        async for found in self._pages(State.SUBMITTING, is_meant):
            page = [job for job in found if not job.is_carried]
            retried |= {job.id for job in page if job.by_retry}
            never_left = await self._ledger.never_left(page)
            await self._ledger.writer.apply([self._left(job, never_left) for job in page])
        uncertain = outstanding = 0
        repay = Counter[FailureClass | None]()
        async for page in self._pages(State.UNCERTAIN, is_meant):
            uncertain += len(page)
            repay.update(map(self._repaid_for, page))
        async for page in self._pages(State.OUTSTANDING, is_meant):
            for job in page:
                self._endpoints[job.endpoint].outstanding.carried += job.is_carried
            forgotten = [job for job in page if self._is_local(job) and not job.is_rider]
            await self._ledger.writer.apply([self._forgotten(job) for job in forgotten])
            kept = [job for job in page if not self._is_local(job)]
            outstanding += len(kept)
            kept = [job for job in kept if not job.is_carried]
            repay.update(map(self._repaid_for, kept))
            for job in kept:
                if job.id not in retried:
                    self._endpoints[job.endpoint].adopt((job,))
        return Recovered(
            outstanding=outstanding,
            uncertain=uncertain,
            repay_uncertain=repay[FailureClass.UNCERTAIN],
            repay_expired=repay[FailureClass.EXPIRED],
            repay_timed_out=repay[FailureClass.TIMED_OUT],
        )

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Goes on until cancelled."""
        task_status.started()
        await keep_polling(self._poll, self._wakeup)

    async def _pages(self, state: State, is_meant: Callable[[int], bool]) -> AsyncIterator[list[Job]]:
        after = (0, 0)
        while page := await self._ledger.jobs.in_state(state=state, after=after, most=PAGE):
            after = (page[-1].due_at, page[-1].id)
            yield [job for job in page if is_meant(job.endpoint)]

    def _is_served(self, endpoint: int) -> bool:
        return endpoint in self._endpoints

    def _is_local(self, job: Job) -> bool:
        return self._endpoints[job.endpoint].is_local

    def _forgotten(self, job: Job) -> Transition:
        return self._endpoints[job.endpoint].homes.homeward(queued_again(job, self._ledger.now()))

    def _left(self, job: Job, never_left: Collection[int]) -> Transition:
        endpoint = self._endpoints[job.endpoint]
        now = self._ledger.now()
        settled_from = now + self._settled_after_us
        step = left_submitting(endpoint, job, now, never_left=job.submission in never_left, settled_from=settled_from)
        return endpoint.homes.homeward(step)

    def _repaid_for(self, job: Job) -> FailureClass | None:
        """The trouble for which `job` will be sent again, unless its result is or was there after all; None for none.

        A result can no longer be there if the job finished soon after it was last seen unfinished, or once its TTL is
        over.
        """
        settings, now = self._settings_of[job.run], self._ledger.now()
        is_deleted = job.ttl_at is not None and job.ttl_at + TTL_GRACE_US <= now
        if job.state is State.UNCERTAIN:
            is_held = settings.on_uncertain is OnUncertain.HOLD and not is_deleted
            trouble = None if is_held else FailureClass.UNCERTAIN
        elif not job.unfinished_at:
            trouble = None  # nobody knows: the clock was ahead of whoever saw it last
        else:
            retention_us = self._endpoints[job.endpoint].estimates.agreed_of(job)
            trouble = _GONE[absence(job, now=now, retention_us=retention_us)]
        return trouble if trouble is not None and is_tried_again(job, trouble, limits=settings.limits) else None

    # --- settling

    def on_steps(self, taken: Sequence[Transition]) -> None:
        """Takes in the steps of a transaction."""
        if any(step.after.state is State.UNCERTAIN for step in taken):
            self._duties[0].due_at = 0
            self._wakeup.wake()

    async def _poll(self) -> float:
        """Does what is due; returns the seconds until more is."""
        for duty in self._duties:
            if duty.due_at <= self._ledger.now():
                await self._do(duty)
        failing = tuple(duty.name for duty in self._duties if duty.troubles)
        self.summary = JanitorSummary(at=self._ledger.now(), failing=failing)
        return max(0.0, (min(duty.due_at for duty in self._duties) - self._ledger.now()) / SECOND_US)

    async def _do(self, duty: Duty) -> None:
        """One duty. What the ledger or the service cannot do now is tried again; a defect ends the program, loudly."""
        try:
            again_s = await duty.do()
        except OrchestratorError as error:
            duty.troubles += 1
            wait_us = backoff_us(duty.troubles, 0)
            log.warning("%s: %s; trying again in %.0f s", duty.name, error, wait_us / SECOND_US)
        else:
            duty.troubles = 0
            wait_us = int((duty.every_s if again_s is None else again_s) * SECOND_US)
        duty.due_at = self._ledger.now() + wait_us

    async def _settle_due(self) -> float:
        """Settles what is due; returns the seconds until more is. Of endpoints we do not serve, everything waits."""
        now = self._ledger.now()
        async for page in self._pages(State.UNCERTAIN, self._is_served):
            due = [job for job in page if job.due_at <= now]
            if due:
                over = await self._cancelled({job.run for job in due})
                settled = [self._settled(job, is_over=job.run in over) for job in due if not job.is_rider]
                await self._ledger.writer.apply(settled)
            if len(due) < len(page):
                return (page[len(due)].due_at - now) / SECOND_US
        return SELDOM_S  # the feed tells of the next one

    async def _cancelled(self, runs: Iterable[int]) -> set[int]:
        """Those of `runs` that somebody has cancelled."""
        return {run for run in runs if (await self._ledger.runs.controls(run=run)).cancel}

    def _settled(self, job: Job, *, is_over: bool) -> Transition:
        """Nobody adopted it in time: the run's policy decides, unless the run `is_over`, cancelled."""
        if is_over:
            return transitions.cancelled_on_request(job, at=self._ledger.now())
        message = "the answer to its submission never came, and no webhook told of it"
        outcome = Outcome(
            submission=job.submission, remote_id=None, status=None, trouble=FailureClass.UNCERTAIN, message=message
        )
        return on_failed(self._endpoints[job.endpoint], job, outcome, reason="nobody adopted it")


def left_submitting(endpoint: Endpoint, job: Job, now: int, *, never_left: bool, settled_from: int = 0) -> Transition:
    """The step for a job of `endpoint` whose request nobody is waiting for any more, if it ever left. If so, it is not
    settled before `settled_from`.
    """
    if never_left:
        return transitions.deferred(job, due_at=now, reason="the process ended before it was sent", at=now)
    if endpoint.is_local:
        return queued_again(job, now)
    sent_at = now if job.unfinished_at is None else job.unfinished_at
    if job.by_retry:
        return transitions.accepted_for_retry(job, sent_at=sent_at, at=now, answered=False)
    at = max(endpoint.settle_at(job, now), settled_from)
    return transitions.left_unanswered(job, settle_at=at, reason="the process ended before the answer came", at=now)


def queued_again(job: Job, now: int) -> Transition:
    """The step for a job that an embedded service has forgotten."""
    return transitions.deferred(job, due_at=now, reason="the embedded service ended", at=now)
