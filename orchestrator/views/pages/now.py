"""What is the matter now, as people and programs are shown it on the first page."""

import msgspec

from orchestrator.views.pages.needs import NeedLine
from orchestrator.views.pages.pipelines import BackfillLine, PipelineLine
from orchestrator.views.runs.run_lines import RunLine
from orchestrator.views.status import LastProcess


class NowPage(msgspec.Struct, frozen=True, kw_only=True):
    """What needs a person, how pipelines stand, and what is not finished."""

    needs: tuple[NeedLine, ...]
    """The most urgent first."""

    pipelines: tuple[PipelineLine, ...]
    """The worst first."""

    runs: tuple[RunLine, ...]
    """Unfinished runs, newest first; a flow is one line."""

    backfills: tuple[BackfillLine, ...] = ()
    more_runs: int = 0
    """How many further runs, or flows, are not finished."""

    ended: tuple[RunLine, ...] = ()
    """Where nothing is unfinished: the runs that ended last."""

    last_process: LastProcess | None = None
    """None where one works on the ledger, or none ever has."""
