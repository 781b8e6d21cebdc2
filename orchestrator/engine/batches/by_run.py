"""Which runs whose jobs leave in batches send by `/run` for now: what would be late, and what is left of repeats."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from orchestrator.core.batches.lateness import is_in_time, leaves_at
from orchestrator.engine.batches.open_batch import OpenBatch
from orchestrator.engine.endpoint.endpoint import Endpoint
from orchestrator.engine.sending.run_sender import RunSender
from orchestrator.ledger import Ledger
from orchestrator.units import MINUTE_US

HEALTH_EVERY_US: Final = MINUTE_US
"""So often the service is asked how many workers the endpoint has, while a run is to be finished by some time."""

ASKED_FIRST_US: Final = MINUTE_US
"""So long before batches are given up they are asked for once more."""

LATE: Final = (
    "what is left would not be finished in time by batches: it leaves by /run, at the full price; what of it has begun"
    " in a batch is collected there"
)


@dataclass(kw_only=True, eq=False)
class ByRun:
    """Of one endpoint."""

    endpoint: Endpoint
    ledger: Ledger
    workers: int = 1
    """How many workers its queue has, as far as is known."""

    late: dict[int, int] = field(default_factory=dict)
    """The runs of which what is left goes by `/run`, with the time by which they were to be finished."""

    _asked_at: int = 0
    _doubted_at: dict[int, int] = field(default_factory=dict)
    """Since when it seems that a run has to leave by `/run`; how its batches stand is asked first."""

    async def look(self, run: RunSender, open_batches: Iterable[OpenBatch]) -> None:
        """Decides of `run`."""
        settings = self.endpoint.settings_of[run.run]
        own = [found for found in open_batches if found.batch.run == run.run]
        if settings.finish_by and self.late.get(run.run) != settings.finish_by:
            await self._count_workers()
            self._judge(run, own, settings.finish_by)
        elif not settings.finish_by:
            self.late.pop(run.run, None)
        goes = run.run in self.late or await self._is_tail(run, own)
        if goes != run.goes_by_run:
            run.goes_by_run = goes
            self.endpoint.changes.wake()

    async def _count_workers(self) -> None:
        now = self.endpoint.clock.now()
        if now < self._asked_at + HEALTH_EVERY_US:
            return
        self._asked_at = now
        health = await self.endpoint.api.ask_health()
        if health is not None:
            self.workers = max(1, (health.workers.idle or 0) + (health.workers.running or 0))

    def _judge(self, run: RunSender, own: list[OpenBatch], finish_by: int) -> None:
        now = self.endpoint.clock.now()
        late = [found for found in own if not self.is_in_time(found, finish_by)]
        left = run.brakes.left + sum(found.counts.unsettled for found in late)
        execution_us = self.endpoint.estimates.durations.execution.p50_us
        if not left or now < leaves_at(finish_by, left, execution_us=execution_us, workers=self.workers):
            self._doubted_at.pop(run.run, None)
            return
        if now < self._doubted_at.setdefault(run.run, now) + ASKED_FIRST_US:
            for found in late:
                found.ask_soon(now)
            return
        self.late[run.run] = finish_by
        self.endpoint.warn(LATE)

    def is_in_time(self, found: OpenBatch, finish_by: int) -> bool:
        """Whether a batch will end in time, at the pace that it has shown."""
        said = found.state
        if said is None:
            return False
        return said.is_over or is_in_time(found.batch.pace, finish_by, self.endpoint.clock.now())

    async def _is_tail(self, run: RunSender, own: list[OpenBatch]) -> bool:
        """Whether a few repeats are all that is left to be sent."""
        terms = self.endpoint.settings_of[run.run].batch_terms
        if not 0 < run.brakes.left <= terms.repeats_max or any(found.takes_rows for found in own):
            return False
        return not await self.ledger.runs.batches.has_fresh(run.run, endpoint=self.endpoint.id)
