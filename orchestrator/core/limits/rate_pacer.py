"""How fast requests may leave: the contract's rate limits, and the arithmetic that keeps them.

The service's counting algorithm is unknown, so three meters work together, and a request leaves when all agree:

- *The guard*: a slot is held from before the request leaves until its answer plus one window W. The service stamps a
  request between its sending and its answer; when it is sent while fewer than N slots are held, every request outside
  the guard was stamped at least W before it. So no window of the service, wherever it begins, holds more than N.
- *Even pacing* at `EVEN_SHARE` of N/W, for services that count otherwise (token buckets, weighted counters); less where
  N is small, since round trips upset the evenness (`core.limits.request_spacing`). A send that is late (who waits is
  woken at ticks) is caught up, by at most `CATCH_UP_SHARE` of a window.
- *Concurrency*: from before connecting until the answer is read.

Besides, the service can say that it is enough: by a 429, or by a `RateLimit` header that leaves nothing. What 429s do
to the rate is decided by `core.limits.rate_controller`, and when none is to leave by `core.limits.service_pauses`.

A request given up on (time-out, cut, cancelled) may still be running at the service: it keeps its slots for W. One that
never left gives them back at once. Nothing here waits or asks for the time: `now` is an argument, in microseconds.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Literal

import msgspec

from orchestrator.core.limits.rate_controller import RateController
from orchestrator.core.limits.request_slots import PacerLeft, RequestSlots
from orchestrator.core.limits.request_spacing import LARGE, least_gap_us
from orchestrator.core.limits.service_pauses import ServicePauses
from orchestrator.units import SECOND_US

EVEN_SHARE: Final = 0.995
"""Even pacing aims at this share of N/W: the rest absorbs what round trips do to the spacing."""

CATCH_UP_SHARE: Final = 1 / 400
"""How far a late sender may catch up, as a share of the window: 25 ms, or 0.25 % of N, at the contract's limits."""

TRIP_US_MAX: Final = 300_000
"""Longer round trips are taken for this: most of them are not on the way but in the service's work, and unevenness is
promised away for those up to here."""

TRIP_SHARE_UNKNOWN: Final = 1 / 32
"""Before the first answer round trips are taken to last as long as may be, or this share of the window."""

TRIP_MEMORY: Final = 64
"""The longest round trip fades with so many shorter ones."""

TRIP_NEWS: Final = 1 / 16
"""The spacing follows where the longest round trip has changed by more than this share."""

EASE_SHARE: Final = 0.95
"""The share of the rate in the first window after a restart: room for what round trips do to an earlier process's
requests, whose answers nobody has counted."""

REQUESTS_MAX: Final = 1_000_000_000
WINDOW_S_MAX: Final = 86_400.0

Pacing = Literal["even", "window"]
"""`even`: as above. `window`: the guard alone, bursts allowed, for services known to count plain windows."""


class Operation(StrEnum):
    """An operation of the job interface that has a limit of its own."""

    RUN = "run"
    RUNSYNC = "runsync"
    STATUS = "status"
    STREAM = "stream"
    CANCEL = "cancel"
    RETRY = "retry"
    PURGE_QUEUE = "purge-queue"
    HEALTH = "health"
    OPENAI = "openai"
    HTTP = "http"
    """Whatever a server at a URL is asked for. The contract has none."""

    REQUESTS = "requests"
    BATCH = "batch"
    """All of the service's own Batch: `/batch` and what is below it. The contract has none."""


class Limit(msgspec.Struct, frozen=True):
    """At most `requests` in any `window_s` seconds, at most `concurrent` of them at once (None: any number).

    Raises `ValueError` for numbers that are none.
    """

    requests: int
    window_s: float
    concurrent: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.requests <= REQUESTS_MAX:
            raise ValueError(f"a limit allows 1 to {REQUESTS_MAX} requests, not {self.requests}")
        if not 0.001 <= self.window_s <= WINDOW_S_MAX:  # noqa: PLR2004  a millisecond, in seconds
            raise ValueError(f"a limit's window lasts 0.001 to {WINDOW_S_MAX:g} seconds, not {self.window_s:g}")
        if self.concurrent is not None and self.concurrent < 1:
            raise ValueError(f"at least 1 request at once is needed, not {self.concurrent}")


CONTRACT_LIMITS: Final[Mapping[Operation, Limit]] = MappingProxyType(
    {
        Operation.RUN: Limit(1000, 10, 200),
        Operation.RUNSYNC: Limit(2000, 10, 400),
        Operation.STATUS: Limit(2000, 10, 400),
        Operation.STREAM: Limit(2000, 10, 400),
        Operation.CANCEL: Limit(100, 10, 20),
        Operation.RETRY: Limit(100, 10, 20),
        Operation.PURGE_QUEUE: Limit(2, 10),
        Operation.HEALTH: Limit(1, 1),
        Operation.OPENAI: Limit(2000, 10, 400),
        Operation.HTTP: Limit(1000, 10, 100),
        Operation.REQUESTS: Limit(10, 10, 2),
        Operation.BATCH: Limit(100, 10, 10),
    }
)
"""The contract's table ("Limits"), per endpoint. It has no row for `/retry` (here as `/cancel`), `/batch` (the
same with fewer at once, since its bodies are large), `/health` (here one a second) and servers at URLs (here as many as
one worker of a usual kind has room for: nobody knows what is there)."""

