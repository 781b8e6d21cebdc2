"""What a report says, as a value: of a run, or of a flow with the runs of its stages."""

from collections.abc import Sequence

import msgspec

from orchestrator.views.runs.run_lines import RunLine
from orchestrator.views.runs.run_pages import RunPage


class ReportContent(msgspec.Struct, frozen=True, kw_only=True):
    """How a run or a flow stood at a moment (microseconds UTC)."""

    name: str
    made_at: int
    ledger: str
    """The name of the ledger's file."""

    flow: RunLine | None
    """The flow with its stages; None for a report of a single run."""

    runs: Sequence[RunPage]
    """The run, or those of the stages, in their order."""

    texts_hidden: bool
    """Whether what workers said is kept back."""


class WrittenReport(msgspec.Struct, frozen=True, kw_only=True):
    """A report that was written to a file."""

    output: str
    name: str
    size: int
    """Bytes."""

    left_out: Sequence[str] = ()
    """What there was no room for."""
