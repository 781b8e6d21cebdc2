"""One flow, as people and programs are shown it. Times are microseconds UTC."""

import msgspec

from orchestrator.views.flows import AwaitedInput, FlowStatus, NotificationStatus, StageStatus
from orchestrator.views.pages.pipelines import BackfillLine, FlowResult
from orchestrator.views.series import TimeBar


class StageLine(StageStatus, frozen=True, kw_only=True):
    """A stage of a flow that has begun, with its run and its time."""

    run_number: int | None
    """None: its run was deleted."""

    standing: str
    began_at: int
    ended_at: int | None = None
    again: int = 1
    """How often it was carried out, this time included."""


class KinRow(msgspec.Struct, frozen=True, kw_only=True, rename={"class_": "class"}):
    """A row that was asked for, one that it was made of, or one that was made of it."""

    stage: str
    custom_id: str
    state: str
    class_: str | None = None
    run_number: int | None = None
    """The run in which it is a job."""

    made_of: tuple[str, ...] = ()
    of_others: int = 0
    """How many further rows it was made of."""

    reused: str | None = None
    """Whose result it has, where nothing was sent for it."""

    not_reused: str | None = None
    became: int | None = None
    """How many rows of the stages behind were made of it; None where that is not known yet."""


class FlowPage(msgspec.Struct, frozen=True, kw_only=True):
    """A flow: its stages in time, what people are told of it, and the way of a row through it."""

    flow: FlowStatus
    number: int
    pipeline_number: int
    version: int
    """Of its pipeline: the one that it keeps."""

    latest_version: int
    result: FlowResult
    stages: tuple[StageLine, ...]
    backfill: BackfillLine | None = None
    """The one that has made this flow, while some of its flows have not ended."""

    awaits: AwaitedInput | None = None
    """The input, while it is not there yet."""

    to_come: tuple[str, ...] = ()
    """The stages that have not begun."""

    bars: tuple[TimeBar, ...] = ()
    """Its stages in the order of their pipeline."""

    messages: tuple[NotificationStatus, ...] = ()
    row: str | None = None
    """The custom_id whose way is shown."""

    kin: tuple[KinRow, ...] = ()
    is_all_kin: bool = True
    """False: there are more rows than are shown."""

    row_problem: str | None = None
    """Why no way of it is shown."""
