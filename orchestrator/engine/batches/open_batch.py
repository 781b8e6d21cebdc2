"""A batch about which something is to be done, and what this process knows of it besides the ledger."""

import msgspec

from orchestrator.core.batches.batch_record import BatchRecord, BatchStage
from orchestrator.core.batches.batch_steps import ASK_US_MIN, SETTLE_US, BatchFacts
from orchestrator.core.batches.why import Why
from orchestrator.core.jobs.retry import backoff_or_asked_us
from orchestrator.core.ownership.lease import SETTLED_US_MIN
from orchestrator.core.service.batches import ServiceBatch
from orchestrator.ledger.runs.batches import RowCounts


class OpenBatch(msgspec.Struct, kw_only=True, eq=False):
    """Times are microseconds UTC."""

    batch: BatchRecord
    counts: RowCounts = RowCounts(0, 0, 0)
    is_counted: bool = False
    """Whether these are of now: rows have taken no step since."""

    is_busy: bool = False
    """Whether something is being done about it."""

    rows_next: int = 1
    """How many rows the next append has: the first shows whether its answer names them."""

    added_at: int = 0
    """When rows were added last."""

    none_before: int = 0
    """No row that can be added is due before."""

    settle_at: int = 0
    late_until: int = 0
    """Until when rows may arrive that an earlier process was adding."""

    state: ServiceBatch | None = None
    """How it stands, as the service said last."""

    asked_at: int = 0
    quiet: int = 0
    is_cancelled: bool = False
    swept: int = 0
    swept_at: int = 0
    sweeps: int = 0
    gone_at: int | None = None
    """When the service did not know it for the first time."""

    troubles: int = 0
    not_before: int = 0
    """Nothing is done about it before: what was tried last came to nothing."""

    @property
    def remote_id(self) -> str:
        """What the service calls it, which is known once it is a draft."""
        assert self.batch.remote_id is not None
        return self.batch.remote_id

    @property
    def takes_rows(self) -> bool:
        """Whether it is a draft that may get more rows."""
        return self.batch.stage is BatchStage.DRAFT

    def facts(self, *, more_at: int | None, is_on_hold: bool, unwanted: Why | None) -> BatchFacts:
        """For what decides what is next."""
        return BatchFacts(
            rows=self.counts.named,
            pending=self.counts.pending,
            settle_at=self.settle_at,
            unsettled=self.counts.unsettled,
            more_at=more_at,
            is_on_hold=is_on_hold,
            unwanted=unwanted,
            state=self.state,
            asked_at=self.asked_at,
            quiet=self.quiet,
            is_cancelled=self.is_cancelled,
            swept=self.swept,
            swept_at=self.swept_at,
            sweeps=self.sweeps,
        )

    def hears(self, said: ServiceBatch, now: int) -> bool:
        """The service says how it stands; returns whether that is news."""
        is_news = self.state != said
        self.quiet = 0 if is_news else self.quiet + 1
        self.state, self.asked_at, self.gone_at, self.troubles = said, now, None, 0
        return is_news

    def doubt(self, now: int) -> None:
        """Nobody waits any more for the answer to an append."""
        self.settle_at = now + SETTLE_US

    def doubt_left(self, now: int, *, is_successor: bool) -> None:
        """An earlier process was adding rows; `is_successor`: it did not let go, so they may arrive later still."""
        self.late_until = now + (SETTLED_US_MIN if is_successor else SETTLE_US)

    def ask_soon(self, now: int) -> None:
        """It is to be known how it stands now."""
        if now > self.asked_at + ASK_US_MIN:
            self.asked_at, self.quiet = 0, 0

    def put_off(self, now: int, asked_s: float | None = None) -> None:
        """What was tried came to nothing: it is tried again later and later, or as the service asks."""
        self.troubles += 1
        self.not_before = now + backoff_or_asked_us(self.troubles, self.batch.id, asked_s or 0)
