"""Pipelines and their last fires, as people and programs are shown them. Times are microseconds UTC."""

from collections.abc import Mapping

import msgspec

from orchestrator.views.costs import CostView
from orchestrator.views.pages.needs import NeedLine
from orchestrator.views.series import FireSign


class PipelineFire(FireSign, frozen=True, kw_only=True):
    """One of the last fires of a pipeline: its flow, or that there is none."""

    fire_at: int
    flow: int | None = None
    """The number of its flow."""

    name: str | None = None
    why: str = ""
    fires: int = 1
    """Of a stretch that was missed, or paused: how many."""


class FlowResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a flow ended, or stands, and what went through it."""

    flow: int
    name: str
    state: str
    why: str
    fire_at: int
    ended_at: int | None = None
    took_s: float | None = None
    """None while it has not begun."""

    rows: int = 0
    """What its first stages were handed."""

    failed: int = 0
    """Jobs of all its stages that have no result, and get none."""

    spent: CostView | None = None


class PipelineLine(msgspec.Struct, frozen=True, kw_only=True):
    """A pipeline in a list."""

    pipeline: int
    name: str
    standing: str
    """The worst that is the matter, else how its last flow ended: a word that has a sign."""

    schedule: str
    """When it fires, in words."""

    crons: tuple[str, ...] = ()
    """The same as it is written, where it is."""

    zone: str
    is_scheduled: bool
    next_at: int | None = None
    """None: it is paused, or fires no more."""

    paused_note: str | None = None
    """Why its schedule is paused; None where it is not."""

    paused_until: int | None = None
    fires: tuple[PipelineFire, ...] = ()
    """Oldest first."""

    last: FlowResult | None = None
    """Of the latest flow that has ended; None while none has."""

    waiting: int = 0
    running: int = 0
    on_hold: int = msgspec.field(name="held", default=0)
    missed: int = 0
    """Fires that were found missed of late."""

    is_late: bool = False


class BackfillLine(msgspec.Struct, frozen=True, kw_only=True):
    """The flows that one backfill has made, of which some have not ended."""

    pipeline: int
    name: str
    """The pipeline's."""

    standing: str
    asked_at: int
    flows: int
    ended: int
    failed: int
    """Flows that failed, or were partial."""

    running: int
    waiting: int
    on_hold: int = msgspec.field(name="held", default=0)
    total: int | None = None
    """Jobs of those that have begun; None where they are too many to be counted. So the next, and `spent`."""

    done: int | None = None
    """Those of them that have an outcome."""

    jobs_per_s: float | None = None
    """Of late; None where nobody works on it."""

    eta_at: int | None = None
    """When the last of its flows will have ended, if they take as long as those that have; None where that is not
    known, or it does not go on.
    """

    spent: CostView | None = None
    safe_offline_s: float | None = None
    """For how long no result can expire if nobody collects; None where none can."""


class PipelinesPage(msgspec.Struct, frozen=True, kw_only=True):
    """All pipelines, the worst first."""

    pipelines: tuple[PipelineLine, ...]
    backfills: tuple[BackfillLine, ...] = ()
    """Those that have not ended."""


class PipelineVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a pipeline, as it was applied."""

    version: int
    applied_at: int
    changes: tuple[str, ...] = ()
    """What is another one since the version before; none of the first, and of the oldest that is shown."""


class GapLine(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of fires for which nothing was done."""

    kind: str
    """missed, or paused."""

    first_at: int
    until_at: int
    fires: int
    first: str
    """The first of them by the clock of the pipeline's zone, as it is typed."""

    until: str


class PipelinePage(msgspec.Struct, frozen=True, kw_only=True):
    """One pipeline: its schedule, what fired, and what did not."""

    line: PipelineLine
    """With more fires than in a list."""

    needs: tuple[NeedLine, ...] = ()
    version: int
    next_fires: tuple[int, ...] = ()
    late_after_s: float | None = None
    overlap: str | None = None
    stages: tuple[str, ...]
    endpoints: Mapping[str, str] = {}
    """Their ids, by the stages."""

    backfills: tuple[BackfillLine, ...] = ()
    """Those that have not ended."""

    results: tuple[FlowResult, ...] = ()
    """Of the latest flows, newest first."""

    took_s: tuple[float, ...] = ()
    """Of these, oldest first, for bars: 0 where there is nothing to tell. So the next two."""

    rows: tuple[int, ...] = ()
    spent: tuple[float, ...] = ()

    gaps: tuple[GapLine, ...] = ()
    """Newest first."""

    versions: tuple[PipelineVersion, ...] = ()
    """Newest first."""
