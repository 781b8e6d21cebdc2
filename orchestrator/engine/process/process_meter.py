"""What this process has used, and how it stood, for its sample."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import anyio

from orchestrator.core.samples.buckets import GrowingHistogram
from orchestrator.engine.runtime.process_usage import ProcessUsage
from orchestrator.ledger import Ledger
from orchestrator.ledger.holder_text import process_name
from orchestrator.ledger.samples.samples import ProcessTotals


@dataclass(kw_only=True, eq=False)
class ProcessMeter:
    """`lag` is how late its loop was, and `webhooks` how many came in. What grows goes on where the process before it
    in its slot stood.
    """

    ledger: Ledger
    usage: Callable[[], ProcessUsage]
    lag: GrowingHistogram
    webhooks: Callable[[], Mapping[str, int]]
    _before: ProcessTotals | None = field(init=False, default=None)
    _why_before: str | None = field(init=False, default=None)
    _has_begun: bool = field(init=False, default=False)
    _turn: anyio.Lock = field(init=False, default_factory=anyio.Lock)

    def __post_init__(self) -> None:
        self._began_at = self.ledger.now()

    async def begin(self, latest: Mapping[int, ProcessTotals]) -> None:
        """Goes on where the process before it stood last, of those that stood so `latest`, by their slots."""
        async with self._turn:
            if not self._has_begun:
                slot = self.ledger.samples.slot
                self._before = latest.get(slot)
                if self._before is not None:
                    beats = [beat for beat in await self.ledger.runs.heartbeats.all() if beat.slot == slot]
                    self._why_before = next((beat.report.stopped or "" for beat in beats), "")
                self._has_begun = True

    def totals(self, position: int) -> ProcessTotals:
        """How it stands now, where the samples of the same moment have all events until `position`."""
        before, used, webhooks = self._before or ProcessTotals(), self.usage(), self.webhooks()
        return ProcessTotals(
            process=process_name(),
            began_at=self._began_at,
            resident_bytes=used.resident_bytes,
            before=self._why_before,
            position=position,
            begins=before.begins + 1,
            cpu_s=round(before.cpu_s + used.cpu_s, 3),
            lag=before.lag.plus(self.lag.values),
            commits=before.commits.plus(self.ledger.writer.commits.values),
            webhooks={
                name: before.webhooks.get(name, 0) + webhooks.get(name, 0) for name in (*before.webhooks, *webhooks)
            },
        )
