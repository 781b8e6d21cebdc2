"""How long a process waits for a ledger that cannot be used just now: its server is away, its disk is full.

Who meets that tries again, first at once and then with growing pauses, for as long as the process has patience. All who
wait share one, so that people hear once that it has begun, and once that it is over.
"""

import math
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, TypeVar

import anyio

from orchestrator.clock import Clock
from orchestrator.errors import LedgerUnavailableError
from orchestrator.settings.words_and_defaults import IN_FLIGHT_S_MAX
from orchestrator.units import SECOND_US

PAUSE_S: Final = 0.25
PAUSE_S_MAX: Final = 5.0

AWAY_S_MAX: Final = 1.5
"""How long a process that stops waits for a ledger that has been away before: nothing that is in flight needs more."""

Done = TypeVar("Done")


class Trouble(NamedTuple):
    """The ledger cannot be used."""

    since: int
    """Microseconds UTC."""

    error: LedgerUnavailableError


class Patience:
    """Of one process with one ledger, which it waits for `seconds` at a time."""

    def __init__(self, clock: Clock, seconds: float = 0.0, hurry: Callable[[], object] = lambda: None) -> None:
        self.seconds = seconds
        self._hurry = hurry
        """Has whatever tries to reach it give up soon."""

        self.trouble: Trouble | None = None
        """What is waited for."""

        self.tries = 0
        """How often it was tried again; this grows for as long as anybody waits."""

        self._clock = clock
        self._waiting = 0
        self._began_s = 0.0
        self._is_over = False
        self._was_reached = False
        """Whether anybody could use it since it was first waited for, and nobody has lost patience."""

        self._until_s = math.inf
        self._look = anyio.Event()
        """Set where a pause is to end: who waits looks at once."""

        self._subscribers: list[Callable[[Trouble | None], None]] = []

    def subscribe(self, subscriber: Callable[[Trouble | None], None]) -> None:
        """Calls `subscriber` with what begins to be waited for, and with None once that is over. It must not raise."""
        self._subscribers.append(subscriber)

    def check(self) -> None:
        """Raises `LedgerUnavailableError` where the ledger is waited for: of whoever can be told so and asks again."""
        if self.trouble is not None:
            raise self.trouble.error.copy()

    async def outlast(self, act: Callable[[], Awaitable[Done]]) -> Done:
        """What `act` returns, which is tried `again` where the ledger cannot be used."""
        try:
            return await act()
        except LedgerUnavailableError as error:
            return await self.again(error, act)

    async def again(self, error: LedgerUnavailableError, act: Callable[[], Awaitable[Done]]) -> Done:
        """What `act` returns, which was tried and raised `error`, and is tried until the ledger can be used.

        Raises what the last try raised once patience is over, and whatever else one raises.
        """
        if not self._waiting:
            self._is_over, self._began_s = False, anyio.current_time()
        self._waiting += 1
        pause_s = 0.0
        try:
            while self._left_s > 0:
                with anyio.move_on_after(min(pause_s, self._left_s)):
                    await self._look.wait()
                pause_s = min(max(PAUSE_S, 2 * pause_s), PAUSE_S_MAX)
                self.tries += 1
                try:
                    done = await act()
                except LedgerUnavailableError as latest:
                    error = latest
                    self._begin(error)
                else:
                    self._is_over = self._was_reached = True
                    self._end_pauses()
                    return done
            self._was_reached = False
            raise error
        finally:
            self._waiting -= 1
            self._end()

    def hurry(self, *, is_away: bool = False) -> None:
        """The process stops: from now on it waits no longer than for requests in flight, and hardly at all for a ledger
        that is waited for already, or that others of this process know to be away.
        """
        wait_s = IN_FLIGHT_S_MAX
        if self._waiting or is_away:
            wait_s = AWAY_S_MAX
            self._hurry()
        self._until_s = min(self._until_s, anyio.current_time() + wait_s)
        self._end_pauses()

    @property
    def _left_s(self) -> float:
        return min(self._began_s + self.seconds, self._until_s) - anyio.current_time()

    def _begin(self, error: LedgerUnavailableError) -> None:
        if self._is_over:
            self._is_over, self._began_s = False, anyio.current_time()
        if self.trouble is None:
            self._was_reached = False
            lasts_us = round((anyio.current_time() - self._began_s) * SECOND_US)
            self.trouble = Trouble(self._clock.now() - lasts_us, error)
            self._tell()

    def _end(self) -> None:
        """Nobody waits any more: the ledger can be used, or all have lost their patience."""
        if not self._waiting and self.trouble is not None:
            self.trouble = None
            if self._was_reached:
                self._tell()

    def _end_pauses(self) -> None:
        self._look.set()
        self._look = anyio.Event()

    def _tell(self) -> None:
        for subscriber in self._subscribers:
            subscriber(self.trouble)
