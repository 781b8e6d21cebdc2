"""Flows of one stage, from their fire to their results, and what can come between."""

import hashlib
import json
import re
from pathlib import Path

import anyio
import msgspec
import pytest

from orchestrator.api.flows.flows import flow_of_runs
from orchestrator.api.inspect.doctor import doctor
from orchestrator.core.pipelines.flow_lifecycle import FlowKind
from orchestrator.core.pipelines.pipeline import News, Notify, Overlap
from orchestrator.engine.engine import Engine
from orchestrator.engine.flows.scheduler import Firing
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.ledger.commands.command_types import Action, NewName
from orchestrator.ledger.flows.flow_actions import MadeUp
from orchestrator.settings.command_requests import DoctorRequest
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.units import MINUTE_US, SECOND_US, WHOLE
from orchestrator.views.flows import AwaitedInput
from tests.engine.flowing import a_pipeline, accepting, completing, flowing
from tests.engine.scripted import Asked, Reply, Scripted, says
from tests.ledger.ledgers import obeyed
from tests.ledger.pipelines import applied, every
from tests.simulation.clock import EPOCH_AT, VirtualClock
from tests.simulation.database import async_creator

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

FIRST = "p@20260101T000600Z"


async def test_a_fire_becomes_a_run_with_its_results_written_and_its_input_told_by_its_hash(tmp_path: Path) -> None:
    transport = completing()
    async with flowing(tmp_path, transport=transport) as p:
        await applied(p.ledger, a_pipeline(tmp_path, every(0.1)), now=p.ledger.now())
        p.scheduler.on_change()
        await anyio.sleep(350)
        assert await p.states() == {}
        await anyio.sleep(11 + 20)
        assert await p.states() == {FIRST: "succeeded"}

        flow = await p.flow(FIRST)
        assert flow.started_at is not None
        assert flow.started_at - flow.fire_at <= SECOND_US
        run = await p.ledger.runs.named(f"{FIRST}/caption")
        assert run is not None
        [stage] = await p.ledger.flows.stages([flow.id])
        content = (tmp_path / "in.jsonl").read_bytes()
        assert (stage.run, stage.sha256) == (run.id, hashlib.sha256(content).hexdigest())
        assert stage.source == str(tmp_path / "in.jsonl")
        assert run.settings.errors == str(tmp_path / f"out-{FIRST}.jsonl.errors.jsonl")  # so that it may be replaced
    assert len(transport.of("run")) == 2
    lines = (tmp_path / f"out-{FIRST}.jsonl").read_text().splitlines()
    assert [json.loads(line)["output"] for line in lines] == [1, 1]
    assert (tmp_path / f"out-{FIRST}.jsonl.errors.jsonl").read_text() == ""


@pytest.mark.slow
async def test_one_runs_at_a_time_in_the_order_of_fires_and_a_backfill_behind_them(tmp_path: Path) -> None:
    transport = Scripted(run=accepting(), status=lambda asked: says("IN_PROGRESS", asked.remote_id))
    async with flowing(tmp_path, transport=transport) as p:
        of = await applied(p.ledger, a_pipeline(tmp_path, every(0.1)), now=p.ledger.now())
        await p.ledger.flows.add(of.id, "p", of.definition, [EPOCH_AT], FlowKind.BACKFILL)
        p.scheduler.on_change()
        await anyio.sleep(3 * 360 + 60)
        assert list((await p.states()).values()) == ["running", "running", "waiting", "waiting"]
        transport.scripts["status"] = lambda asked: says("COMPLETED", asked.remote_id, output=1)
        await anyio.sleep(250)
        assert list((await p.states()).values()) == ["succeeded"] * 4


