"""The shape of a part that acts by itself: `poll` does what is due and says how long to sleep; news wakes it."""

import logging
from collections.abc import Awaitable, Callable
from typing import Final

import anyio
import anyio.lowlevel

from orchestrator.errors import StorageError

log = logging.getLogger(__name__)

POLL_S_MAX: Final = 5.0
"""No part sleeps longer than this, so that news that is missed is a delay and not a standstill."""

SELDOM_S: Final = 60.0
"""The same for a look into the ledger that `wake` makes needless: a program that waits for the service should cost
nothing."""


class Wakeup:
    """`wake` is called by whoever has news, `wait` by one part. News while nobody waits is not lost."""

    def __init__(self) -> None:
        self._news = anyio.Event()

    def wake(self) -> None:
        """Ends the wait, present or next."""
        self._news.set()

    async def wait(self, seconds: float) -> None:
        """Waits for news, `seconds` at most."""
        if not self._news.is_set():
            with anyio.move_on_after(seconds):
                await self._news.wait()
        else:
            await anyio.lowlevel.checkpoint()
        self._news = anyio.Event()


async def keep_polling(
    poll: Callable[[], Awaitable[float]], wakeup: Wakeup, *, at_least_every_s: float = POLL_S_MAX
) -> None:
    """Polls until cancelled, sleeping between polls for the seconds that the last one said, or until there is news."""
    while True:
        await wakeup.wait(min(await poll(), at_least_every_s))


async def keep_picturing(write: Callable[[], Awaitable[None]], *, every_s: float, what: str) -> None:
    """Writes a picture of the run into the ledger every `every_s` seconds until cancelled.

    That it cannot be written is no reason to end the run (whatever matters will); the log says so of `what`.
    """
    while True:
        try:
            await write()
        except StorageError as error:
            log.info("%s could not be written down: %s", what, error)
        await anyio.sleep(every_s)
