"""The shape of a part that acts by itself: `poll` does what is due and says how long to sleep; news wakes it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

import anyio
import anyio.lowlevel

from orchestrator.errors import StorageError
from orchestrator.ticks import until_tick_s
from orchestrator.units import SECOND_US

log = logging.getLogger(__name__)

POLL_S_MAX: Final = 5.0
"""No part sleeps longer than this, so that news that is missed is a delay and not a standstill."""

SELDOM_S: Final = 60.0
"""The same for a look into the ledger that `wake` makes needless: a program that waits for the service should cost
nothing."""


class Wakeup:
    """`wake` is called by whoever has news, `wait` by one part. News while nobody waits is not lost.

    A timer of its own ends a wait, at a tick (`orchestrator.ticks`): a scope of AnyIO's whose deadline lies between two
    ticks of uvloop's timers asks for the time in a circle until it is over.
    """

    def __init__(self) -> None:
        self._has_news = False
        self._waiting: asyncio.Future[None] | None = None

    def wake(self) -> None:
        """Ends the wait, present or next."""
        self._has_news = True
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    @property
    def has_news(self) -> bool:
        """Whether somebody has called since the last wait began to end."""
        return self._has_news

    async def wait(self, seconds: float) -> None:
        """Waits for news, `seconds` and the rest of a tick at most: 0 ends at the next tick, so that nobody turns in a
        circle. Who wants to go on at once calls `wake`.
        """
        if self._has_news:
            await anyio.lowlevel.checkpoint()
        else:
            loop = asyncio.get_running_loop()
            self._waiting = loop.create_future()
            timer = loop.call_later(until_tick_s(round(seconds * SECOND_US), now_s=loop.time()), self.wake)
            try:
                await self._waiting
            finally:
                timer.cancel()
                self._waiting = None
        self._has_news = False


async def keep_polling(
    poll: Callable[[], Awaitable[float]], wakeup: Wakeup, *, at_least_every_s: float = POLL_S_MAX
) -> None:
    """Polls until cancelled, sleeping between polls for the seconds that the last one said, or until there is news."""
    while True:
        await wakeup.wait(min(await poll(), at_least_every_s))


async def keep_writing(write: Callable[[], Awaitable[None]], *, every_s: float, what: str) -> None:
    """Writes a picture of the run into the ledger every `every_s` seconds until cancelled.

    That it cannot be written is no reason to end the run (whatever matters will); the log says so of `what`.
    """
    while True:
        try:
            await write()
        except StorageError as error:
            log.info("%s could not be written down: %s", what, error)
        await anyio.sleep(every_s)
