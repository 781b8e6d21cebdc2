"""Sums over all of a ledger, of which those of what has ended never fall."""

import pytest

from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.pipelines.due_fires import Gap, GapKind, Look
from orchestrator.core.pipelines.flow_lifecycle import FlowEvent, FlowKind, FlowState
from orchestrator.core.pipelines.overlap_policy import Ruled
from orchestrator.core.pipelines.schedule_calendar import Fire
from orchestrator.ledger.flows.fires import FoundFires
from orchestrator.settings.run_settings import RunSettings
from orchestrator.units import HOUR_US
from tests.factories import a_row
from tests.ledger.ledgers import OpenLedger, a_run, brought_to, obeyed
from tests.ledger.pipelines import a_pipeline, applied
from tests.simulation.clock import EPOCH_AT, VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

AT = EPOCH_AT


async def test_jobs_and_runs_are_added_up_by_endpoint(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        await a_run(ledger, [a_row(1, "a"), a_row(2, "b")], name="one", endpoint="x")
        await a_run(ledger, [a_row(1, "c")], name="two", endpoint="x")
        await a_run(ledger, [a_row(1, "d")], name="three", endpoint="y")
        await brought_to(ledger, State.SUCCEEDED, AT, job=3)
        tallies = ledger.reports.tallies
        x, y = await tallies.endpoints()
        assert (x.name, y.name) == ("x", "y")
        jobs = await tallies.jobs()
        assert {name: n for name, n in jobs[x.id].items() if n} == {"queued": 2, "succeeded": 1}
        assert await tallies.runs() == {x.id: 2, y.id: 1}
        assert await tallies.open_runs() == {1: x.id, 3: y.id}


async def test_single_runs_are_the_unfinished_ones_first_and_no_stages(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        for n in range(5):
            await a_run(ledger, [a_row(1, f"n-{n}")], name=f"run-{n}")
        await brought_to(ledger, State.SUCCEEDED, AT, job=5)
        of = await applied(ledger, a_pipeline("p"), now=AT)
        [flow] = await ledger.flows.add(of.id, of.name, of.definition, [AT], FlowKind.TRIGGERED)
        started = await ledger.flows.named(flow)
        assert started is not None
        await ledger.flows.begin_stage(started.id, "s", run=1, source="", sha256="")
        tallies = ledger.reports.tallies
        assert await tallies.single_runs(2) == [4, 3]
        assert await tallies.single_runs(9) == [4, 3, 2, 5]
        assert await tallies.jobs_beyond(2) == {"queued": 1}
        assert await tallies.jobs_beyond(3) == {}


async def test_a_flow_that_goes_on_has_ended_all_the_same(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        of = await applied(ledger, a_pipeline("p"), now=AT)
        [name] = await ledger.flows.add(of.id, of.name, of.definition, [AT], FlowKind.TRIGGERED)
        flow = await ledger.flows.named(name)
        assert flow is not None
        for event in (FlowEvent.STARTED, FlowEvent.PARTIAL):
            assert await ledger.flows.step(flow.id, event)
        assert not await ledger.flows.step(flow.id, FlowEvent.PARTIAL)  # it has ended
        tallies = ledger.reports.tallies
        assert (await tallies.flows()).ended == {of.id: {"partial": 1}}
        last = (await tallies.last_flows())[of.id]
        assert (last.state, last.succeeded_at) == (FlowState.PARTIAL, None)

        assert await ledger.flows.step(flow.id, FlowEvent.REOPENED)
        assert await tallies.flows() == ({of.id: {"running": 1}}, {of.id: {"partial": 1}}, {})
        assert await ledger.flows.step(flow.id, FlowEvent.SUCCEEDED)
        assert (await tallies.flows()).ended == {of.id: {"partial": 1, "succeeded": 1}}
        last = (await tallies.last_flows())[of.id]
        assert last.succeeded_at == last.ended_at


async def test_a_flow_that_a_newer_one_takes_the_turn_of_has_ended(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        of = await applied(ledger, a_pipeline("p"), now=AT)
        assert of.watermark is not None
        fire = Fire(AT + HOUR_US, AT + HOUR_US)
        nothing = Ruled({}, {}, {})
        found = FoundFires(of.id, of.name, of.definition, of.watermark, Look((), (fire,), AT + HOUR_US, True), nothing)
        await ledger.flows.fires.record([found])
        [waiting] = await ledger.flows.live()
        of = await applied(ledger, a_pipeline("p"), now=AT + HOUR_US)
        assert of.watermark is not None
        gap = Gap(GapKind.MISSED, AT + HOUR_US, AT + 4 * HOUR_US, AT + 2 * HOUR_US, 3)
        ruled = Ruled({}, {waiting.id: "newer"}, {})
        found = FoundFires(of.id, of.name, of.definition, of.watermark, Look((gap,), (), AT + 4 * HOUR_US, True), ruled)
        await ledger.flows.fires.record([found])
        counted = await ledger.reports.tallies.flows()
        assert (counted.ended, counted.missed) == ({of.id: {"cancelled": 1}}, {of.id: 3})
        assert await ledger.reports.tallies.pipelines() == {of.id: "p"}


async def test_messages_are_counted_by_target_as_they_wait_and_as_they_end(open_file: OpenLedger) -> None:
    async with open_file(clock=VirtualClock()) as ledger:
        outbox, tallies = ledger.flows.run_outbox, ledger.reports.tallies
        for name, notify in (("one", "ops:failed"), ("two", "ops:failed"), ("three", "env:HOOK")):
            run = await a_run(ledger, name=name, settings=RunSettings(notify=notify))
            await obeyed(ledger, "cancel", run=run.id)
            await ledger.jobs.cancels.end(run.id, most=1)
        assert await tallies.messages_waiting() == {"ops": 2, "": 1}
        assert await tallies.message_ends() == {}
        [first], [second] = await outbox.of(1), await outbox.of(2)
        await outbox.undelivered(first.id, "no answer", due_at=ledger.now())
        assert await tallies.message_ends() == {}
        await outbox.delivered(first.id)
        await outbox.delivered(first.id)  # it was
        await outbox.undelivered(second.id, "no answer", due_at=None)
        assert await tallies.messages_waiting() == {"": 1}
        assert await tallies.message_ends() == {"ops": {"told": 1, "given_up": 1}}
