"""Flows and schedules as programs and people ask for them: with a real ledger, served by nobody or by this process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from orchestrator.api.flows.flows import flow_show, flows_list
from orchestrator.api.flows.schedule_changes import schedules_continue, schedules_pause, schedules_remove
from orchestrator.api.flows.schedules import (
    schedules_check,
    schedules_history,
    schedules_list,
    schedules_next,
)
from orchestrator.api.flows.triggers import BACKFILL_MAX, backfill, backfill_preview, trigger
from orchestrator.api.foreground.tick import tick, wait_for_flow
from orchestrator.api.runs.process_commands import control
from orchestrator.api.runs.run_lookup import run_named
from orchestrator.client import Service
from orchestrator.clock import Clock
from orchestrator.core.pipelines.flow_lifecycle import FlowState
from orchestrator.core.pipelines.pipeline import Pipeline
from orchestrator.core.service.profiles import place
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.errors import StoppedError, UsageError
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.settings.command_requests import ControlAction, ServeRequest
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.units import HOUR_US
from tests.engine.flowing import a_pipeline, completing
from tests.engine.process import WATCH_EVERY_S
from tests.engine.scripted import Reply, Scripted, says
from tests.ledger.ledgers import opened
from tests.ledger.pipelines import applied, every
from tests.simulation.clock import VirtualClock
from tests.simulation.database import async_creator
from tests.simulation.world import URL

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

DAY_S = 86_400


class Desk:
    """A folder with a ledger, and a person at it."""

    def __init__(self, folder: Path, transport: Scripted | None = None) -> None:
        self.folder, self.ledger = folder, folder / "l.db"
        self.clock = VirtualClock()
        self.transport = transport or completing()
        self.dependencies = Dependencies(
            clock=self.clock,
            environ={},
            service=self._service,
            connect=async_creator,
            open_files=lambda: 1_024,
            lock=self._lock,
            watch_every_s=WATCH_EVERY_S,
        )
        connection = ConnectionSettings(serverless_url=URL, api_key="key")
        self.request = ServeRequest(ledger=self.ledger, connection=connection)

    def _service(self, _connection: ConnectionSettings, clock: Clock) -> Service:
        return Service(URL, "key", clock, transport=self.transport)

    @staticmethod
    @asynccontextmanager
    async def _lock(_ledger: LedgerAddress, /, *, now: int, doing: str = "") -> AsyncIterator[None]:
        yield

    async def applies(self, pipeline: Pipeline | None = None, **changes: Any) -> None:
        pipeline = msgspec.structs.replace(pipeline or a_pipeline(self.folder, every(24)), **changes)
        async with opened(self.ledger, clock=self.clock) as ledger:
            await applied(ledger, pipeline, now=self.clock.now())

    async def tick(self) -> list[str]:
        """A look; the flows that came of it or were left, and their states."""
        found = await tick(self.request, dependencies=self.dependencies)
        return [f"{flow.name} {flow.state}" for flow in found.flows]

    async def check(self) -> list[str]:
        return [trouble.kind for trouble in await schedules_check(self.ledger, dependencies=self.dependencies)]


async def test_a_tick_fires_what_is_due_and_works_until_nothing_is_left(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    await desk.applies()
    assert await desk.tick() == []
    await anyio.sleep(DAY_S)
    assert await desk.tick() == ["p@20260102T000000Z succeeded"]
    assert await desk.tick() == []
    assert (await desk.check()) == []
    shown = await flow_show(desk.ledger, "p@20260102T000000Z", desk.dependencies)
    assert [(stage.rows_in, stage.done, stage.waiting) for stage in shown.stages] == [(2, 2, 0)]
    async with opened(desk.ledger, clock=desk.clock) as ledger:
        assert (await run_named(ledger, "p@20260102T000000Z")).name == "p@20260102T000000Z/caption"


async def test_a_stage_of_a_profile_is_sent_with_no_other_key(tmp_path: Path) -> None:
    """Neither is its run another account's where the file says the address that the profile has anyway."""
    desk = Desk(tmp_path)
    pipeline = a_pipeline(tmp_path, every(24))
    [stage, *_] = pipeline.stages
    own = {"profile": ("work",), "serverless-url": (URL,)}
    await desk.applies(pipeline, stages=(msgspec.structs.replace(stage, settings={**stage.settings, **own}),))
    for profile, outcome in (("home", "failed"), (None, "failed"), ("work", "succeeded")):
        desk.request = msgspec.structs.replace(
            desk.request, connection=ConnectionSettings(serverless_url=place(URL, profile), api_key="key")
        )
        await anyio.sleep(DAY_S)
        [flow] = await desk.tick()
        assert flow.endswith(outcome)
    async with opened(desk.ledger, clock=desk.clock) as ledger:
        assert [run.service_url for run in await ledger.runs.all()] == [f"{URL}#work"]
    failed = await flow_show(desk.ledger, "p@20260102T000000Z", desk.dependencies)
    assert "the stage caption belongs to the profile work: add --profile work; nothing was sent" in str(failed)


