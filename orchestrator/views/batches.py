"""The batches of a run at the service, as people and programs are shown them."""

from collections.abc import Iterable

import msgspec

from orchestrator.core.batches import stuck
from orchestrator.core.batches.batch_record import ENDED, BatchRecord, BatchStage
from orchestrator.core.batches.lateness import ends_at
from orchestrator.core.batches.outlook import BatchesOutlook
from orchestrator.core.batches.why import Why


class NoBatch(msgspec.Struct, frozen=True):
    """The service makes no batch, in its words, since then (microseconds UTC)."""

    reason: str
    since: int


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

    begun_at: int | None = None
    """When it had not begun yet, as far as was asked; None before it has."""

    ends_at: int | None = None
    """When it ends at the pace that it has shown; None where it has shown none, or nobody works on its run."""

    quiet_since: int = 0
    """Since when nothing has come of it."""

    is_overtaken: bool = False
    """Whether one of the run that was finalized later has ended."""

    is_stuck: bool = False
    """Whether it will not go on by itself, as far as anybody can tell."""

    @property
    def waits(self) -> bool:
        """Whether the service has not begun with it, as far as it has said."""
        return self.stage in stuck.AT_SERVICE and self.begun_at is None

    @property
    def is_at_service(self) -> bool:
        """Whether the service is to do something about it."""
        return self.stage in stuck.AT_SERVICE

    @property
    def word(self) -> str:
        """What it is doing, in a word."""
        if self.is_stuck:
            return "stuck"
        return "waiting" if self.waits and self.stage is BatchStage.RUNNING else self.stage.value

    @property
    def since(self) -> int:
        """Since when it is in that state."""
        return self.begun_at or self.finalized_at or self.made_at


def batch_status(
    batch: BatchRecord, rows: int, *, now: int, overtaken_before: int, asked_at: int | None = None
) -> BatchStatus:
    """How `batch` stands `now`, into which so many rows were put, and which was asked for last at that time; what was
    finalized before `overtaken_before` is overtaken.
    """
    is_overtaken = (batch.finalized_at or overtaken_before) < overtaken_before
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
        begun_at=batch.begun_at,
        ends_at=None if asked_at is None else ends_at(batch.pace, asked_at),
        quiet_since=batch.quiet_since,
        is_overtaken=is_overtaken,
        is_stuck=stuck.is_stuck(batch.stage, now - batch.quiet_since, is_overtaken=is_overtaken),
    )


def outlook_of(batches: Iterable[BatchStatus]) -> BatchesOutlook | None:
    """How these stand together of which something is to be done still; None where there are none."""
    left = [each for each in batches if each.stage not in ENDED]
    if not left:
        return None
    waiting = [each for each in left if each.waits]
    running = [each for each in left if each.is_at_service and not each.waits]
    ends = [each.ends_at for each in running]
    known = [at for at in ends if at is not None]
    return BatchesOutlook(
        filled=len(left) - len(waiting) - len(running),
        waiting=len(waiting),
        waiting_rows=sum(each.rows for each in waiting),
        waits_since=min((each.since for each in waiting), default=None),
        running=len(running),
        running_rows=sum(each.rows for each in running),
        ended_rows=sum(each.completed + each.failed for each in running),
        ends_at=max(known) if len(known) == len(left) else None,
    )