@pytest.mark.slow
async def test_a_flow_waits_for_its_input_and_fails_without_it(tmp_path: Path) -> None:
    pipeline = a_pipeline(tmp_path, every(0.5), input_="late.jsonl", wait_for_input_us=10 * MINUTE_US)
    async with flowing(tmp_path) as p:
        await applied(p.ledger, pipeline, now=p.ledger.now())
        p.scheduler.on_change()
        await anyio.sleep(32 * 60)
        assert list((await p.states()).values()) == ["running"]
        [waiting] = await p.ledger.flows.latest(1)
        awaited = AwaitedInput(path=f"{tmp_path}/late.jsonl", until=(waiting.started_at or 0) + 10 * MINUTE_US)
        assert (await flow_of_runs(p.ledger, waiting, [], {})).awaits == awaited
        assert [f"{waiting.name} waits for {tmp_path}/late.jsonl, for 10 min at most"] == [
            line for line in p.lines if "waits" in line
        ]
        (tmp_path / "in.jsonl").rename(tmp_path / "late.jsonl")
        await anyio.sleep(120)
        assert list((await p.states()).values()) == ["succeeded"]
        assert (await flow_of_runs(p.ledger, await p.flow(waiting.name), [], {})).awaits is None
        (tmp_path / "late.jsonl").unlink()
        await anyio.sleep(39 * 60)
        [flow] = await p.ledger.flows.latest(1)
        assert flow.state == "failed"
        assert flow.why == f"{tmp_path}/late.jsonl: the input is not there after 10 min (wait-for-input)"
        assert flow.ended_at is not None
        assert flow.started_at is not None
        assert 0 <= flow.ended_at - flow.started_at - 10 * MINUTE_US <= 6 * SECOND_US
    assert any("has failed" in line for line in p.warnings)


async def test_an_input_that_a_command_prints_and_one_whose_command_fails(tmp_path: Path) -> None:
    script = 'echo "{{\\"input\\": {{\\"n\\": 1, \\"told\\": \\"$ORCHESTRATOR_FIRE $ORCHESTRATOR_PREVIOUS $ORCHESTRATOR_FLOW {flow}\\"}}}}"'
    printing = {"input": None, "input_command": ("sh", "-c", script)}
    failing = {"input": None, "input_command": ("sh", "-c", "echo no data yet >&2; exit 3")}
    transport = completing()
    async with flowing(tmp_path, transport=transport) as p:
        good = msgspec.structs.replace(a_pipeline(tmp_path, every(24)), **printing)
        for pipeline in (good, msgspec.structs.replace(good, name="q", **failing)):
            of = await applied(p.ledger, pipeline, now=p.ledger.now())
            at = EPOCH_AT + 6 * MINUTE_US
            await p.ledger.flows.add(of.id, of.name, of.definition, [at], FlowKind.TRIGGERED)
        p.scheduler.on_change()
        await p.idle()
        states = await p.states()
        assert states == {FIRST: "succeeded", FIRST.replace("p@", "q@"): "failed"}
        failed = await p.flow(FIRST.replace("p@", "q@"))
        assert failed.why == "the input-command sh has ended with exit code 3: no data yet"
    [sent] = transport.of("run")
    told = f"2026-01-01T00:06:00Z 2026-01-01T00:00:00Z {FIRST} {FIRST}"
    assert json.loads(sent.body)["input"]["told"] == told


async def test_rows_that_are_none_fail_the_flow_and_name_the_line(tmp_path: Path) -> None:
    async with flowing(tmp_path) as p:
        await applied(p.ledger, a_pipeline(tmp_path, every(0.1)), now=p.ledger.now())
        (tmp_path / "in.jsonl").write_text('{"input": 1}\nno json\n')
        p.scheduler.on_change()
        await anyio.sleep(400)
        flow = await p.flow(FIRST)
        assert flow.state == "failed"
        assert "in.jsonl: 1 problem; nothing was sent" in flow.why
        assert "line 2" in flow.why
        assert await p.ledger.runs.names() == []


@pytest.mark.parametrize(("failing", "state"), [({1}, "partial"), ({1, 2}, "failed")])
async def test_a_flow_of_which_jobs_failed_is_partial_or_failed(tmp_path: Path, failing: set[int], state: str) -> None:
    async with flowing(tmp_path, transport=failing_for(failing)) as p:
        await applied(p.ledger, a_pipeline(tmp_path, every(0.1)), now=p.ledger.now())
        p.scheduler.on_change()
        await anyio.sleep(360 + 340)
        flow = await p.flow(FIRST)
        assert (flow.state, flow.why) == (state, f"{len(failing)} job{'s' * (len(failing) > 1)} of 2 without a result")


