"""What the service's own Batch is like: what its documents say of it, and a choice where they are silent."""

from enum import StrEnum, auto
from functools import partial
from typing import Annotated, Final

import msgspec

from orchestrator.errors import UsageError
from orchestrator.settings.setting import Panel, Setting
from orchestrator.settings.value_types import SWITCH, number, one_of, whole
from orchestrator.units import MIB

DOCUMENTED_ON: Final = "2026-08-20"
"""Of which day the documents are that are imitated; the service calls its Batch a beta."""

CALL_BYTES_MAX: Final = 10 * MIB
"""The longest body of one call (as documented)."""

NAME_LENGTH_MAX: Final = 191
"""The longest name of a batch; not documented, here as that of an endpoint."""

_batch: Final = partial(Setting, panel=Panel.BATCHES)


class BatchOrder(StrEnum):
    """In which order the requests of a batch are shown. The documents name none."""

    APPENDED = auto()
    BY_STATUS = auto()
    """Failures first, then what is in progress, queued and completed, as the service's console has it (as documented):
    so a request changes its place."""
    RANDOM = auto()
    """Anyhow, and always so."""


class BatchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How batches behave, as far as `emulate` can be told."""

    delay_s: Annotated[
        float, _batch("batch-delay", number("SECONDS"), "How long a finalized batch waits until its workers begin.")
    ] = 60.0
    workers: Annotated[
        int, _batch("batch-workers", whole(1), "The workers that an endpoint has for its batches, beside its own.")
    ] = 4
    append_ids: Annotated[
        bool,
        _batch(
            "batch-append-ids",
            SWITCH,
            "Answers an append with the ids of its requests. The documents show no such answer.",
            brief="Answers an append with the ids of its requests",
        ),
    ] = False
    order: Annotated[
        BatchOrder,
        _batch(
            "batch-order",
            one_of(BatchOrder),
            "The order in which a batch shows its requests. By status, each changes its place: failures come first.",
            brief="The order in which a batch shows its requests",
        ),
    ] = BatchOrder.APPENDED
    retention_s: Annotated[
        float,
        _batch("batch-retention", number("SECONDS"), "How long a batch is kept of which all has ended; then 404."),
    ] = 86_400.0

    def rules(self) -> "BatchRules":
        """These, and else the usual ones. Raises UsageError for numbers that make no sense."""
        return BatchRules(**msgspec.structs.asdict(self))


class BatchRules(BatchOptions, frozen=True, kw_only=True):
    """How batches behave. Raises UsageError for numbers that make no sense."""

    active_max: int = 10
    """Finalized batches of an endpoint that have not ended."""
    requests_max: int = 5_000
    """Requests of one batch."""
    queued_max: int = 50_000
    """Requests of an endpoint that wait for a worker, in all its finalized batches."""
    limit_status: int = 400
    """The status with which a limit is refused; not documented."""
    has_active_drafts: bool = False
    """Whether drafts count as active, too."""
    has_draft_pages: bool = True
    """Whether the requests of a draft are shown."""
    page_max: int = 50
    """The most requests or batches that one page shows, and how many where nobody says so."""
    price_share: float = 1.0
    """Which part of the usual price a second costs: all of it as documented, less as announced."""

    def __post_init__(self) -> None:
        limits = (self.workers, self.active_max, self.requests_max, self.queued_max, self.page_max)
        if min(limits) < 1 or min(self.delay_s, self.retention_s) < 0:
            raise UsageError("of batches there must be room for one at least, and no time may be negative")
        if not 0 <= self.price_share <= 1:
            raise UsageError(f"a batch costs 0 to 1 of the usual price, not {self.price_share}")
