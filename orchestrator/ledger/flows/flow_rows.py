"""Flows and their stages as rows, and how they are found."""

from typing import Final

import msgspec
from sqlalchemy import bindparam, func, select

from orchestrator.core.pipelines.flow_lifecycle import FlowKind, FlowState, late_from
from orchestrator.core.pipelines.overlap_policy import Live
from orchestrator.core.pipelines.pipeline import Schedule, run_name
from orchestrator.core.text.durations import format_duration
from orchestrator.ledger.schema.flow_tables import flows, pipelines, stages
from orchestrator.ledger.schema.row_codec import columns


class Flow(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One execution of a pipeline. Times are microseconds UTC."""

    id: int
    name: str
    pipeline: int
    pipeline_name: str
    definition: int
    fire_at: int
    again: int
    kind: FlowKind
    state: FlowState
    parallel: int
    recorded_at: int
    started_at: int | None
    ended_at: int | None
    why: str
    is_cancelled: bool
    """It is to end, and has not ended yet."""

    is_overruled: bool
    """Somebody went on with it though too many had failed."""

    is_late: bool
    """It was told that it is late."""

    due_at: int
    """It does not begin before."""

    is_braked: bool
    """It is held by a brake of one of its runs until that lets it go on: nothing of it is paused."""

    def _counts_from(self, schedule: Schedule) -> int | None:
        return late_from(
            self.kind,
            fire_at=self.fire_at,
            recorded_at=self.recorded_at,
            started_at=self.started_at,
            due_at=self.due_at,
            jitter_us=schedule.jitter_us,
        )

    def late_at(self, schedule: Schedule | None) -> int | None:
        """From when on it is late if it has not ended, by `schedule`, its own; None where it never is."""
        since = None if schedule is None else self._counts_from(schedule)
        if since is None or schedule is None or schedule.late_after_us is None:
            return None
        return since + schedule.late_after_us

    def why_late(self, schedule: Schedule | None, now: int) -> str | None:
        """What is wrong with it, where it has not ended in the time that `schedule`, its own, leaves it."""
        late_at = self.late_at(schedule)
        if schedule is None or schedule.late_after_us is None or late_at is None or now <= late_at:
            return None
        asked = "its turn came" if self.kind is FlowKind.BACKFILL else "it was asked for"
        after_what = "its time" if late_at - schedule.late_after_us == self.fire_at else asked
        return f"has not ended {format_duration(schedule.late_after_us)} after {after_what}"

    @property
    def live(self) -> Live:
        """What the rules of overlap have to know of it."""
        return Live(self.id, self.kind, self.state, self.fire_at, self.due_at, self.is_cancelled, self.parallel)


class StageRow(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A stage of a flow that has begun."""

    flow: int
    stage: str
    again: int
    run: int | None
    source: str
    sha256: str
    began_at: int
    is_short: bool
    """The flow was held before it, since too few rows have succeeded."""

    only_failed: bool
    """What has succeeded in the run before is taken over."""


class PartOfFlow(msgspec.Struct, frozen=True, array_like=True):
    """What a run is to its flow."""

    flow: str
    stage: str
    again: int
    latest: int
    """How often the stage was carried out until now: by another run where that is more than `again`."""

    @property
    def replaced_by(self) -> str | None:
        """The run that carries out its stage in its place; None where it does itself."""
        return None if self.again == self.latest else run_name(self.flow, self.stage, self.latest)


_later: Final = stages.alias("later")


_LATEST: Final = (
    select(func.max(_later.c.again))
    .where(_later.c.flow_id == stages.c.flow_id, _later.c.stage == stages.c.stage)
    .scalar_subquery()
)


PART: Final = (
    select(*columns(PartOfFlow, stages, flow=flows.c.name, latest=_LATEST))
    .select_from(stages.join(flows, flows.c.id == stages.c.flow_id))
    .where(stages.c.run_id == bindparam("run"))
)


FLOWS: Final = select(*columns(Flow, flows, pipeline_name=pipelines.c.name)).select_from(
    flows.join(pipelines, pipelines.c.id == flows.c.pipeline_id)
)