async def test_a_tick_without_a_ledger_is_refused_and_makes_none(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    with pytest.raises(UsageError, match="no ledger"):
        await desk.tick()
    assert not desk.ledger.exists()


async def test_a_tick_says_where_nothing_comes_of_a_flow_before_somebody_does_something(tmp_path: Path) -> None:
    desk = Desk(tmp_path, Scripted(run=lambda _: says("IN_QUEUE", "r-1"), status=says("IN_PROGRESS")))
    desk.transport.scripts["run"] = lambda _: Reply(401)
    await desk.applies()
    await anyio.sleep(DAY_S)
    with pytest.raises(StoppedError, match="p@20260102T000000Z: "):
        await desk.tick()
    desk.transport.scripts = completing().scripts
    assert await desk.tick() == ["p@20260102T000000Z succeeded"]


async def test_a_trigger_of_the_same_time_is_the_same_flow_and_who_waits_works_itself(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    await desk.applies(schedule=msgspec.structs.replace(every(24), zone="Europe/Berlin"))
    asked = [await trigger(desk.ledger, "p", "2026-03-01T02:30", desk.dependencies) for _ in range(2)]
    assert [(each.flows, each.known) for each in asked] == [(("p@20260301T013000Z",), 0), (("p@20260301T013000Z",), 1)]
    flow = await wait_for_flow(desk.request, "p@20260301T013000Z", dependencies=desk.dependencies)
    assert flow.state is FlowState.SUCCEEDED
    now = await trigger(desk.ledger, "p", None, desk.dependencies)
    assert now.flows[0].startswith("p@20260101T0000")


@pytest.mark.parametrize(
    ("name", "at", "why"),
    [
        ("q", None, "no pipeline called 'q' here.*there is: p"),
        ("p", "2026-03-29T02:30", "--at: .*does not exist in Europe/Berlin"),
        ("p", "2026-10-25T02:30", "--at: .*comes twice"),
        ("p", "2026-10-24T02:30:00.5", "whole second"),
    ],
)
async def test_a_trigger_that_means_nothing_is_refused(tmp_path: Path, name: str, at: str | None, why: str) -> None:
    desk = Desk(tmp_path)
    await desk.applies(schedule=msgspec.structs.replace(every(24), zone="Europe/Berlin"))
    with pytest.raises(UsageError, match=why):
        await trigger(desk.ledger, name, at, desk.dependencies)


async def test_a_backfill_makes_flows_for_past_fires_once_or_again(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    await desk.applies()
    times = ("2025-12-01", "2025-12-03")
    fires = await backfill_preview(desk.ledger, "p", *times, desk.dependencies)
    assert (len(fires.fires), fires.known) == (3, 0)
    made = await backfill(desk.ledger, fires, parallel=2, dependencies=desk.dependencies)
    assert made.flows[0] == "p@20251201T000000Z"
    fires = await backfill_preview(desk.ledger, "p", *times, desk.dependencies)
    assert fires.known == 3
    assert (await backfill(desk.ledger, fires, dependencies=desk.dependencies)).flows == ()
    again = await backfill(desk.ledger, fires, again=True, dependencies=desk.dependencies)
    assert again.flows[-1] == "p@20251203T000000Z~2"
    assert [state.split()[1] for state in await desk.tick()] == ["succeeded"] * 6
    shown = await flow_show(desk.ledger, "p@20251203T000000Z~2", desk.dependencies)
    assert shown.stages[0].run == "p@20251203T000000Z~2/caption"


async def test_a_backfill_that_means_nothing_is_refused(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    await desk.applies()
    await desk.applies(a_pipeline(tmp_path, name="q"))
    for name, since, until, why in (
        ("q", "2025-12-01", "2025-12-03", "has no schedule"),
        ("p", "2025-12-03", "2025-12-01", "lies before"),
        ("p", "1990-01-01", "2025-12-01", f"more than {BACKFILL_MAX:,}"),
    ):
        with pytest.raises(UsageError, match=why):
            await backfill_preview(desk.ledger, name, since, until, desk.dependencies)


async def test_schedules_tell_what_fires_next_what_fired_and_what_was_missed(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    await desk.applies(schedule=every(24, catch_up_h=30))
    await desk.applies(a_pipeline(tmp_path, every(12), name="q"))
    assert await schedules_next(desk.ledger, None, 3, desk.dependencies) == [
        ("q", desk.clock.now() + 12 * HOUR_US, "2026-01-01T12:00:00+00:00"),
        ("p", desk.clock.now() + 24 * HOUR_US, "2026-01-02T00:00:00+00:00"),
        ("q", desk.clock.now() + 24 * HOUR_US, "2026-01-02T00:00:00+00:00"),
    ]
    await anyio.sleep(5 * DAY_S)
    assert await desk.check() == ["unseen", "unseen"]
    await desk.tick()
    assert await desk.check() == ["missed", "missed"]
    history = await schedules_history(desk.ledger, "p", 9, desk.dependencies)
    assert [(row.what, row.fires) for row in history] == [("succeeded", 1), ("succeeded", 1), ("missed", 3)]
    assert history[-1].backfill == (
        "orchestrator backfill p --from 2026-01-02T00:00:00+00:00 --to 2026-01-04T17:59:59+00:00"
    )
    [first, _] = await schedules_list(desk.ledger, desk.dependencies)
    assert first.last is not None
    assert (first.name, first.fires, first.last.name) == ("p", "every 1 day", "p@20260106T000000Z")


async def test_a_schedule_that_is_paused_leaves_a_gap_or_is_made_up_for(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    await desk.applies()
    with pytest.raises(UsageError, match="'q'"):  # a wrong name is told before a missing note
        await schedules_pause(desk.ledger, "q", "", None, desk.dependencies)
    with pytest.raises(UsageError, match="say why p is paused, for whoever looks: --note 'WHY'"):
        await schedules_pause(desk.ledger, "p", " ", None, desk.dependencies)
    await schedules_pause(desk.ledger, "p", "stocktaking", None, desk.dependencies)
    with pytest.raises(UsageError, match="p is paused already: stocktaking"):
        await schedules_pause(desk.ledger, "p", "again", None, desk.dependencies)
    await anyio.sleep(2 * DAY_S)
    assert await desk.tick() == []
    assert await desk.check() == []
    await schedules_continue(desk.ledger, "p", catch_up=False, dependencies=desk.dependencies)
    assert await desk.tick() == []
    [row] = await schedules_history(desk.ledger, "p", 9, desk.dependencies)
    assert (row.what, row.fires) == ("paused", 2)

    await schedules_pause(desk.ledger, "p", "once more", "2026-02-01", desk.dependencies)
    await anyio.sleep(DAY_S)
    await schedules_continue(desk.ledger, "p", catch_up=True, dependencies=desk.dependencies)
    assert await desk.tick() == ["p@20260104T000000Z succeeded"]
    with pytest.raises(UsageError, match="p is not paused"):
        await schedules_continue(desk.ledger, "p", catch_up=True, dependencies=desk.dependencies)
    with pytest.raises(UsageError, match="--until 2026-01-01 is past"):
        await schedules_pause(desk.ledger, "p", "late", "2026-01-01", desk.dependencies)


async def test_a_schedule_that_was_removed_fires_no_more_until_it_is_applied_again(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    await desk.applies()
    await schedules_remove(desk.ledger, "p", desk.dependencies)
    await anyio.sleep(2 * DAY_S)
    assert await desk.tick() == []
    with pytest.raises(UsageError, match="p does not fire by itself"):
        await schedules_remove(desk.ledger, "p", desk.dependencies)
    await desk.applies()
    await anyio.sleep(DAY_S)
    assert await desk.tick() == ["p@20260104T000000Z succeeded"]


async def test_a_flow_that_waits_is_cancelled_by_its_name_and_one_that_has_ended_is_not(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    await desk.applies()
    [name] = (await trigger(desk.ledger, "p", "2026-03-01", desk.dependencies)).flows
    with pytest.raises(UsageError, match="is waiting: only a flow that runs can be paused"):
        await control(desk.ledger, name, ControlAction.PAUSE, desk.dependencies)
    assert (await control(desk.ledger, name, ControlAction.CANCEL, desk.dependencies)).cancelled
    assert (await control(desk.ledger, name, ControlAction.CANCEL, desk.dependencies)).has_ended
    [flow] = await flows_list(desk.ledger, "p", [FlowState.CANCELLED], dependencies=desk.dependencies)
    assert "cancelled by" in flow.why
    with pytest.raises(UsageError, match="no flow called 'x' here"):
        await flow_show(desk.ledger, "x", desk.dependencies)
