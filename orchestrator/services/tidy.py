"""Keeps the ledger from growing for ever: old events, and debts that time has settled."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from orchestrator.clock import Clock
from orchestrator.ledger import Ledger
from orchestrator.ledger.cancels import cancels_write_off
from orchestrator.ledger.pruning import events_doomed, events_prune
from orchestrator.settings import RunSettings

PAGE: Final = 1_000
"""Events that are looked at, and deleted, at once: some milliseconds."""

PAGES_MAX: Final = 20
"""How many pages one call goes through before it lets others have their turn."""

SOON_S: Final = 1.0


class Tidy:
    """Goes through the events once in a process's life from the oldest on, and then through what has grown old since.

    A job that was not finished when its old events were passed over keeps them until another process comes by.
    """

    def __init__(
        self,
        *,
        ledger: Ledger,
        clock: Clock,
        settings_of: Mapping[int, RunSettings],
        page: int = PAGE,
        pages_max: int = PAGES_MAX,
    ) -> None:
        self._page = page
        self._pages_max = pages_max
        self._ledger = ledger
        self._clock = clock
        self._settings_of = settings_of
        self._after = 0

    async def tidy(self) -> float | None:
        """Does a part of what is to be done; returns the seconds until it wants to go on, None if it is done."""
        now = self._clock.now()
        before = {run: now - settings.events_kept_us for run, settings in self._settings_of.items()}
        for _ in range(self._pages_max if before else 0):
            doomed = await self._ledger.read(partial(events_doomed, before=before, after=self._after, most=self._page))
            if doomed.upto is None:
                break
            if ids := doomed.ids:
                await self._ledger.write(
                    lambda transaction, ids=ids: events_prune(transaction.connection, before, ids)  # type: ignore[misc]
                )
            self._after = doomed.upto
        else:
            if before:
                return SOON_S
        await self._ledger.write(lambda transaction: cancels_write_off(transaction.connection, now=now))
        return None
