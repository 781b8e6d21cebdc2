"""Waiting for the limits of one endpoint: the arithmetic is `core/limits/rate_pacer.py`, the waiting is here.

Those who wait for an operation stand in line. Only the first of them watches the pacer, and takes its turn in its own
task: a turn is never handed to somebody who may have been cancelled meanwhile, so none can get lost. The others sleep
until it is their time to be the first. When a turn is free and nobody waits, nothing is awaited at all.
"""

import asyncio
import math
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Final

import anyio

from orchestrator.clock import Clock
from orchestrator.core.limits.rate_pacer import CONTRACT_LIMITS, QUEUEING, Limit, Meter, Operation, Pacer, Pacing
from orchestrator.core.limits.ratelimit_headers import read_windows
from orchestrator.core.limits.request_slots import PacerLeft
from orchestrator.core.samples.request_counts import RequestCounts
from orchestrator.core.service.http_answers import Answer
from orchestrator.ticks import TICK_US, until_tick_s
from orchestrator.units import MILLISECOND_US

SLEEP_US_MAX: Final = 50 * MILLISECOND_US
"""A wait up to this long is slept through, which costs half as much as one that an answer could cut short. Nothing but
a raised limit can make it shorter."""

TICKS_US: Final = tuple(TICK_US // parts for parts in (1, 2, 4, 5, 10, 20))
"""One's ticks are among those of all the others."""

LATE_SHARE: Final = 2 / 5
"""A tick takes no more than this share of what the pacer catches up, if it can: the rest is for a loop that is late."""


class Permit:
    """Leave to send one request. It must be ended: see the methods, of which the first counts."""

    __slots__ = ("_lane", "_open", "_used", "operation")

    def __init__(self, operation: Operation, lane: "_Lane") -> None:
        self.operation = operation
        self._lane = lane
        self._open = True
        self._used = False

    def use(self, operation: Operation) -> None:
        """The request is about to leave. Raises `RuntimeError` for a turn of another operation, or an ended one."""
        if operation is not self.operation:
            raise RuntimeError(f"a turn for {self.operation} was handed to {operation}")
        if self._used or not self._open:
            raise RuntimeError(f"this turn for {operation} is used up; each request needs its own")
        self._used = True

    def give_back(self) -> None:
        """Nothing was sent after all: the slot and the rate are free again. Harmless when the turn was used."""
        if self._open and not self._used:
            self._open = False
            self._lane.pacer.give_back()
            self._lane.wake()

    def answered(self, answer: Answer) -> None:
        """The answer was read to its end. What it says about the limits is obeyed."""
        self._open = False
        self._lane.counts.answered(answer.status, answer.answered_at - answer.sent_at)
        pacer = self._lane.pacer
        pacer.answered(answer.answered_at, answer.sent_at, answer.status, answer.retry_after_s)
        if (header := answer.headers.get("ratelimit")) is not None:
            for window in read_windows(header, None, answer.answered_at):
                if window.remaining is not None and window.reset_at is not None:
                    pacer.observe_remaining(answer.answered_at, window.remaining, window.reset_at)
        self._lane.wake()

    def not_sent(self) -> None:
        """The request never left."""
        self._open = False
        self._lane.counts.unanswered()
        self._lane.pacer.not_sent()
        self._lane.wake()

    def given_up(self, now: int) -> None:
        """No answer will be read: the slots stay taken for a window."""
        self._open = False
        self._lane.counts.unanswered()
        self._lane.pacer.given_up(now)
        self._lane.wake()


class RateLimiter:
    """The limits of one (service URL, endpoint), shared by everything in the process that talks to it.

    `limits` replaces rows of the contract's table. Raises nothing; all methods but `permit` and `permit_within` return
    at once.
    """

    def __init__(
        self, clock: Clock, limits: Mapping[Operation, Limit] | None = None, *, pacing: Pacing = "even"
    ) -> None:
        self._clock = clock
        table = {**CONTRACT_LIMITS, **(limits or {})}
        self._lanes = {
            operation: _Lane(operation, Pacer(limit, pacing, queues=operation in QUEUEING), clock)
            for operation, limit in table.items()
        }

    def permit_at_once(self, operation: Operation) -> Permit | None:
        """Leave for one request of `operation`, if it may be sent now and nobody stands in line for it."""
        lane = self._lanes[operation]
        if not lane.line:
            now = self._clock.now()
            if lane.pacer.wait_us(now) == 0:
                lane.pacer.take(now)
                return Permit(operation, lane)
        return None

    async def permit(self, operation: Operation) -> Permit:
        """Waits until one request of `operation` may be sent; first come, first served."""
        permit = await self.permit_within(operation, math.inf)
        assert permit is not None
        return permit

    async def permit_within(self, operation: Operation, seconds: float) -> Permit | None:
        """The same, but None where that takes longer than `seconds`, give or take a few ticks."""
        return self.permit_at_once(operation) or await self._lanes[operation].stand_in_line(seconds)

    def permit_past_throttle(self, operation: Operation) -> Permit | None:
        """The same as `permit_at_once`, although the service wants no such request now (`throttled_until`).

        Who stands in line is passed: those wait for the service. No limit of ours is passed.
        """
        lane = self._lanes[operation]
        now = self._clock.now()
        if lane.pacer.wait_us(now, past_throttle=True) != 0:
            return None
        lane.pacer.take(now)
        return Permit(operation, lane)

    def throttled_until(self, operation: Operation) -> int:
        """Until when the service wants no such request, as it says (microseconds UTC); in the past if it does."""
        return self._lanes[operation].pacer.throttled_until

    def available(self, operation: Operation, within_us: int) -> int:
        """How many more requests of `operation` may start within the next `within_us`, as far as one knows."""
        lane = self._lanes[operation]
        return max(0, lane.pacer.available(self._clock.now(), within_us) - len(lane.line))

    def limit(self, operation: Operation) -> Limit:
        """The limit in force."""
        return self._lanes[operation].pacer.limit

    def change(self, operation: Operation, limit: Limit) -> None:
        """Puts another limit in force, also for those who are waiting."""
        lane = self._lanes[operation]
        is_longer = limit.window_s > lane.pacer.limit.window_s
        lane.pacer.limit = limit
        if is_longer:  # what was sent before the shorter window is forgotten, and counts again
            lane.pacer.ease_in(self._clock.now())
        lane.wake()

    def hold(self, operation: Operation, answered: Iterable[int], unanswered: Iterable[int] = ()) -> None:
        """At a restart: requests that an earlier process sent hold their slots.

        When they were answered; of the others, the latest time at which they can have been given up (microseconds UTC).
        """
        self._lanes[operation].pacer.hold(answered, unanswered)

    def ease_in(self, operation: Operation) -> None:
        """At a restart: an earlier process may have sent requests of which nothing is known; see `Pacer.ease_in`."""
        self._lanes[operation].pacer.ease_in(self._clock.now())

    def reserve(self, operation: Operation, number: int, until: int, *, places: int = 0) -> None:
        """At a take-over: so many requests of the process before may still arrive until then; see `Pacer.reserve`."""
        self._lanes[operation].pacer.reserve(number, until, places=places)

    def left(self) -> dict[str, PacerLeft]:
        """How each operation stands, for a process that goes on in the place of this one."""
        now = self._clock.now()
        return {operation: lane.pacer.left(now) for operation, lane in self._lanes.items()}

    def go_on(self, left: Mapping[str, PacerLeft], ago_us: int) -> None:
        """Goes on as another process would, which stood so, so long ago. What it did not tell of was not sent."""
        for operation, lane in self._lanes.items():
            if operation in left:
                lane.pacer.go_on(left[operation], self._clock.now() - ago_us)

    def figures(self, operation: Operation) -> Meter:
        """How `operation` stands with its limit."""
        return self._lanes[operation].pacer.figures(self._clock.now())

    def counts(self, operation: Operation) -> RequestCounts:
        """What was answered to its requests so far."""
        return self._lanes[operation].counts


class _Lane:
    """One operation: its pacer and its line. Each in line has an event, which is set when it should look again."""

    __slots__ = ("clock", "counts", "line", "operation", "pacer")

    def __init__(self, operation: Operation, pacer: Pacer, clock: Clock) -> None:
        self.operation = operation
        self.pacer = pacer
        self.clock = clock
        self.counts = RequestCounts()
        self.line: OrderedDict[object, anyio.Event] = OrderedDict()

    async def stand_in_line(self, seconds: float) -> Permit | None:
        """Waits for a turn; None where it does not come within `seconds`."""
        until_s = _loop_s() + seconds
        me = object()
        self.line[me] = look = anyio.Event()
        try:
            if len(self.line) > 1:
                with anyio.CancelScope(deadline=until_s) as in_time:
                    await look.wait()
                if in_time.cancelled_caught:
                    return None
            if not await self._be_first(me, until_s):
                return None
            self.pacer.take(self.clock.now())
        finally:
            # Also when cancelled: whoever comes next must not wait for one who is gone.
            del self.line[me]
            self.wake()
        return Permit(self.operation, self)

    async def _be_first(self, me: object, until_s: float) -> bool:
        """Returns when a request may leave now, or cannot until `until_s`: whether it may."""
        while (wait_us := self.pacer.wait_us(self.clock.now())) != 0:
            now_s = _loop_s()
            if now_s >= until_s:
                return False
            sleep_s = math.inf if wait_us is None else until_tick_s(wait_us, now_s=now_s, tick_us=self._tick_us())
            if wait_us is not None and wait_us <= SLEEP_US_MAX:
                await anyio.sleep(sleep_s)
                continue
            self.line[me] = look = anyio.Event()
            with anyio.CancelScope(deadline=min(now_s + sleep_s, until_s)):
                await look.wait()
        return True

    def _tick_us(self) -> int:
        late_us = self.pacer.catch_up_us * LATE_SHARE
        return next((tick_us for tick_us in TICKS_US if tick_us <= late_us), TICKS_US[-1])

    def wake(self) -> None:
        """The first in line looks again: it has become the first, or a slot is free, or the limit is another."""
        if self.line:
            self.line[next(iter(self.line))].set()


def _loop_s() -> float:
    """The event loop's time; AnyIO takes five times as long to tell it."""
    return asyncio.get_running_loop().time()
