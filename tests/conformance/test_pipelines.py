"""Pipelines, what fired of them and what did not, and how the flows that came of it live."""

import anyio
import pytest
from sqlalchemy.exc import IntegrityError

from orchestrator.core.pipelines.due_fires import Gap, GapKind, Look, Watermark
from orchestrator.core.pipelines.flow_lifecycle import ENDED, FlowEvent, FlowKind, FlowState, before
from orchestrator.core.pipelines.overlap_policy import Ruled
from orchestrator.core.pipelines.pipeline import Schedule
from orchestrator.core.pipelines.schedule_calendar import Fire
from orchestrator.ledger import Ledger
from orchestrator.ledger.flows.fires import FoundFires
from orchestrator.ledger.flows.flow_actions import MadeUp
from orchestrator.ledger.flows.flow_rows import Flow
from orchestrator.ledger.flows.pipelines import Defined
from orchestrator.units import HOUR_US
from tests.ledger.ledgers import OpenLedger, a_run
from tests.ledger.pipelines import a_pipeline, applied, every
from tests.simulation.clock import EPOCH_AT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

AT = EPOCH_AT
NO_RULE = Ruled({}, {}, {})


def found(of: Defined, *fires: int, until: int, gaps: tuple[Gap, ...] = (), ruled: Ruled = NO_RULE) -> FoundFires:
    """What a look has found: these fires, in hours from `AT`."""
    assert of.watermark is not None
    at = tuple(Fire(AT + hours * HOUR_US, AT + hours * HOUR_US) for hours in fires)
    look = Look(gaps, at, AT + until * HOUR_US, True)
    return FoundFires(of.id, of.name, of.definition, of.watermark, look, ruled)


async def a_flow(ledger: Ledger, *, state: FlowState = FlowState.WAITING) -> Flow:
    """A flow of a new pipeline, brought into `state`."""
    of = await applied(ledger, a_pipeline(f"p-{state}"), now=AT)
    [name] = await ledger.flows.add(of.id, of.name, of.definition, [AT], FlowKind.SCHEDULED)
    flow = await ledger.flows.named(name)
    assert flow is not None
    way = {FlowState.WAITING: (), FlowState.RUNNING: ("started",), FlowState.ON_HOLD: ("started", "held")}
    for event in way.get(state, ("started", state.value)):
        assert await ledger.flows.step(flow.id, FlowEvent(event))
    return flow


async def state_of(ledger: Ledger, name: str) -> FlowState:
    flow = await ledger.flows.named(name)
    assert flow is not None
    return flow.state


