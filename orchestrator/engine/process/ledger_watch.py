"""Notices what other processes commit to the ledger, and what becomes of its files.

A command beside a run (set a limit, pause, cancel) writes a row and waits for its acknowledgement. Here the running
process asks a few times a second whether anybody else has signalled to look, which costs next to nothing, and wakes
whoever reads such rows. What changed is theirs to find out: to be woken says "look again", and may be once too often.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import anyio
from anyio.abc import TaskStatus

from orchestrator.core.samples.buckets import LAG_BOUNDS_S, GrowingHistogram
from orchestrator.engine.runtime.poll_intervals import ASK_EVERY_S
from orchestrator.engine.runtime.subscribers import Subscribers
from orchestrator.errors import StorageError
from orchestrator.ledger import LedgerPlace
from orchestrator.ledger.database import CommitsOfOthers

log = logging.getLogger(__name__)


class LedgerWatch:
    """Wakes its subscribers once when it starts, and whenever another process has signalled to look; on a server, an
    engine of this one, too.

    `commits` is the ledger's `signals_of_others`; it may raise `StorageError`. `place` tells whether the ledger is
    still ours to work on.
    """

    def __init__(
        self,
        commits: Callable[[], Awaitable[CommitsOfOthers]],
        *,
        place: LedgerPlace | None = None,
        every_s: float = ASK_EVERY_S,
    ) -> None:
        self._commits = commits
        self._place = place
        self._every_s = every_s
        self.lost = anyio.Event()
        """Set once the ledger is lost; nothing is watched from then on."""

        self.lag = GrowingHistogram(LAG_BOUNDS_S)
        """By how much it was woken later than it had asked to be: so late is the event loop."""

        self.subscribers = Subscribers()
        """Who is woken when there may be news."""

        self.inboxes = Subscribers()
        """Who is woken when there may be notices."""

        self.followers = Subscribers()
        """Who is woken by whatever other processes commit: steps are signalled to nobody."""

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Watches until cancelled. A ledger that cannot be read now is asked again."""
        known: CommitsOfOthers | None = None
        is_told = False
        task_status.started()
        loop = asyncio.get_running_loop()
        while self._place is None or self._place.lost() is None:
            try:
                commits = await self._commits()
            except StorageError as error:
                if not is_told:
                    log.warning("whether another process has changed the ledger is unknown: %s", error)
                is_told = True
            else:
                is_told = False
                # the first time, too: what was committed before we knew the numbers
                before, known = known, commits
                if before is None or commits.all != before.all:
                    self.followers.wake()
                if before is None or commits.notices != before.notices:
                    self.inboxes.wake()
                if before is None or commits.signals != before.signals:
                    self.subscribers.wake()
            due_s = loop.time() + self._every_s
            await anyio.sleep(self._every_s)
            self.lag.add(loop.time() - due_s)
        self.lost.set()