QUEUEING: Final = frozenset({Operation.RUN, Operation.RUNSYNC, Operation.RETRY, Operation.OPENAI, Operation.HTTP})
"""The operations that put something into the service's queue, which can be full."""


class Meter(msgspec.Struct, frozen=True, kw_only=True):
    """How one operation stands with its limit.

    `used` of `allowance` slots are held (requests in flight, and those answered less than a window ago). `free_at` is
    when the next request may leave, None while that hangs on an answer. `share` is what 429s have left of the rate,
    `stray` which share of the requests is answered so whatever the rate. `queue_full`: nothing is taken, which is not
    about our rate: the service's queue is full.
    """

    sent: int
    throttled: int
    used: int
    allowance: int
    in_flight: int
    free_at: int | None
    share: float
    stray: float
    queue_full: bool


class Pacer:
    """The three meters of one operation at one endpoint, and what 429s do to them.

    Mutable, since it is asked for every request; without clock and I/O. `take` a slot only when `wait_us` is 0, and
    end every taken slot exactly once: `answered`, `given_up`, `not_sent` or `give_back`.
    """

    def __init__(self, limit: Limit, pacing: Pacing = "even", *, queues: bool = True) -> None:
        """`queues`: whether the operation is one of `QUEUEING`; a 429 to another one is always about the rate."""
        self._pacing = pacing
        self._slots = RequestSlots()
        self.controller = RateController()
        self._pauses = ServicePauses(self._slots, self.controller, queues=queues)
        self._next_ns = 0  # nanoseconds: at a million requests a window, whole microseconds would cost a tenth
        self._even_until = 0
        self._share = 1.0
        self._sent = self._throttled = 0
        self._trip_us = min(TRIP_US_MAX, limit.window_s * SECOND_US * TRIP_SHARE_UNKNOWN)
        self.limit = limit

    @property
    def limit(self) -> Limit:
        """The limit, which may be changed at any time: what is held stays held."""
        return self._limit

    @limit.setter
    def limit(self, limit: Limit) -> None:
        self._limit = limit
        window_us = round(limit.window_s * SECOND_US)
        self._slots.resize(limit.requests, limit.concurrent, window_us)
        self._catch_up_ns = round(window_us * 1000 * CATCH_UP_SHARE)
        self._set_share(self._share)

    def _set_share(self, share: float) -> None:
        self._share = share
        self._trip_us_used = self._trip_us
        spread_us, window_us = round(self._trip_us) + self.catch_up_us, self._slots.window_us
        requests = max(1, self._limit.requests - self._slots.reserved)
        gap_us = least_gap_us(requests, window_us, spread_us)
        full_ns = 1000 * max(gap_us, window_us / (EVEN_SHARE * requests))
        self.controller.set_limit(window_us * 1000 / full_ns, window_us)
        used = min(share, EASE_SHARE) if self._even_until else share
        # Whatever is refused, one in a window leaves: of a low limit the least share asks for no result in time.
        interval_ns = int(min(full_ns / used, max(full_ns, 1000 * window_us))) + 1
        self._interval_ns = 0 if self._pacing == "window" and used >= 1 else interval_ns

    @property
    def catch_up_us(self) -> int:
        """By how much a request may be late and nothing of the even rate is lost. Slots are not caught up."""
        return self._catch_up_ns // 1000

    @property
    def allowance(self) -> int:
        """How many requests a window is to have: N, or less after 429s."""
        return max(1, int(self._limit.requests * self._share))

    @property
    def throttled_until(self) -> int:
        """Until when the service wants no request, as its answers say; in the past where it does want some."""
        return self._pauses.until

    def wait_us(self, now: int, *, past_throttle: bool = False) -> int | None:
        """How long until the next request may leave: 0 means now, None that an answer has to come first.

        `past_throttle`: it is to leave although the service wants none (`throttled_until`). No limit of ours is passed.
        """
        self._advance(now)
        free_at = self._slots.free_at()
        if free_at is None or (self._pauses.is_shut and self._slots.in_flight):
            return None
        at = max(-(-self._next_ns // 1000), free_at, 0 if past_throttle else self._pauses.until)
        return at - now if at > now else 0

    def _advance(self, now: int) -> None:
        """Frees what was held long enough, and lets the rate recover."""
        reserved = self._slots.reserved
        self._slots.free(now)
        if self._even_until and now >= self._even_until:
            self._even_until = 0
        elif self._slots.reserved == reserved:
            return
        self._set_share(self._share)

    def available(self, now: int, within_us: int) -> int:
        """How many requests may leave until `now + within_us`, if no answer came until then."""
        self._advance(now)
        until, paused_until = now + within_us, self._pauses.until
        free = self._slots.free_until(until)
        if max(paused_until, -(-self._next_ns // 1000)) > until:  # as it may be once an easing in is over
            return 0
        if self._interval_ns:
            start_ns = max(self._next_ns, now * 1000 - self._catch_up_ns, paused_until * 1000)
            free = min(free, (until * 1000 - start_ns) // self._interval_ns + 1)
        if self._pauses.is_shut:
            free = min(free, 1 - self._slots.in_flight)
        return max(0, free)

    def take(self, now: int) -> None:
        """A request leaves. Only when `wait_us(now)` is 0."""
        if not self._sent:
            self.controller.begin(now)
        self._slots.in_flight += 1
        self._sent += 1
        earliest_ns = now * 1000 - self._catch_up_ns
        self._next_ns = max(self._next_ns, earliest_ns) + self._interval_ns

    def give_back(self) -> None:
        """Nothing was sent after all, and nothing was tried: the slot and its place in the schedule are free again.

        A burst cannot come of it: `take` allows no schedule to lie further back than the catch-up.
        """
        self.not_sent()
        self._next_ns -= self._interval_ns

    def not_sent(self) -> None:
        """The request could not leave: its slots are free at once, but not its place in the schedule:
        a host that is down must not be stormed.
        """
        self._slots.in_flight -= 1
        self._sent -= 1

    def given_up(self, now: int) -> None:
        """No answer will be read. The service may still be at it, and may have stamped it as late as now."""
        self._slots.on_given_up(now)

    def answered(self, now: int, sent_at: int, status: int, retry_after_s: float | None = None) -> None:
        """The answer has been read to its end. A 429 is counted like every other request, for the service may do so."""
        if status == 429:  # noqa: PLR2004
            self._throttled += 1
            self._advance(now)
            self._pauses.refuse(now, sent_at, retry_after_s)
        else:
            self._pauses.accept(now, sent_at)
        if self.controller.share != self._share:
            self._set_share(self.controller.share)
        if self._limit.requests < LARGE:
            self._took(now - sent_at)
        self._slots.on_answered(now)

    def _took(self, trip_us: int) -> None:
        """A round trip has lasted so long: the longest of late tells how uneven the service sees what leaves evenly."""
        trip_us = min(trip_us, TRIP_US_MAX)
        if trip_us > self._trip_us:
            self._trip_us = trip_us
        else:
            self._trip_us += (trip_us - self._trip_us) / TRIP_MEMORY
        if abs(self._trip_us - self._trip_us_used) > TRIP_NEWS * self._trip_us_used:
            self._set_share(self._share)

    def observe_remaining(self, now: int, remaining: int, reset_at: int) -> None:
        """The service says that `remaining` more requests fit until `reset_at`; see `ServicePauses`."""
        self._pauses.observe_remaining(now, remaining, reset_at)

    def ease_in(self, now: int) -> None:
        """An earlier process has sent what nobody knows of: whatever the pacing, evenly for a window. What that process
        sent, evenly too, leaves the service's window as fast as ours enter it, or faster.
        """
        self._even_until = now + self._slots.window_us
        self._set_share(self._share)

    def hold(self, answered: Iterable[int], unanswered: Iterable[int] = ()) -> None:
        """Slots of requests that an earlier process sent, by the times of their answers; of those that it got no answer
        to, by the latest times at which they can have been given up.
        """
        self._slots.hold(answered, unanswered)

    def reserve(self, number: int, until: int, *, places: int) -> None:
        """At a take-over: so many requests of the process before may arrive until then. Each has a slot until then, and
        so many of them a place among those at once. Nobody hears their answers. What is left goes evenly, too.
        """
        self._slots.reserve(number, places, until)
        self._set_share(self._share)

    def left(self, now: int) -> PacerLeft:
        """How it stands at `now`, once nothing is sent any more."""
        self._advance(now)
        self._set_share(self._share)  # by what is known of round trips now, as the successor does
        next_in_ns = max(-self._catch_up_ns, self._next_ns - now * 1000)
        even_for, paused_for = max(0, self._even_until - now), max(0, self._pauses.until - now)
        share, stray = self.controller.share, self.controller.stray
        return PacerLeft(self._slots.left(now), next_in_ns, self._trip_us, even_for, paused_for, share, stray)

    def go_on(self, left: PacerLeft, now: int) -> None:
        """Goes on as another process would, which stood so at `now`, by our clock."""
        self._slots.go_on(left.slots, now)
        self._next_ns, self._trip_us = now * 1000 + left.next_in_ns, left.trip
        self._even_until = now + left.even_for if left.even_for else 0
        self._pauses.until = now + left.paused_for if left.paused_for else 0
        self.controller.go_on(now, left.share, left.stray)
        self._set_share(self.controller.share)

    def figures(self, now: int) -> Meter:
        """How things stand at `now`."""
        wait_us = self.wait_us(now)
        return Meter(
            sent=self._sent,
            throttled=self._throttled,
            used=self._slots.used,
            allowance=self.allowance,
            in_flight=self._slots.in_flight,
            free_at=None if wait_us is None else now + wait_us,
            share=self._share,
            stray=self.controller.stray,
            queue_full=self._pauses.queue_full,
        )
