"""What the program that does what a test says does about pipelines: it records what it is asked for."""

from collections.abc import Sequence
from pathlib import Path

import anyio

from orchestrator.api.flows.flows import FlowShown, FlowStatus
from orchestrator.api.flows.lineage import Lineage, RowOfFlow
from orchestrator.api.flows.rerun import Rerun
from orchestrator.api.flows.schedules import ScheduleHistory, ScheduleStatus, ScheduleTrouble
from orchestrator.api.flows.triggers import BackfillFires, TriggeredFlows
from orchestrator.api.foreground.tick import Ticked
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.pipelines.flow_lifecycle import FlowKind, FlowState
from orchestrator.engine.runtime.view import View
from orchestrator.settings.requests import ServeRequest
from orchestrator.units import HOUR_US

AT = 1_767_225_600_000_000
FLOW = "captions@20260101T000000Z"


def flow_status(state: FlowState = FlowState.SUCCEEDED, why: str = "") -> FlowStatus:
    return FlowStatus(
        name=FLOW,
        pipeline="captions",
        state=state,
        kind=FlowKind.SCHEDULED,
        fire_at=AT,
        recorded_at=AT,
        started_at=AT,
        ended_at=AT + HOUR_US if state not in (FlowState.RUNNING, FlowState.HELD) else None,
        why=why,
        late=False,
    )


def schedule_status(*, paused_at: int | None = None, paused_until: int | None = None) -> ScheduleStatus:
    return ScheduleStatus(
        name="captions",
        version=2,
        fires="30 2 * * *",
        zone="Europe/Berlin",
        next_at=None if paused_at else AT + 25 * HOUR_US,
        looked_until=AT,
        paused_at=paused_at,
        paused_until=paused_until,
        note="stocktaking" if paused_at else "",
        waiting=1_000,
        running=1,
        held=0,
        last=flow_status(),
    )


class FakeFlows:
    """Answers with what is set beforehand."""

    asked: list[tuple[object, ...]]
    held_by: str | None

    def __init__(self) -> None:
        self.ticked = Ticked(held_by=None, flows=())
        self.lineage = Lineage(
            flow=FLOW,
            custom_id="r1/0",
            rows=(
                RowOfFlow(stage="caption", custom_id="r1", state=State.SUCCEEDED, became=2),
                RowOfFlow(stage="embed", custom_id="r1/0", state=State.FAILED, class_="step", made_of=("r1",)),
            ),
            is_all=False,
        )
        self.flow = flow_status()
        self.served: list[ServeRequest] = []
        self.shown: FlowShown | None = None
        self.fires = BackfillFires(pipeline="captions", fires=(AT, AT + HOUR_US), known=0, zone="UTC")
        self.was_known = False
        self.schedule = schedule_status()
        self.next: list[tuple[str, int, str]] = []
        self.history: list[ScheduleHistory] = []
        self.troubles: list[ScheduleTrouble] = []

    async def tick(self, request: ServeRequest, view: View, *, stop: anyio.Event, within_us: int | None) -> Ticked:
        self.served.append(request)
        self.asked.append((request.ledger, within_us))
        return self.ticked

    async def trigger(self, ledger: Path, name: str, at: str | None) -> TriggeredFlows:
        self.asked.append((ledger, name, at))
        return TriggeredFlows(pipeline=name, flows=(FLOW,), known=int(self.was_known), held_by=self.held_by)

    async def wait_for_flow(self, request: ServeRequest, name: str, view: View, *, stop: anyio.Event) -> FlowStatus:
        self.served.append(request)
        self.asked.append((request.ledger, name))
        return self.flow

    async def backfill_preview(self, ledger: Path, name: str, since: str, until: str) -> BackfillFires:
        self.asked.append((ledger, name, since, until))
        return self.fires

    async def backfill(self, ledger: Path, fires: BackfillFires, *, parallel: int, again: bool) -> TriggeredFlows:
        self.asked.append((ledger, parallel, again))
        made = fires.fires if again else fires.fires[fires.known :]
        flows = tuple(f"captions@{fire}" for fire in made)
        return TriggeredFlows(
            pipeline="captions", flows=flows, known=len(fires.fires) - len(made), held_by=self.held_by
        )

    async def flows_list(
        self, ledger: Path, pipeline: str | None, states: Sequence[FlowState], most: int | None
    ) -> list[FlowStatus]:
        self.asked.append((ledger, pipeline, tuple(states), most))
        return [self.flow]

    async def flow_called(self, ledger: Path, name: str) -> FlowStatus | None:
        return self.flow if name == FLOW else None

    async def flow_rerun(self, ledger: Path, name: str, stage: str, *, only_failed: bool) -> Rerun:
        self.asked.append(("rerun", ledger, name, stage, only_failed))
        return Rerun(flow=name, runs=(f"{name}/{stage}~2",), held_by=self.held_by)

    async def flow_lineage(self, ledger: Path, name: str, custom_id: str) -> Lineage:
        self.asked.append((ledger, name, custom_id))
        return self.lineage

    async def flow_show(self, ledger: Path, name: str) -> FlowShown:
        self.asked.append((ledger, name))
        return self.shown or FlowShown(flow=self.flow, version=2, stages=())

    async def schedules_list(self, ledger: Path) -> list[ScheduleStatus]:
        self.asked.append((ledger,))
        return [self.schedule]

    async def schedules_next(self, ledger: Path, name: str | None, number: int) -> list[tuple[str, int, str]]:
        self.asked.append((ledger, name, number))
        return self.next

    async def schedules_history(self, ledger: Path, name: str, most: int) -> list[ScheduleHistory]:
        self.asked.append((ledger, name, most))
        return self.history

    async def schedules_check(self, ledger: Path, name: str | None) -> list[ScheduleTrouble]:
        self.asked.append((ledger, name))
        return self.troubles

    async def schedules_pause(self, ledger: Path, name: str, note: str, until: str | None) -> ScheduleStatus:
        self.asked.append((ledger, name, note, until))
        return self.schedule

    async def schedules_continue(self, ledger: Path, name: str, *, catch_up: bool) -> ScheduleStatus:
        self.asked.append((ledger, name, catch_up))
        return self.schedule

    async def schedules_remove(self, ledger: Path, name: str) -> ScheduleStatus:
        self.asked.append((ledger, name))
        return self.schedule
