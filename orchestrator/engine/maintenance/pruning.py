"""Keeps the ledger from growing for ever (retention): old events, submissions, samples, and debts that time has
settled.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from orchestrator.clock import Clock
from orchestrator.ledger import Ledger

PAGE: Final = 1_000
"""Rows that are looked at, and deleted, at once: some milliseconds."""

CHECKPOINTS_JOBS: Final = 10
"""Jobs of which the checkpoints are deleted at once, up to 20 each of 64 KiB."""

PAGES_MAX: Final = 20
"""How many pages one call goes through before it lets others have their turn."""

SOON_S: Final = 1.0

FULL_PASS_EVERY_US: Final = 86_400_000_000
"""How often everything old is gone through again: jobs may have ended since their rows were passed over."""

LATE_US: Final = 3 * 86_400_000_000
"""How long after its TTL and the retention a submission is kept at least: nothing can come of it any more."""


@dataclass(kw_only=True, eq=False)
class Pruner:
    """Goes through events and submissions from the oldest on as far as they are old, and through all again each day."""

    ledger: Ledger
    clock: Clock
    page: int = PAGE
    pages_max: int = PAGES_MAX
    _events_after: int = field(init=False, default=0)
    _submissions_after: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self._begun_at = self.clock.now()

    async def run_once(self) -> float | None:
        """Does a part of what is to be done; returns the seconds until it wants to go on, None if it is done."""
        now = self.clock.now()
        if now >= self._begun_at + FULL_PASS_EVERY_US:
            self._begun_at, self._events_after, self._submissions_after = now, 0, 0
        settings_of = {run.id: run.settings for run in await self.ledger.runs.all()}
        before = {run: now - settings.events_kept_us for run, settings in settings_of.items()}
        kept_us = max((settings.retention_us for settings in settings_of.values()), default=0)
        if before and not (
            await self._forget_events(before) and await self._forget_submissions(before, now - LATE_US - kept_us)
        ):
            return SOON_S
        if not await self._forget_checkpoints() or not await self._forget_samples(now):
            return SOON_S
        await self.ledger.jobs.cancels.write_off(now=now)
        return None

    async def _forget_events(self, before: Mapping[int, int]) -> bool:
        """Whether that was all."""
        for _ in range(self.pages_max):
            doomed = await self.ledger.reports.pruning.events_doomed(before, after=self._events_after, most=self.page)
            if doomed.upto is None:
                return True
            if ids := doomed.ids:
                await self.ledger.reports.pruning.forget_events(before, ids)
            self._events_after = doomed.upto
        return False

    async def _forget_checkpoints(self) -> bool:
        """Whether that was all."""
        for _ in range(self.pages_max):
            doomed = await self.ledger.reports.pruning.checkpoints_doomed(most=CHECKPOINTS_JOBS)
            if not doomed:
                return True
            await self.ledger.reports.pruning.forget_checkpoints(doomed)
        return False

    async def _forget_samples(self, now: int) -> bool:
        """Whether that was all."""
        for _ in range(self.pages_max):
            if not await self.ledger.samples.forget_expired(now, most=self.page):
                return True
        return False

    async def _forget_submissions(self, before: Mapping[int, int], ttl_before: int) -> bool:
        """Whether that was all. After the events: what those tell of is kept."""
        for _ in range(self.pages_max):
            doomed = await self.ledger.reports.pruning.submissions_doomed(
                before, ttl_before=ttl_before, after=self._submissions_after, most=self.page
            )
            if doomed.upto is None:
                return True
            if ids := doomed.ids:
                await self.ledger.reports.pruning.forget_submissions(ids)
            self._submissions_after = doomed.upto
        return False
