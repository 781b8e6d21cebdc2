"""Time-outs that are about silence, and that count only the time in which somebody could have listened.

A timer does not know why it is late. In a process that was stopped (SIGSTOP, a closed lid) every timer that fell due
meanwhile goes off at once, before a byte of what has come is read: a hundred answers would be given up that lie in the
sockets. So no request has a timer. One ticker looks at all of them, and

- a tick that comes late adds no more than a tick to the time that counts;
- after a gap nobody is judged before the loop has had a whole tick to read what has come.

A request is given up after `limit_s` in which no byte moved, up or down, or once it has taken `limit_s` and a second
more for every `RATE_MIN` bytes: large bodies have their time, and whoever sends a byte now and then has not. An answer
that has no end of its own is given up for its silence only.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import anyio

from orchestrator.clock import Clock
from orchestrator.units import SECOND_US

TICK_S: Final = 1.0
"""How often the ticker looks, at the least. Without a request it does not tick at all."""

LATE_S: Final = 1.0
"""A tick that comes later than this tells of a gap: the process was stopped, or had something else to do."""

RATE_MIN: Final = 4 * 1024
"""Bytes a second. Slower than this in all is no line but somebody who holds us up."""


class IdleTimeout:
    """What one request is waited for. `moved` is to be raised by the bytes that moved, up or down."""

    __slots__ = (
        "_began_s",
        "_limit_s",
        "_paused_s",
        "_quiet_since_s",
        "_rate_min",
        "_seen",
        "_watch",
        "is_cut",
        "moved",
        "scope",
    )

    def __init__(self, watch: "IdleWatch", limit_s: float, now_s: float, rate_min: float) -> None:
        self._watch = watch
        self._limit_s = limit_s
        self._rate_min = rate_min
        self._began_s = self._quiet_since_s = now_s
        self._paused_s: float | None = None
        self._seen = self.moved = 0
        self.is_cut = False
        """Whether the request ended before all of it had left."""

        self.scope = anyio.CancelScope()

    @property
    def is_over(self) -> bool:
        """Whether the request was given up."""
        return self.scope.cancel_called

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Nothing is waited for meanwhile: it is we who do not read, or do not send."""
        self._paused_s = self._watch.awake_s()
        try:
            yield
        finally:
            now_s = self._watch.awake_s()
            self._began_s += now_s - self._paused_s
            self._quiet_since_s = now_s
            self._paused_s = None

    def left_s(self, now_s: float) -> float:
        """How long it lasts if nothing moves any more; `now_s` is the time that counts."""
        if self._paused_s is not None:
            return self._limit_s
        if self.moved != self._seen:
            self._seen, self._quiet_since_s = self.moved, now_s
        silent_s = self._quiet_since_s + self._limit_s - now_s
        if not self._rate_min:
            return silent_s
        in_all_s = self._limit_s + self.moved / self._rate_min
        return min(silent_s, self._began_s + in_all_s - now_s)


class IdleWatch:
    """Looks at everything that is waited for, in one event loop at a time.

    `on_sleep` is called when the machine has slept: the loop's clock stood still, and did not see the time that passed.
    """

    def __init__(
        self, clock: Clock, *, rate_min: float = RATE_MIN, on_sleep: Callable[[], None] = lambda: None
    ) -> None:
        self._clock = clock
        self._rate_min = rate_min
        self._on_sleep = on_sleep
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: dict[IdleTimeout, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._next_s = 0.0
        self._awake_s = 0.0
        self._ticked_s = 0.0
        self._clock_at = 0
        self._was_late = False

    def begin(self, limit_s: float, *, is_endless: bool = False) -> IdleTimeout:
        """Begins to wait; the caller works within the `scope` of what is returned, and ends it by `end`.

        Where it `is_endless`, silence alone ends it.
        """
        loop = asyncio.get_running_loop()
        if self._timer is None or loop is not self._loop:
            self._start(loop)
        idle_timeout = IdleTimeout(self, limit_s, self.awake_s(), 0.0 if is_endless else self._rate_min)
        self._waiting[idle_timeout] = None
        if limit_s < TICK_S:
            self._tick_within(limit_s)
        return idle_timeout

    def end(self, idle_timeout: IdleTimeout) -> None:
        """It is not waited for any more."""
        self._waiting.pop(idle_timeout, None)

    def awake_s(self) -> float:
        """The time that counts, in seconds since some beginning."""
        assert self._loop is not None
        return self._awake_s + min(self._loop.time() - self._ticked_s, TICK_S)

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        if loop is not self._loop:
            self._loop = loop
            self._waiting.clear()  # whoever waited in another loop is gone with it
            self._clock_at, self._ticked_s = self._clock.now(), loop.time()
        self._pass_time()
        self._was_late = False
        self._tick_after(TICK_S)

    def _tick_within(self, seconds: float) -> None:
        """Has the next tick come in time for a limit that is shorter than a tick."""
        assert self._loop is not None
        assert self._timer is not None
        if self._loop.time() + seconds < self._next_s:
            self._timer.cancel()
            self._tick_after(seconds)

    def _tick_after(self, seconds: float) -> None:
        assert self._loop is not None
        self._next_s = self._loop.time() + seconds
        self._timer = self._loop.call_at(self._next_s, self._tick)

    def _tick(self) -> None:
        assert self._loop is not None
        if not self._waiting:
            self._timer = None
            return
        slept = self._pass_time()
        is_late = slept or self._ticked_s > self._next_s + LATE_S
        if is_late and not self._was_late:
            self._was_late = True
            self._tick_after(TICK_S)
            return
        self._was_late = is_late
        self._tick_after(self._judge())

    def _pass_time(self) -> bool:
        """Counts the time since the last tick; returns whether the machine slept meanwhile."""
        assert self._loop is not None
        self._awake_s = self.awake_s()
        clock_at, loop_s = self._clock.now(), self._loop.time()
        unseen_s = (clock_at - self._clock_at) / SECOND_US - (loop_s - self._ticked_s)
        self._clock_at, self._ticked_s = clock_at, loop_s
        if unseen_s > LATE_S:
            self._on_sleep()
        return unseen_s > LATE_S

    def _judge(self) -> float:
        """Gives up what has been quiet for too long; returns the seconds until it has to look again."""
        next_s = TICK_S
        for idle_timeout in self._waiting:
            left_s = idle_timeout.left_s(self._awake_s)
            if left_s <= 0:
                idle_timeout.scope.cancel()
            elif left_s < next_s:
                next_s = left_s
        return max(next_s, _TICK_S_MIN)


_TICK_S_MIN: Final = 0.001
"""Timers are no finer; without it a limit that is nearly over would be looked at in a circle."""
