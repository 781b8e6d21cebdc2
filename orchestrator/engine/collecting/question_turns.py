"""When questions may leave an endpoint's collector: what stands in their way, and leave to send one."""

import math
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

import anyio

from orchestrator.client import Permit
from orchestrator.core.jobs.deadlines import ASK_GAP_US_MIN, safe_until
from orchestrator.core.jobs.retry import BACKOFF_S_MAX, backoff_us
from orchestrator.core.limits.rate_pacer import Operation
from orchestrator.core.polling.imposed_pause import ImposedPause
from orchestrator.core.polling.poll_plan_entry import Entry
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.service.http_answers import Pointless
from orchestrator.core.service.outcomes import AskAgain, Gone, StatusOutcome, Terminal, Unfinished
from orchestrator.engine.endpoint.endpoint import Endpoint
from orchestrator.ticks import TICK_US
from orchestrator.units import SECOND_US

TROUBLES: Final = 4
"""The wait for another question grows with so many that came to nothing: to 8 s."""

TROUBLES_IN_OUTAGE: Final = 3
"""To 4 s: longer than the pauses of an outage, and not so long that a job waits when it is over."""

LEAVE_S: Final = 1.0
"""Leave that does not come within this time is asked for anew: by then the service may want a pause."""


@dataclass(kw_only=True, eq=False)
class QuestionTurns:
    """Of one endpoint."""

    endpoint: Endpoint
    _pause: ImposedPause = field(init=False, default_factory=ImposedPause)

    def __post_init__(self) -> None:
        self._deadlines = self.endpoint.outstanding.plan.deadlines

    def wait_us(self) -> int | None:
        """How long no question may go since none is answered, all are refused, or none is wanted; None for as long as
        nothing changes.
        """
        now, until = self.endpoint.clock.now(), self._unwanted_until()
        least_us = max(
            self.endpoint.health.questions.breaker.wait_us(now), self.endpoint.health.questions.refusals.wait_us(now)
        )
        if until <= now:
            self._pause.over()
            return least_us
        imposed_us = self._pause.wait_us(now, until=until, respite=self._deadlines.respite(now))
        return None if imposed_us is None else max(least_us, imposed_us)

    async def leave(self) -> Permit | None:
        """Leave for one question, once the limits allow it; None where something else may stand in its way by now."""
        limiter = self.endpoint.api.limiter
        if self.endpoint.clock.now() >= limiter.throttled_until(Operation.STATUS):
            return await limiter.permit_within(Operation.STATUS, LEAVE_S)
        permit = limiter.permit_past_throttle(Operation.STATUS)
        if permit is None:
            await anyio.sleep(TICK_US / SECOND_US)
        return permit

    def asked(self) -> None:
        """A question leaves."""
        now = self.endpoint.clock.now()
        self.endpoint.health.questions.refusals.asked(now)
        if self.endpoint.health.questions.breaker.is_tripped:
            lost_at = self._deadlines.respite(now).lost_at
            self.endpoint.health.questions.breaker.record_sent(now, left_us=None if lost_at is None else lost_at - now)
        if (until := self._unwanted_until()) > now and self._pause.asked(now, self._deadlines.respite(now)):
            self.endpoint.warn(f"{self._why(until)}, but results would be gone by then: single ones are asked for")

    def answered(self, outcome: StatusOutcome) -> bool:
        """What came of a question; returns whether others may follow that had to wait."""
        match outcome:
            case Terminal() | Unfinished() | Gone():
                self._pause.answered()
                if self.endpoint.health.uncollectable is not None:
                    self.endpoint.health.go_on()
                return self._pause.is_passed
            case Pointless() | AskAgain(trouble=FailureClass.THROTTLED):
                self._pause.refused()
            case _:
                pass
        return False

    def _unwanted_until(self) -> float:
        """Until when no question is wanted, as far as anybody has said; infinity for as long as nothing is mended."""
        if self.endpoint.health.uncollectable is not None:
            return math.inf
        return self.endpoint.api.limiter.throttled_until(Operation.STATUS)

    def _why(self, until: float) -> str:
        if self.endpoint.health.uncollectable is not None:
            return f"{self.endpoint.health.uncollectable}: questions are pointless until that is mended"
        return f"the service wants no question before {datetime.fromtimestamp(until // SECOND_US, UTC):%H:%M:%S} UTC"

    def again_at(self, entry: Entry, retry_after_s: float | None) -> int:
        """When to ask again where nothing was learned: soon, at a growing pace, but once more in time, whatever the
        service wishes.

        In an outage the pace is that of all questions. The job gives way to the others for a little longer than that,
        also past its deadline: it may be the only one that cannot be asked for.
        """
        now = self.endpoint.clock.now()
        left_us = safe_until(entry.job, self.endpoint.estimates.retention_of(entry.job)) - now
        if self.endpoint.health.questions.breaker.is_tripped:
            wait_us = backoff_us(min(entry.troubles, TROUBLES_IN_OUTAGE), entry.job.id)
            return now + (min(wait_us, max(left_us // 2, ASK_GAP_US_MIN)) if left_us > 0 else wait_us)
        # The limiter obeys the whole of a Retry-After: a job that is due early waits for its turn there.
        wished_us = int(min(retry_after_s or 0, BACKOFF_S_MAX) * SECOND_US)
        wait_us = max(backoff_us(min(entry.troubles, TROUBLES), entry.job.id), wished_us)
        if left_us > 0:  # towards the last moment at a pace that grows
            wait_us = min(wait_us, max(entry.deadline - now, left_us // 8, ASK_GAP_US_MIN))
        return now + wait_us
