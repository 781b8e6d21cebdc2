"""The batches of a run at the service, as people and programs are shown them."""

import msgspec

from orchestrator.core.batches import stuck
from orchestrator.core.batches.batch_record import BatchRecord, BatchStage
from orchestrator.core.batches.why import Why


class BatchStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How one stands. Times are microseconds UTC."""

    batch: str | None
    """What the service calls it; None where it was not made, or nobody knows."""

    stage: BatchStage
    rows: int
    """How many were put in."""

    completed: int
    failed: int
    """Of how many the execution has succeeded, and failed, as the service said last."""

    made_at: int
    finalized_at: int | None = None
    ended_at: int | None = None
    why: Why | None = None
    """Why it is, or was, dropped or cancelled."""

    quiet_since: int = 0
    """Since when nothing has come of it."""

    is_overtaken: bool = False
    """Whether one of the run that was finalized later has ended."""

    def is_stuck(self, now: int) -> bool:
        """Whether it will not go on by itself, as far as anybody can tell."""
        return stuck.is_stuck(self.stage, now - self.quiet_since, is_overtaken=self.is_overtaken)

    @property
    def waits(self) -> bool:
        """Whether the service has not begun with it, as far as it has said."""
        return self.stage is BatchStage.RUNNING and not self.completed and not self.failed


def batch_status(batch: BatchRecord, rows: int, *, overtaken_before: int) -> BatchStatus:
    """How `batch` stands, into which so many rows were put; what was finalized before that time is overtaken."""
    return BatchStatus(
        batch=batch.remote_id,
        stage=batch.stage,
        rows=rows,
        completed=batch.completed,
        failed=batch.failed,
        made_at=batch.made_at,
        finalized_at=batch.finalized_at,
        ended_at=batch.ended_at,
        why=batch.why,
        quiet_since=batch.quiet_since,
        is_overtaken=(batch.finalized_at or overtaken_before) < overtaken_before,
    )
