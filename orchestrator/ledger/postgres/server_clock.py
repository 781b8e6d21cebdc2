"""The time of a ledger on a server: that of the database, whatever the clocks of the machines that use it say.

When something is due, when it happened and when a schedule fires goes by it: two machines whose clocks differ by an
hour would else fire twice, or wait for an hour. Between two looks at the server's clock the time goes on by what has
elapsed here, so that neither a slow answer nor a wall clock that is set moves it.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final, NamedTuple, NoReturn

import anyio
from sqlalchemy import text

from orchestrator.clock import JUMP_US_MIN, Clock, SystemClock
from orchestrator.errors import StorageError
from orchestrator.ledger.database import LedgerDatabase
from orchestrator.units import SECOND_US

log = logging.getLogger(__name__)

LOOKS_FIRST: Final = 2
"""The first may have to wait for the connection, too."""

LOOK_S: Final = 10.0
"""How often the server is asked. In between clocks of machines part by less than a millisecond."""

LOOKS_KEPT: Final = 8

ADJUST_US_MAX: Final = 5_000
"""By how much the time is adjusted at each look, unless the server's was set. Requests are paced by it, too: they leave
no faster than by a clock that is fast by a two-thousandth.
"""


NOW_US: Final = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
"""SQL for the server's time, in microseconds UTC."""

_TIME: Final = text(f"SELECT {NOW_US}")


class _Look(NamedTuple):
    """One look at the server's clock."""

    trip_us: int
    """How long it took until the answer was there. The shorter, the less is left to guess."""

    ahead_us: int
    """By how much the server's time is ahead of what has elapsed here, half of the trip off at the most."""

    def contradicts(self, other: "_Look") -> bool:
        """Whether both cannot be true of one clock that nobody has set."""
        return abs(self.ahead_us - other.ahead_us) > (self.trip_us + other.trip_us) // 2 + SECOND_US // 100


class ServerClock:
    """The time by the clock of a server, which `ask` asks, carried on by what has `elapsed` here since."""

    def __init__(self, ask: Callable[[], Awaitable[int]], elapsed: Callable[[], int]) -> None:
        self._ask = ask
        self._elapsed = elapsed
        self._looks: deque[_Look] = deque(maxlen=LOOKS_KEPT)
        self._ahead_us = 0
        self._not_followed_us = 0
        self._latest = 0

    def now(self) -> int:
        """Microseconds since the epoch, UTC. Never goes back."""
        now = self._elapsed() + self._ahead_us
        if now > self._latest:  # noqa: PLR1730  as in `orchestrator.clock`
            self._latest = now
        return self._latest

    async def begin(self) -> None:
        """Looks for the first time, before anybody asks for the time. Raises `StorageError`."""
        for _ in range(LOOKS_FIRST):
            self._looks.append(await self._looked())
        self._ahead_us = self._best_us

    async def serve(self) -> NoReturn:
        """Looks again and again, until it is cancelled. While the server is away, the time goes on as it did."""
        while True:
            await anyio.sleep(LOOK_S)
            try:
                await self.look()
            except StorageError as error:
                log.debug("the server was not asked for the time: %s", error)

    async def look(self) -> None:
        """Looks once more. Raises `StorageError`."""
        found = await self._looked()
        if any(map(found.contradicts, self._looks)):
            self._looks.clear()
        self._looks.append(found)
        change_us = self._best_us + self._not_followed_us - self._ahead_us
        if abs(change_us) > JUMP_US_MIN:
            log.warning("the clock of the ledger's server was set by %+.1f s", change_us / SECOND_US)
        if change_us < -JUMP_US_MIN:
            # Not followed, as by `orchestrator.clock`: a clock that stood still meanwhile would let results expire.
            self._not_followed_us -= change_us
        elif change_us > JUMP_US_MIN:
            self._ahead_us += change_us
        else:
            self._ahead_us += max(-ADJUST_US_MAX, min(change_us, ADJUST_US_MAX))

    async def _looked(self) -> _Look:
        asked_at = self._elapsed()
        at = await self._ask()
        trip_us = self._elapsed() - asked_at
        return _Look(trip_us, at - asked_at - trip_us // 2)

    @property
    def _best_us(self) -> int:
        """By the quickest answer, the latest one of several."""
        return min(reversed(self._looks), key=lambda each: each.trip_us).ahead_us


@asynccontextmanager
async def server_time(database: LedgerDatabase, clock: Clock) -> AsyncIterator[Clock]:
    """The time of the server on which `database` is, where `clock` is this machine's; any other is kept to.

    Raises `StorageError`.
    """
    if not isinstance(clock, SystemClock):
        yield clock
        return

    async def ask() -> int:
        return await database.asked(_TIME, None, lambda found: int(found.scalar_one()))

    of_server = ServerClock(ask, clock.elapsed)
    await of_server.begin()
    # A task without a group: whoever looks at a ledger may leave it in another task than that which opened it.
    looking = asyncio.get_running_loop().create_task(of_server.serve())
    try:
        yield of_server
    finally:
        looking.cancel()
        with suppress(asyncio.CancelledError):
            await looking
