"""The shape of a part that acts by itself: `poll` does what is due and says how long to sleep; a bell wakes it."""

from collections.abc import Awaitable, Callable
from typing import Final

import anyio
import anyio.lowlevel

POLL_S_MAX: Final = 5.0
"""No part sleeps longer than this, so that a missed bell is a delay and not a standstill."""

SELDOM_S: Final = 60.0
"""The same for a look into the ledger that a bell makes needless: a program that waits for the service should cost
nothing."""


class Bell:
    """Rung by whoever has news; waited for by one part. A ring while nobody waits is not lost."""

    def __init__(self) -> None:
        self._rung = anyio.Event()

    def ring(self) -> None:
        """Ends the wait, present or next."""
        self._rung.set()

    async def wait(self, seconds: float) -> None:
        """Waits for a ring, `seconds` at most."""
        if not self._rung.is_set():
            with anyio.move_on_after(seconds):
                await self._rung.wait()
        else:
            await anyio.lowlevel.checkpoint()
        self._rung = anyio.Event()


async def keep_polling(
    poll: Callable[[], Awaitable[float]], bell: Bell, *, at_least_every_s: float = POLL_S_MAX
) -> None:
    """Polls until cancelled, sleeping between polls for as long as the last one said (seconds), or until the bell."""
    while True:
        await bell.wait(min(await poll(), at_least_every_s))
