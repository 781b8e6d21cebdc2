"""Cancels submissions at the service, by `/cancel`, within the limit for that.

What is to be cancelled is a debt in the ledger (`ledger.jobs.cancels`), so that nothing is forgotten: a submission
too many that a crash left running would go on costing money. A request whose answer is unknown is sent again, which
is harmless; what came of it, `/status` says.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import anyio
from anyio.abc import TaskStatus

from orchestrator.core.jobs.cancel_reason import CancelWhy
from orchestrator.core.jobs.retry import BACKOFF_S_MAX, backoff_or_asked_us
from orchestrator.core.jobs.transition_type import Transition, leaves_extra
from orchestrator.core.limits.rate_pacer import Operation
from orchestrator.core.polling.stuck_jobs import QUEUED
from orchestrator.core.service.outcomes import TERMINAL_STATUSES, cancel_outcome
from orchestrator.engine.hosting.endpoint_registry import ServedEndpoint
from orchestrator.engine.runtime.poll_loop import SELDOM_S, Wakeup, keep_polling
from orchestrator.engine.runtime.subscribers import Subscribers
from orchestrator.errors import NotSent, Unanswered
from orchestrator.ledger import Ledger
from orchestrator.ledger.jobs.cancels import OwedCancel
from orchestrator.units import SECOND_US

PAGE: Final = 100
"""The most cancellations that are under way at once: at the contract's limit, ten seconds' worth."""

TURN_S_MAX: Final = 30.0
"""For so long a turn is waited for: one endpoint that wants no `/cancel` for an hour must hold up neither those of the
others nor the end of a run. What got none is owed on.
"""

CLOSE_LOOK_S: Final = 5.0
"""How often it looks after there was something: what is put off comes due, and of what became one too many before the
answer to its `/run` came, the remote id is still to come."""

CLOSE_LOOKS_FOR_US: Final = 180_000_000
"""For how long: longer than a `/cancel` is put off, and than an answer can take."""


class Canceller:
    """Settles what is owed at the endpoints that are `served`, as `owed` tells; a job whose `/cancel` was answered is
    asked for at once.
    """

    def __init__(self, ledger: Ledger, served: Mapping[int, ServedEndpoint], owed: Subscribers) -> None:
        self._ledger = ledger
        self._served = served
        self._wakeup = Wakeup()
        self._troubles: dict[int, int] = {}
        self._polling = anyio.Lock()
        self._closely_until = 0
        owed.add(self.wake)

    def wake(self) -> None:
        """Something is owed."""
        self._closely_until = self._ledger.now() + CLOSE_LOOKS_FOR_US
        self._wakeup.wake()

    def on_steps(self, taken: Sequence[Transition]) -> None:
        """Takes in the steps of a transaction."""
        if any(leaves_extra(step) for step in taken):
            self.wake()

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Cancels until cancelled itself; what is owed then stays in the ledger for the next process."""
        soon = self._ledger.now() + CLOSE_LOOKS_FOR_US
        if await self._ledger.jobs.cancels.due(now=soon, after=(0, 0), most=1):
            self._closely_until = soon  # an earlier process has put something off
        task_status.started()
        await keep_polling(self._poll, self._wakeup, at_least_every_s=SELDOM_S)

    async def owes(self) -> bool:
        """Whether anything is due now at the endpoints that are served."""
        now, after = self._ledger.now(), (0, 0)
        while page := await self._ledger.jobs.cancels.due(now=now, after=after, most=PAGE):
            if any(owed.endpoint in self._served for owed in page):
                return True
            after = (page[-1].cancel_at, page[-1].submission)
        return False

    async def finish(self) -> None:
        """Settles what is due now, so that nothing too many goes on running when a run is over."""
        await self._poll()

    async def _poll(self) -> float:
        """Sends what is due, a page at a time; returns the seconds until it looks again."""
        async with self._polling:
            now, after = self._ledger.now(), (0, 0)
            soon = now + int(SELDOM_S * SECOND_US)  # what comes due before the next look, as the end of a grace does
            later: list[OwedCancel] = []
            while not later and (page := await self._ledger.jobs.cancels.due(now=soon, after=after, most=PAGE)):
                after = (page[-1].cancel_at, page[-1].submission)
                due, later = _parted(page, now)
                if due:
                    await self._cancel_all(due)
                    self._closely_until = self._ledger.now() + CLOSE_LOOKS_FOR_US
        look_s = CLOSE_LOOK_S if now < self._closely_until else SELDOM_S
        return min(look_s, (later[0].cancel_at - now) / SECOND_US) if later else look_s

    async def _cancel_all(self, page: list[OwedCancel]) -> None:
        found = _Found()
        try:
            async with anyio.create_task_group() as group:
                for owed in page:
                    served = self._served.get(owed.endpoint)
                    if served is not None:  # else it is owed by the process that will serve that endpoint
                        group.start_soon(self._cancel, served, owed, found)
        finally:
            if found.until:
                with anyio.CancelScope(shield=True):  # what was answered need not be asked for again
                    await self._ledger.jobs.cancels.settle(found.until)
        for owed in found.sent:
            if owed.why is not CancelWhy.EXTRA:
                self._served[owed.endpoint].endpoint.outstanding.hint(owed.job)

    async def _cancel(self, served: ServedEndpoint, owed: OwedCancel, found: "_Found") -> None:
        """One request, unless it turns out that there is to be none."""
        api = served.endpoint.api
        permit = await api.limiter.permit_within(Operation.CANCEL, TURN_S_MAX)
        if permit is None:
            found.until[owed.submission] = self._ledger.now() + BACKOFF_S_MAX * SECOND_US
            return
        if not await self._ledger.jobs.cancels.is_owed(submission=owed.submission):
            permit.give_back()  # taken back while it waited for its turn
            return
        if owed.why is CancelWhy.MOVED:  # it may have begun meanwhile, and would be cut off
            status = await served.collector.ask_for(owed.job, owed.submission)
            if status != QUEUED:
                permit.give_back()
                await self._leave(owed, status, found)
                return
        try:
            again = cancel_outcome(await api.cancel(permit, owed.remote_id), owed.remote_id)
        except (NotSent, Unanswered) as error:
            again = cancel_outcome(error, owed.remote_id)
        found.sent.append(owed)
        if again is None:
            self._settle(owed, found)
        else:
            self._put_off(owed, again.retry_after_s or 0, found)

    def _settle(self, owed: OwedCancel, found: "_Found") -> None:
        self._troubles.pop(owed.submission, None)
        found.until[owed.submission] = None

    def _put_off(self, owed: OwedCancel, asked_s: float, found: "_Found") -> None:
        troubles = self._troubles[owed.submission] = self._troubles.get(owed.submission, 0) + 1
        wait_us = backoff_or_asked_us(troubles, owed.submission, asked_s)
        found.until[owed.submission] = self._ledger.now() + wait_us

    async def _leave(self, owed: OwedCancel, status: str | None, found: "_Found") -> None:
        """What is to be moved does not wait there any more, as its `status` says; where that is None nobody has told.

        Of what is over it stays known why it was to be cancelled: that may be what ended it, by a request whose answer
        nobody has heard.
        """
        if status in TERMINAL_STATUSES:
            self._settle(owed, found)
        elif status is not None:
            self._troubles.pop(owed.submission, None)
            await self._ledger.jobs.cancels.drop([owed.submission])
        elif await self._ledger.jobs.cancels.is_waited_for(submission=owed.submission):
            self._put_off(owed, 0, found)
        else:
            self._settle(owed, found)


@dataclass(eq=False)
class _Found:
    """What has come of a page of debts."""

    until: dict[int, int | None] = field(default_factory=dict)
    """When the next request for a submission is due; None where none is."""

    sent: list[OwedCancel] = field(default_factory=list)
    """Those of which a `/cancel` has left."""


def _parted(page: Sequence[OwedCancel], now: int) -> tuple[list[OwedCancel], list[OwedCancel]]:
    """What is due by now, and what is not, of what is in the order in which it comes due."""
    number = bisect_right(page, now, key=lambda owed: owed.cancel_at)
    return list(page[:number]), list(page[number:])
