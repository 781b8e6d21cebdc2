"""Settles what nobody else will: rows that a dead process left behind, and submissions that nobody adopted."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from typing import Final

import anyio
import msgspec
from anyio.abc import TaskStatus

from orchestrator.clock import Clock
from orchestrator.core import job as steps
from orchestrator.core.job import Job, Outcome, Step
from orchestrator.core.lifecycle import State
from orchestrator.core.outcome import Trouble
from orchestrator.ledger import Ledger, reports
from orchestrator.services.endpoint import Endpoint
from orchestrator.services.loop import Bell, keep_polling
from orchestrator.services.verdict import in_trouble
from orchestrator.settings import OnExpired, OnUncertain, RunSettings

PAGE: Final = 1_000
IDLE_S: Final = 5.0
SECOND_US: Final = 1_000_000


class Recovered(msgspec.Struct, frozen=True, kw_only=True):
    """What an earlier process left at the service."""

    outstanding: int
    uncertain: int
    """Submissions whose answer nobody has, those included that a crash caught in `submitting`."""

    to_repay: int
    """Jobs that will probably be paid again: uncertain ones to be resubmitted, and results that expired meanwhile."""


class Janitor:
    """Recovers at start, then settles uncertain submissions when their grace is over.

    `endpoint_of` gives the endpoint for an id, where this process serves it.
    """

    def __init__(
        self,
        *,
        ledger: Ledger,
        clock: Clock,
        settings_of: Mapping[int, RunSettings],
        endpoint_of: Callable[[int], Endpoint | None],
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._settings_of = settings_of
        self._endpoint_of = endpoint_of
        self._bell = Bell()
        ledger.subscribe(self._on_steps)

    async def recover(self, adopt: Callable[[list[Job]], None]) -> Recovered:
        """Puts in order what an earlier process left; hands outstanding jobs to `adopt`, a page at a time.

        Jobs found in `submitting` are uncertain. An embedded service has forgotten its jobs: they are queued again, and
        not counted as lost. Jobs of endpoints that this process does not serve are left as they are.
        """
        retried: set[int] = set()  # outstanding by now; the feed has told the collector that their /retry is unanswered
        async for page in self._pages(State.SUBMITTING):
            retried |= {job.id for job in page if job.by_retry}
            await self._ledger.take([self._left_submitting(job) for job in page])
        uncertain = repay = outstanding = 0
        async for page in self._pages(State.UNCERTAIN):
            uncertain += len(page)
            repay += sum(self._settings_of[job.run].on_uncertain is OnUncertain.RESUBMIT for job in page)
        async for page in self._pages(State.OUTSTANDING):
            forgotten = [job for job in page if self._is_local(job)]
            await self._ledger.take([self._queued_again(job) for job in forgotten])
            kept = [job for job in page if not self._is_local(job)]
            outstanding += len(kept)
            repay += sum(self._is_repaid(job) for job in kept)
            adopt([job for job in kept if job.id not in retried])
        return Recovered(outstanding=outstanding, uncertain=uncertain, to_repay=repay)

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Settles until cancelled."""
        task_status.started()
        await keep_polling(self._poll, self._bell)

    async def _pages(self, state: State) -> AsyncIterator[list[Job]]:
        after = (0, 0)
        while page := await self._ledger.read(partial(reports.jobs_in, state=state, after=after, most=PAGE)):
            after = (page[-1].due_at, page[-1].id)
            yield [job for job in page if self._endpoint_of(job.endpoint) is not None]

    def _left_submitting(self, job: Job) -> Step:
        now = self._clock.now()
        if self._is_local(job):
            return self._queued_again(job)
        if job.by_retry:
            return steps.accepted_for_retry(job, sent_at=job.unfinished_at or now, at=now, answered=False)
        endpoint = self._endpoint_of(job.endpoint)
        assert endpoint is not None
        settle_at = endpoint.settle_at(job, now)
        return steps.unanswered(job, settle_at=settle_at, reason="the process ended before the answer came", at=now)

    def _queued_again(self, job: Job) -> Step:
        now = self._clock.now()
        return steps.deferred(job, due_at=now, reason="the embedded service ended", at=now)

    def _is_local(self, job: Job) -> bool:
        endpoint = self._endpoint_of(job.endpoint)
        return endpoint is not None and endpoint.is_local

    def _is_repaid(self, job: Job) -> bool:
        """Whether its result can no longer be there, if it finished soon after it was last seen unfinished."""
        settings = self._settings_of[job.run]
        has_expired = (job.unfinished_at or 0) + settings.retention_us < self._clock.now()
        return has_expired and settings.on_expired is OnExpired.RESUBMIT

    # --- settling

    def _on_steps(self, taken: Sequence[Step]) -> None:
        if any(step.after.state is State.UNCERTAIN for step in taken):
            self._bell.ring()

    async def _poll(self) -> float:
        """Settles what is due; returns the seconds until more is. Of endpoints we do not serve, everything waits."""
        now = self._clock.now()
        async for page in self._pages(State.UNCERTAIN):
            due = [job for job in page if job.due_at <= now]
            served = [job for job in due if self._endpoint_of(job.endpoint) is not None]
            if served:
                await self._ledger.take([self._settled(job) for job in served])
            if len(due) < len(page):
                return (page[len(due)].due_at - now) / SECOND_US
        return IDLE_S

    def _settled(self, job: Job) -> Step:
        """Nobody adopted it in time: the run's policy decides."""
        endpoint = self._endpoint_of(job.endpoint)
        assert endpoint is not None
        message = "the answer to its submission never came, and no webhook told of it"
        outcome = Outcome(
            submission=job.submission, remote_id=None, status=None, trouble=Trouble.UNCERTAIN, message=message
        )
        return in_trouble(endpoint, job, outcome, reason="nobody adopted it")
