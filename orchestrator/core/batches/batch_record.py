"""A batch at the service, as the ledger has it, and its stages."""

from enum import StrEnum, auto
from typing import Final

import msgspec

from orchestrator.core.batches.lateness import BatchPace
from orchestrator.core.batches.why import Why


class BatchStage(StrEnum):
    """How far a batch has come. The values stand in ledgers."""

    CREATING = auto()
    """Its creation is intended, and not answered."""

    DRAFT = auto()
    """It is there, and rows are added."""

    DROPPING = auto()
    """It is to be cancelled before it is finalized: nothing of it is ever executed, or paid."""

    FINALIZING = auto()
    """That it is to be executed is intended, and not known to have arrived."""

    RUNNING = auto()
    """It is finalized; the service executes it when it likes."""

    CANCELLING = auto()
    """It is finalized, and what of it has not begun is to be cancelled; what has begun goes on, and is paid."""

    OVER = auto()
    """All of its rows are settled."""

    DROPPED = auto()
    """It was cancelled as a draft, or never made."""

    STRAY = auto()
    """Whether it was made nobody knows: if so it is empty, and stays so."""


ENDED: Final = frozenset({BatchStage.OVER, BatchStage.DROPPED, BatchStage.STRAY})
"""Those in which nothing more is done about it."""


class BatchRecord(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A batch. Times are microseconds UTC."""

    id: int
    run: int
    endpoint: int
    stage: BatchStage
    remote_id: str | None = None
    why: Why | None = None
    """Why it is, or was, dropped or cancelled."""

    made_at: int
    """When it was intended."""

    is_by_place: bool = False
    """Whether its appends name no ids, so that each row is added by itself and has that of its place."""

    finalized_at: int | None = None
    ended_at: int | None = None
    total: int = 0
    """How many requests it has, as the service said last; of them so many have succeeded and failed."""

    completed: int = 0
    failed: int = 0
    begun_at: int | None = None
    """When the service had not begun with it, as far as was asked, of one with which it has; None before."""

    news_at: int | None = None
    """When it was last said that it has begun, or that more of them have; None before."""

    @property
    def ended(self) -> int:
        """How many have succeeded or failed."""
        return self.completed + self.failed

    @property
    def pace(self) -> BatchPace:
        """How fast it goes; no faster than that, since it had not begun by `begun_at`."""
        return BatchPace(left=self.total - self.ended, ended=self.ended, since=self.begun_at)

    @property
    def quiet_since(self) -> int:
        """Since when nothing has come of it."""
        return self.news_at or self.finalized_at or self.made_at

    @property
    def overtakes_before(self) -> int:
        """What was finalized before that time is overtaken by it; 0 where nothing is."""
        has_ended = self.stage is BatchStage.OVER and self.why is None
        return (self.finalized_at or 0) if has_ended else 0