async def test_what_is_applied_is_a_version_that_flows_keep(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        first = await applied(ledger, a_pipeline(input_="a.jsonl"), now=AT)
        second = await applied(ledger, a_pipeline(input_="b.jsonl"), now=AT + 1)
    async with open_file() as ledger:
        assert (second.id, second.version, second.watermark) == (first.id, 2, Watermark(AT + 1))
        both = await ledger.flows.pipelines.definitions([first.definition, second.definition])
        assert [both[n].input for n in (first.definition, second.definition)] == ["a.jsonl", "b.jsonl"]
        assert await ledger.flows.pipelines.version(first.definition) == 1
        assert [each.name for each in await ledger.flows.pipelines.all()] == ["p"]
        assert await ledger.flows.pipelines.named("q") is None


async def test_what_was_changed_meanwhile_is_not_applied_over(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        first = await applied(ledger, now=AT)
        assert not await ledger.flows.pipelines.define(a_pipeline(), now=AT)  # which takes it for a new one
        await applied(ledger, now=AT)
        assert not await ledger.flows.pipelines.define(a_pipeline(), now=AT, before=first)
        latest = await ledger.flows.pipelines.named("p")
        assert latest is not None
        assert await ledger.flows.fires.record([found(latest, 1, until=1)])
        assert not await ledger.flows.pipelines.define(a_pipeline(), now=AT, before=latest)


async def test_one_without_a_schedule_does_not_fire_and_one_that_loses_it_fires_no_more(
    open_file: OpenLedger,
) -> None:
    async with open_file() as ledger:
        assert (await applied(ledger, a_pipeline("q", None), now=AT)).watermark is None
        await applied(ledger, now=AT)
        assert (await applied(ledger, a_pipeline("p", None), now=AT)).watermark is None
        of = await applied(ledger, now=AT)
        assert [await ledger.flows.pipelines.unschedule(of) for _ in range(2)] == [True, False]


async def test_no_watermark_goes_back_with_the_clock(open_file: OpenLedger) -> None:
    """Nothing that is recorded is looked at again, whatever people do while the clock is behind."""
    async with open_file() as ledger:
        of = await applied(ledger, now=AT)
        assert await ledger.flows.fires.record([found(of, 1, 2, until=2)])

        async def stands(*, hours: int) -> Defined:
            each = await ledger.flows.pipelines.named("p")
            assert each is not None
            assert each.watermark is not None
            assert each.watermark.at_us == AT + hours * HOUR_US
            return each

        assert await ledger.flows.fires.record([found(await stands(hours=2), until=3)])  # nothing fired
        await applied(ledger, a_pipeline(schedule=every(2)), now=AT + HOUR_US)
        of = await stands(hours=3)
        assert await ledger.flows.pipelines.pause(of, now=AT + HOUR_US, until=None, note="x")
        of = await stands(hours=3)
        assert await ledger.flows.pipelines.proceed(of, now=AT + HOUR_US + 1, gap=None, catch_up=False)
        of = await stands(hours=3)
        assert await ledger.flows.pipelines.unschedule(of)
        await applied(ledger, now=AT + HOUR_US)
        await stands(hours=2)  # what is recorded


async def test_a_look_is_recorded_once_whoever_looks(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        one, two = await applied(ledger, a_pipeline("p"), now=AT), await applied(ledger, a_pipeline("q"), now=AT)
        looked = [found(one, 1, 2, until=2), found(two, 1, until=1)]
        assert await ledger.flows.fires.record(looked) == {one.id, two.id}
        assert await ledger.flows.fires.record(looked) == frozenset()
        assert [flow.name for flow in await ledger.flows.live()] == [
            "p@20260101T010000Z",
            "q@20260101T010000Z",
            "p@20260101T020000Z",
        ]
        after = await ledger.flows.pipelines.named("p")
        assert after is not None
        assert after.watermark == Watermark(AT + 2 * HOUR_US)
        assert [row.fire_at for row in await ledger.flows.fires.latest(one.id, 9)] == [AT + 2 * HOUR_US, AT + HOUR_US]


async def test_rules_skip_fires_drop_what_waits_and_cancel_what_runs(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        of = await applied(ledger, now=AT)
        await ledger.flows.fires.record([found(of, 1, 2, until=2)])
        running, waiting = await ledger.flows.live()
        await ledger.flows.start([running.id])
        of = await applied(ledger, now=AT + 2 * HOUR_US)
        ruled = Ruled({AT + 3 * HOUR_US: "full"}, {waiting.id: "newer"}, {running.id: "newer"})
        await ledger.flows.fires.record([found(of, 3, 4, until=4, ruled=ruled)])

        rows = await ledger.flows.fires.latest(of.id, 9)
        assert [(row.skipped, row.state) for row in rows] == [
            (None, "waiting"),
            ("full", None),
            (None, "cancelled"),
            (None, "running"),
        ]
        [first, last] = await ledger.flows.live()
        assert (first.is_cancelled, first.why, last.is_cancelled) == (True, "newer", False)


async def test_a_flow_that_somebody_asked_for_is_the_flow_of_its_fire(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        of = await applied(ledger, now=AT)
        await ledger.flows.add(of.id, of.name, of.definition, [AT + HOUR_US], FlowKind.TRIGGERED)
        await ledger.flows.fires.record([found(of, 1, until=1)])
        [flow] = await ledger.flows.live()
        assert flow.kind is FlowKind.TRIGGERED
        [row] = await ledger.flows.fires.latest(of.id, 9)
        assert row.flow == flow.name


async def test_gaps_that_touch_are_one_stretch(open_file: OpenLedger) -> None:
    def gap(after: int, until: int, kind: GapKind = GapKind.MISSED) -> tuple[Gap]:
        return (Gap(kind, AT + after * HOUR_US, AT + until * HOUR_US, AT + (after + 1) * HOUR_US, until - after),)

    async with open_file() as ledger:
        of = await applied(ledger, now=AT)
        for after, until, kind in (
            (0, 3, GapKind.MISSED),
            (3, 5, GapKind.MISSED),
            (5, 6, GapKind.PAUSED),
            (7, 8, GapKind.PAUSED),
        ):
            await ledger.flows.fires.record([found(of, until=until, gaps=gap(after, until, kind))])
            latest = await ledger.flows.pipelines.named("p")
            assert latest is not None
            of = latest
        rows = await ledger.flows.fires.gaps(of.id, 9)
        assert [(row.kind, row.n) for row in rows] == [("paused", 1), ("paused", 1), ("missed", 5)]
        missed = await ledger.overviews.flows.missed(AT - 1)
        assert {pipeline: each.number for pipeline, each in missed.items()} == {of.id: 5}
        assert await ledger.overviews.flows.missed(ledger.now()) == {}


async def test_a_pause_holds_for_whoever_looks_later_and_ends_with_a_gap_or_without(open_file: OpenLedger) -> None:
    left_out = Gap(GapKind.PAUSED, AT + HOUR_US, AT + 3 * HOUR_US, AT + 2 * HOUR_US, 2)
    async with open_file() as ledger:
        of = await applied(ledger, now=AT)
        assert await ledger.flows.pipelines.pause(of, now=AT + HOUR_US, until=None, note="stocktaking")
        assert not await ledger.flows.pipelines.pause(of, now=AT + HOUR_US, until=None, note="again")
        paused = await ledger.flows.pipelines.named("p")
        assert paused is not None
        assert (paused.watermark, paused.note) == (Watermark(AT + HOUR_US, AT + HOUR_US), "stocktaking")
        assert await ledger.flows.fires.record([found(of, 1, until=1)]) == frozenset()

        now = AT + 3 * HOUR_US
        assert await ledger.flows.pipelines.proceed(paused, now=now, gap=left_out, catch_up=False)
        assert not await ledger.flows.pipelines.proceed(paused, now=now, gap=left_out, catch_up=False)
        assert [row.n for row in await ledger.flows.fires.gaps(of.id, 9)] == [2]
        again = await ledger.flows.pipelines.named("p")
        assert again is not None
        assert (again.watermark, again.note) == (Watermark(now), "")

        await ledger.flows.pipelines.pause(again, now=now, until=now + HOUR_US, note="")
        paused = await ledger.flows.pipelines.named("p")
        assert paused is not None
        assert await ledger.flows.pipelines.proceed(paused, now=now + 5, gap=None, catch_up=True)
        again = await ledger.flows.pipelines.named("p")
        assert again is not None
        assert again.watermark == Watermark(now)


async def test_a_look_after_the_end_of_a_pause_lifts_it(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        of = await applied(ledger, now=AT)
        await ledger.flows.pipelines.pause(of, now=AT, until=AT + HOUR_US, note="x")
        paused = await ledger.flows.pipelines.named("p")
        assert paused is not None
        assert await ledger.flows.fires.record([found(paused, 2, until=2)])
        lifted = await ledger.flows.pipelines.named("p")
        assert lifted is not None
        assert (lifted.watermark, lifted.note) == (Watermark(AT + 2 * HOUR_US), "")


async def test_the_same_time_is_the_same_flow_unless_it_is_wanted_again(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        of = await applied(ledger, now=AT)
        wanted = (of.id, of.name, of.definition, [AT, AT + HOUR_US], FlowKind.BACKFILL)
        assert len(await ledger.flows.add(*wanted, made_up=MadeUp(parallel=3))) == 2
        assert await ledger.flows.add(*wanted) == []
        assert await ledger.flows.add(*wanted, made_up=MadeUp(again=True)) == [
            "p@20260101T000000Z~2",
            "p@20260101T010000Z~2",
        ]
        assert [flow.parallel for flow in await ledger.flows.live()] == [3, 1, 3, 1]
        latest = [flow.name for flow in await ledger.flows.latest(None)]
        assert latest == [f"p@20260101T0{hour}0000Z{again}" for hour in (1, 0) for again in ("~2", "")]
        assert sorted(await ledger.flows.names()) == sorted(latest)
        found = await ledger.flows.of_fire(of.id, AT)
        assert found is not None
        assert (found.name, await ledger.flows.of_fire(of.id, AT + 5)) == ("p@20260101T000000Z", None)
        assert await ledger.flows.fires.with_flow(of.id, [AT, AT + HOUR_US, AT + 5]) == 2
        assert len(await ledger.flows.latest(3, pipeline=of.id, states=[FlowState.WAITING])) == 3
        assert await ledger.flows.latest(3, states=[FlowState.FAILED]) == []


@pytest.mark.parametrize("event", FlowEvent)
async def test_an_event_happens_in_the_states_of_the_table_and_in_no_other(
    event: FlowEvent, open_file: OpenLedger
) -> None:
    async with open_file() as ledger:
        for state in FlowState:
            flow = await a_flow(ledger, state=state)
            assert await ledger.flows.step(flow.id, event, "because") == (state in before(event))
            now = await ledger.flows.named(flow.name)
            assert now is not None
            assert (now.ended_at is not None) == (now.state in ENDED)


async def test_stages_belong_to_their_flow_and_its_wishes_are_theirs(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        flow = await a_flow(ledger, state=FlowState.RUNNING)
        run = await a_run(ledger, name=f"{flow.name}/caption")
        for sha256 in ("old", "new"):
            await ledger.flows.begin_stage(flow.id, "caption", run=run.id, source="/in", sha256=sha256)
        [row] = await ledger.flows.stages([flow.id])
        assert (row.stage, row.run, row.sha256, row.again) == ("caption", run.id, "new", 1)

        assert await ledger.flows.pause(flow.id, "looked at")
        assert (await ledger.runs.controls(run.id)).pause
        assert not await ledger.flows.pause(flow.id, "twice")
        assert await ledger.flows.proceed(flow.id)
        assert not (await ledger.runs.controls(run.id)).pause
        assert not await ledger.flows.proceed(flow.id)
        [now] = await ledger.flows.live()
        assert now.is_overruled

        assert await ledger.flows.cancel(flow.id, "enough")
        assert (await ledger.runs.controls(run.id)).cancel
        [now] = await ledger.flows.live()
        assert (now.is_cancelled, now.why) == (True, "enough")
        await ledger.flows.end(flow.id, FlowEvent.CANCELLED, "enough")
        assert not await ledger.flows.cancel(flow.id, "twice")


async def test_a_brake_holds_a_flow_without_pausing_it_and_lets_it_go_on(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        flow = await a_flow(ledger, state=FlowState.RUNNING)
        run = await a_run(ledger, name=f"{flow.name}/caption")
        await ledger.flows.begin_stage(flow.id, "caption", run=run.id, source="/in", sha256="x")

        async def stands() -> tuple[str, bool, str, bool]:
            [now] = await ledger.flows.live()
            return now.state, now.is_braked, now.why, (await ledger.runs.controls(run.id)).pause

        assert not await ledger.flows.release(flow.id)
        assert await ledger.flows.brake(flow.id, "spent")
        assert not await ledger.flows.brake(flow.id, "all spent"), "it is told once"
        assert await stands() == ("held", True, "all spent", False)
        assert await ledger.flows.release(flow.id)
        assert await stands() == ("running", False, "", False)

        assert await ledger.flows.brake(flow.id, "spent")
        assert await ledger.flows.pause(flow.id, "looked at")
        assert await stands() == ("held", False, "looked at", True)
        assert not await ledger.flows.brake(flow.id, "spent")
        assert not await ledger.flows.release(flow.id), "people hold it"
        assert await stands() == ("held", False, "looked at", True)
        assert await ledger.flows.proceed(flow.id)
        assert await ledger.flows.brake(flow.id, "spent")
        assert await ledger.flows.proceed(flow.id)
        assert await stands() == ("running", False, "", False)
        assert run.id in await ledger.jobs.brakes.continued(), "people go past the brakes of its runs"
        assert [each.news for each in await ledger.flows.outbox.of_flow(flow.id)] == []


async def test_a_flow_that_waits_is_cancelled_at_once_and_one_that_is_replaced_with_its_runs(
    open_file: OpenLedger,
) -> None:
    async with open_file() as ledger:
        waiting = await a_flow(ledger)
        assert await ledger.flows.cancel(waiting.id, "enough")
        assert await state_of(ledger, waiting.name) is FlowState.CANCELLED
        running = await a_flow(ledger, state=FlowState.RUNNING)
        run = await a_run(ledger)
        await ledger.flows.begin_stage(running.id, "caption", run=run.id, source="/in", sha256="")
        await ledger.flows.cancel_runs(running.id)
        assert (await ledger.runs.controls(run.id)).cancel


async def test_that_a_flow_is_late_is_told_once(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        flow = await a_flow(ledger)
        assert [await ledger.flows.tell_late(flow.id, "why") for _ in range(2)] == [True, False]


async def test_that_flows_of_one_backfill_are_late_is_told_once_and_of_each_backfill(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        of = await applied(ledger, a_pipeline(), now=AT)
        told = []
        for first in (0, 10):
            await anyio.sleep(1)
            fires = [AT - (first + number) * HOUR_US for number in range(3)]
            for name in await ledger.flows.add(
                of.id, of.name, of.definition, fires, FlowKind.BACKFILL, made_up=MadeUp(parallel=3)
            ):
                flow = await ledger.flows.named(name)
                assert flow is not None
                told.append(await ledger.flows.tell_late(flow.id, "why"))
        assert told == [True, False, False] * 2


async def test_failed_flows_in_a_row_pause_the_schedule_and_those_before_it_was_continued_are_forgiven(
    open_file: OpenLedger,
) -> None:
    async def ends(*events: FlowEvent) -> list[bool]:
        paused = []
        for event in events:
            hour[0] += 1
            [name] = await ledger.flows.add(of.id, of.name, of.definition, [AT + hour[0] * HOUR_US], FlowKind.SCHEDULED)
            flow = await ledger.flows.named(name)
            assert flow is not None
            await ledger.flows.start([flow.id])
            paused.append(await ledger.flows.end(flow.id, event, "why", pause_after=2))
        return paused

    hour = [0]
    failed = FlowEvent.FAILED
    async with open_file() as ledger:
        of = await applied(ledger, now=AT)
        assert await ends(failed, FlowEvent.PARTIAL, failed, FlowEvent.CANCELLED, failed) == [False] * 4 + [True]
        paused = await ledger.flows.pipelines.named("p")
        assert paused is not None
        assert paused.note == "2 failed flows in a row"
        await anyio.sleep(1)
        await ledger.flows.pipelines.proceed(paused, now=ledger.now(), gap=None, catch_up=True)
        await anyio.sleep(1)
        assert await ends(failed, failed) == [False, True]


async def test_what_no_program_may_write_the_file_refuses(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        of = await applied(ledger, a_pipeline("p", Schedule(every_us=HOUR_US)), now=AT)
        with pytest.raises(IntegrityError):
            await ledger.flows.fires.record([found(of, until=1, gaps=(Gap(GapKind.MISSED, AT, AT, AT, 1),))])
        with pytest.raises(IntegrityError):
            await ledger.flows.fires.record([found(of, 1, 1, until=1)])
