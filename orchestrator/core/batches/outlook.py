"""How the batches of a run stand together that have not ended, and when they do, where that is known.

What has ended of a run says nothing of it: results are read a batch at a time, and the service promises no time at
which it begins with the next one.
"""

import msgspec

from orchestrator.core.text.durations import rough_duration
from orchestrator.core.text.wording import counted


class BatchesOutlook(msgspec.Struct, frozen=True, kw_only=True):
    """Times are microseconds UTC."""

    filled: int = 0
    """Batches that are being made or filled, or are to be cancelled before they are finalized."""

    waiting: int = 0
    """Those that are finalized, and the service has not begun with."""

    waiting_rows: int = 0
    waits_since: int | None = None
    """Since when the first of them does."""

    running: int = 0
    running_rows: int = 0
    ended_rows: int = 0
    """How many of those have ended."""

    ends_at: int | None = None
    """When the last one ends, at the pace of each; None where one of them has shown none."""

    def eta_at(self, queued: int) -> int | None:
        """When a run with so many more rows is over; None where nothing tells."""
        return None if queued else self.ends_at

    def sentence(self, now: int) -> str:
        """It, in a few words."""
        parts = list[str]()
        if self.waiting:
            batches, rows = counted(self.waiting, "batch", "batches"), counted(self.waiting_rows, "row")
            wait = "waits" if self.waiting == 1 else "wait"
            first = "" if self.waiting == 1 else ", the first"
            since = rough_duration(max(0, now - (self.waits_since or now)))
            parts.append(f"{batches} with {rows} {wait} at the service{first} for {since}; it promises no time")
        if self.running:
            runs = "runs" if self.running == 1 else "run"
            ended = f"{self.ended_rows:,} of {counted(self.running_rows, 'row')} have ended"
            parts.append(f"{counted(self.running, 'batch', 'batches')} {runs} there: {ended}")
        if self.filled:
            parts.append(
                f"{counted(self.filled, 'batch', 'batches')} {'is' if self.filled == 1 else 'are'} being filled"
            )
        return "; ".join(parts)