def never_ending() -> Scripted:
    """A service at which jobs go on until they are cancelled."""

    def status(asked: Asked) -> Reply:
        cancelled = {each.remote_id for each in transport.of("cancel")}
        return says("CANCELLED" if asked.remote_id in cancelled else "IN_PROGRESS", asked.remote_id)

    transport = Scripted(run=accepting(), status=status)
    return transport


def failing_for(numbers: set[int]) -> Scripted:
    """A service at which jobs fail, by their numbers."""

    def status(asked: Asked) -> Reply:
        if int(asked.remote_id.rpartition("-")[2]) in numbers:
            return says("FAILED", asked.remote_id, error="no")
        return says("COMPLETED", asked.remote_id, output=1)

    return Scripted(run=accepting(), status=status)


@pytest.mark.slow
async def test_too_many_failed_rows_hold_the_flow_until_a_person_goes_on(tmp_path: Path) -> None:
    pipeline = a_pipeline(tmp_path, every(0.1))
    [stage] = pipeline.stages
    settings = {**stage.settings, "queue-depth": ("25",), "breaker": ("off",)}
    stage = msgspec.structs.replace(stage, max_failed=WHOLE // 10, settings=settings)
    (tmp_path / "in.jsonl").write_text("".join(f'{{"input": {{"n": {n}}}}}\n' for n in range(200)))
    async with flowing(tmp_path, transport=failing_for(set(range(1, 26)))) as p:
        await applied(p.ledger, msgspec.structs.replace(pipeline, stages=(stage,)), now=p.ledger.now())
        p.scheduler.on_change()
        await anyio.sleep(360 + 300)
        flow = await p.flow(FIRST)
        assert flow.state == "held"
        assert re.fullmatch(r"2\d of the first 2\d rows of caption have failed, more than max-failed allows", flow.why)
        assert [work.flow.name for work in p.scheduler.stuck] == [FIRST]
        assert p.scheduler.is_idle
        assert any("is held" in line for line in p.warnings)

        assert await p.ledger.flows.proceed(flow.id)
        p.engine.host.control.on_change()
        p.scheduler.on_change()
        await anyio.sleep(400)
        flow = await p.flow(FIRST)
        assert (flow.state, flow.why) == ("partial", "25 jobs of 200 without a result")


@pytest.mark.slow
async def test_a_paused_flow_sends_nothing_and_a_cancelled_one_ends_with_its_run(tmp_path: Path) -> None:
    transport = never_ending()
    async with flowing(tmp_path, transport=transport) as p:
        await applied(p.ledger, a_pipeline(tmp_path, every(0.1)), now=p.ledger.now())
        p.scheduler.on_change()
        await anyio.sleep(400)
        flow = await p.flow(FIRST)
        assert await p.ledger.flows.pause(flow.id, "looked at")
        p.engine.host.control.on_change()
        p.scheduler.on_change()
        await anyio.sleep(60)
        assert (await p.flow(FIRST)).state == "held"
        assert await p.ledger.flows.cancel(flow.id, "enough")
        p.engine.host.control.on_change()
        p.scheduler.on_change()
        await anyio.sleep(600)
        flow = await p.flow(FIRST)
        assert (flow.state, flow.why) == ("cancelled", "enough")
    assert transport.of("cancel")


async def test_one_that_waits_for_its_input_is_cancelled_at_once(tmp_path: Path) -> None:
    async with flowing(tmp_path) as p:
        pipeline = a_pipeline(tmp_path, every(0.1), input_="never.jsonl", wait_for_input_us=5 * 60 * MINUTE_US)
        await applied(p.ledger, pipeline, now=p.ledger.now())
        p.scheduler.on_change()
        await anyio.sleep(370)
        flow = await p.flow(FIRST)
        assert await p.ledger.flows.cancel(flow.id, "enough")
        p.scheduler.on_change()
        await anyio.sleep(1)
        assert (await p.flow(FIRST)).state == "cancelled"


@pytest.mark.slow
async def test_a_replaced_flow_is_cancelled_and_the_new_one_begins_when_it_has_ended(tmp_path: Path) -> None:
    transport = never_ending()
    async with flowing(tmp_path, transport=transport) as p:
        await applied(p.ledger, a_pipeline(tmp_path, every(0.5, Overlap.REPLACE)), now=p.ledger.now())
        p.scheduler.on_change()
        await anyio.sleep(3_600 - 60)
        assert list((await p.states()).values()) == ["running"]
        await anyio.sleep(120)
        assert list((await p.states()).values()) == ["cancelled", "running"]
        [first, second] = reversed(await p.ledger.flows.latest(2))
        assert first.why == "a newer fire takes its place"
        assert first.ended_at is not None
        assert second.started_at is not None
        assert second.started_at >= first.ended_at


@pytest.mark.slow
async def test_a_late_flow_is_told_once_and_failed_flows_in_a_row_pause_the_schedule(tmp_path: Path) -> None:
    schedule = msgspec.structs.replace(every(0.5), late_after_us=5 * MINUTE_US, pause_after_failures=2)
    async with flowing(tmp_path) as p:
        pipeline = a_pipeline(tmp_path, schedule, input_="never.jsonl", wait_for_input_us=10 * MINUTE_US)
        await applied(p.ledger, pipeline, now=p.ledger.now())
        p.scheduler.on_change()
        await anyio.sleep(4 * 1_800)
        assert list((await p.states()).values()) == ["failed", "failed"]
        late = [line for line in p.warnings if "is late: it has not ended 5 min after its time" in line]
        assert len(late) == 2
        assert any("p is paused after 2 failed flows in a row" in line for line in p.warnings)
        paused = await p.ledger.flows.pipelines.named("p")
        assert paused is not None
        assert paused.note == "2 failed flows in a row"


@pytest.mark.slow
async def test_who_asks_for_past_fires_or_goes_on_with_an_old_flow_is_not_told_at_once_that_they_are_late(
    tmp_path: Path,
) -> None:
    schedule = msgspec.structs.replace(every(0.5), late_after_us=5 * MINUTE_US)
    waiting = Scripted(run=accepting(), status=lambda asked: says("IN_PROGRESS", asked.remote_id))
    async with flowing(tmp_path, transport=waiting, firing=Firing.ASKED) as p:
        of = await applied(p.ledger, a_pipeline(tmp_path, schedule), now=p.ledger.now())
        fires = [EPOCH_AT - number * 10 * MINUTE_US for number in (1, 2, 3)]
        names = await p.ledger.flows.add(
            of.id, "p", of.definition, fires, FlowKind.BACKFILL, made_up=MadeUp(parallel=3)
        )
        p.scheduler.on_change()
        await anyio.sleep(240)
        assert not any("is late" in line for line in p.warnings)
        await anyio.sleep(120)
        late = [line for line in p.warnings if "is late: it has not ended 5 min after its turn came" in line]
        assert len(late) == 1
        assert [(await p.flow(name)).is_late for name in names] == [True] * 3

        waiting.scripts["status"] = lambda asked: says("COMPLETED", asked.remote_id, output=1)
        await p.idle()
        [name] = await p.ledger.flows.add(of.id, "p", of.definition, [EPOCH_AT - 3_600_000_000], FlowKind.TRIGGERED)
        assert name not in names
        p.scheduler.on_change()
        await p.idle()
        await anyio.sleep(3_600)
        waiting.scripts["status"] = lambda asked: says("IN_PROGRESS", asked.remote_id)
        flow = await p.flow(name)
        assert await p.ledger.flows.rerun(flow.id, ["caption"], only_failed=False)
        p.scheduler.on_change()
        await anyio.sleep(240)
        assert not (await p.flow(name)).is_late
        await anyio.sleep(120)
        assert (await p.flow(name)).is_late


@pytest.mark.slow
async def test_a_backfill_that_goes_on_as_it_should_is_never_late_however_many_stand_in_its_line(
    tmp_path: Path,
) -> None:
    schedule = msgspec.structs.replace(every(0.5), late_after_us=5 * MINUTE_US)
    done_after_s = 120
    begun: dict[str, float] = {}

    def status(asked: Asked) -> Reply:
        since = begun.setdefault(asked.remote_id, anyio.current_time())
        if anyio.current_time() - since < done_after_s:
            return says("IN_PROGRESS", asked.remote_id)
        return says("COMPLETED", asked.remote_id, output=1)

    async with flowing(tmp_path, transport=Scripted(run=accepting(), status=status), firing=Firing.ASKED) as p:
        pipeline = msgspec.structs.replace(
            a_pipeline(tmp_path, schedule), notify=Notify(on=(News.LATE,), command=("false",))
        )
        of = await applied(p.ledger, pipeline, now=p.ledger.now())
        fires = [EPOCH_AT - number * 10 * MINUTE_US for number in range(28)]
        await p.ledger.flows.add(of.id, "p", of.definition, fires, FlowKind.BACKFILL)
        p.scheduler.on_change()
        await anyio.sleep(done_after_s * 10)  # the later ones have waited long by now
        states = list((await p.states()).values())
        assert 5 < states.count("succeeded") < 28
        await p.idle()
        assert set((await p.states()).values()) == {"succeeded"}
        assert not any("is late" in line for line in p.warnings)
        assert await p.ledger.flows.outbox.count_owed() == 0


async def test_a_run_that_is_renamed_under_its_flow_is_still_its_run(tmp_path: Path) -> None:
    transport = never_ending()
    async with flowing(tmp_path, transport=transport) as p:
        await applied(p.ledger, a_pipeline(tmp_path, every(0.1)), now=p.ledger.now())
        p.scheduler.on_change()
        await anyio.sleep(400)
        run = await p.ledger.runs.named(f"{FIRST}/caption")
        assert run is not None
        await obeyed(p.ledger, Action.RENAME, run=run.id, argument=NewName("renamed"))
        transport.scripts["status"] = lambda asked: says("COMPLETED", asked.remote_id, output=1)
        await anyio.sleep(600)
        assert (await p.flow(FIRST)).state == "succeeded"


async def test_doctor_advises_what_goes_on_with_a_flow(tmp_path: Path) -> None:
    transport = Scripted(run=accepting(), status=lambda asked: says("IN_PROGRESS", asked.remote_id))
    clock = VirtualClock()
    async with flowing(tmp_path, transport=transport, clock=clock) as p:
        await applied(p.ledger, a_pipeline(tmp_path, every(0.1)), now=p.ledger.now())
        p.scheduler.on_change()
        await anyio.sleep(390)
        p.engine.groups.in_flight.cancel_scope.cancel()
    ledger, around = tmp_path / "l.db", Dependencies(clock=clock, connect=async_creator, environ={})
    found = await doctor(DoctorRequest(ledger=ledger, connection=ConnectionSettings(api_key="")), around)
    assert {each.advice for each in found.findings} == {f"orchestrator tick --ledger {ledger}"}


async def test_who_asks_for_flows_before_a_process_carries_out_any_is_heard(tmp_path: Path) -> None:
    async def asks(engine: Engine) -> None:
        of = await applied(engine.ledger, a_pipeline(tmp_path), now=EPOCH_AT)
        await engine.ledger.flows.add(of.id, "p", of.definition, [EPOCH_AT], FlowKind.TRIGGERED)
        number = await engine.ledger.commands.ask(Action.TICK)
        await engine.commands.run_once()
        assert not (await engine.ledger.commands.one(number)).is_refused

    async with flowing(tmp_path, firing=Firing.HANDED_OVER, before=asks) as p:
        await anyio.sleep(60)
        assert list((await p.states()).values()) == ["succeeded"]
