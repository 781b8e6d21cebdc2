"""Flows of which a brake stops a run: they are held, people are told once, and what goes on by itself goes on."""

from pathlib import Path

import anyio
import msgspec
import pytest

from orchestrator.api.flows.flows import status_of
from orchestrator.api.flows.schedules import schedules_check
from orchestrator.core.pipelines.pipeline import News, Notify, Pipeline
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.ledger.commands.command_types import Action
from tests.api.inspect.test_flows import FIRST, failing_for
from tests.engine.flowing import Flowing, a_pipeline, accepting, flowing
from tests.engine.scripted import Asked, Reply, Scripted, says
from tests.ledger.ledgers import obeyed
from tests.ledger.pipelines import applied, every
from tests.simulation.clock import VirtualClock
from tests.simulation.database import async_creator

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

HELD_NOTIFY = Notify(on=(News.ON_HOLD,), url="http://receiver/held")


def braked(folder: Path, rows: int, **settings: str) -> Pipeline:
    """A pipeline of one stage that reads so many rows, with these brakes."""
    pipeline = a_pipeline(folder, every(0.1))
    [stage] = pipeline.stages
    more = {name.replace("_", "-"): (text,) for name, text in settings.items()}
    stage = msgspec.structs.replace(stage, settings={**stage.settings, **more})
    (folder / "in.jsonl").write_text("".join(f'{{"input": {{"n": {n}}}}}\n' for n in range(rows)))
    return msgspec.structs.replace(pipeline, stages=(stage,))


async def begun(p: Flowing, pipeline: Pipeline) -> None:
    await applied(p.ledger, pipeline, now=p.ledger.now())
    p.scheduler.on_change()
    await anyio.sleep(370)


async def continued(p: Flowing) -> None:
    assert await p.ledger.flows.proceed((await p.flow(FIRST)).id)
    p.engine.host.control.on_change()
    p.scheduler.on_change()


async def told_of(p: Flowing) -> list[str]:
    return [each.news for each in await p.ledger.flows.outbox.of_flow((await p.flow(FIRST)).id)]


@pytest.mark.slow
async def test_a_breaker_that_opens_holds_the_flow_is_told_once_and_lets_it_go_on_by_itself(tmp_path: Path) -> None:
    clock = VirtualClock()
    async with flowing(tmp_path, clock=clock, transport=failing_for(set(range(1, 25)))) as p:
        await begun(p, msgspec.structs.replace(braked(tmp_path, 100), notify=HELD_NOTIFY))
        flow = await p.flow(FIRST)
        assert (flow.state, flow.is_braked) == ("held", True)
        assert "the first 20 executions failed" in flow.why
        assert await told_of(p) == ["held"]
        looking = Dependencies(clock=clock, connect=async_creator)
        [trouble] = await schedules_check(tmp_path / "l.db", dependencies=looking)
        assert trouble.kind == "failing"
        assert "is held: the first 20 executions failed" in trouble.text
        await anyio.sleep(5 * 60 + 30)  # the fifth single job succeeds
        flow = await p.flow(FIRST)
        assert (flow.state, flow.why) == ("partial", "24 jobs of 100 without a result")
        assert await told_of(p) == ["held"]
        assert sum("is held" in line for line in p.warnings) == 1


@pytest.mark.parametrize(
    ("rows", "brakes", "seconds", "why"),
    [
        (50, {}, 360, "and 5 single jobs since: the breaker has tripped"),
        (5, {"breaker": "5:50%/9", "max_attempts": "3"}, 60, "of 5 jobs that are left"),
        (30, {"breaker": "off", "canary": "5"}, 30, "the canary failed"),
        (30, {"breaker": "off", "stop_after_failures": "10", "queue_depth": "12"}, 60, "10 executions in a row failed"),
        (30, {"breaker": "off", "budget": "0.05", "price_per_second": "1"}, 30, "reach the budget of 0.05"),
    ],
)
async def test_whatever_brake_stops_a_run_holds_its_flow_until_people_go_on(
    tmp_path: Path, rows: int, brakes: dict[str, str], seconds: float, why: str
) -> None:
    async with flowing(tmp_path, transport=failing_for(set(range(1, 10_000)))) as p:
        await begun(p, msgspec.structs.replace(braked(tmp_path, rows, **brakes), notify=HELD_NOTIFY))
        await anyio.sleep(seconds)
        flow = await p.flow(FIRST)
        assert (flow.state, flow.is_braked) == ("held", True), flow.why
        assert why in flow.why
        shown = status_of(flow, Path("my b.db")).why
        assert shown.count(" --ledger 'my b.db'") == flow.why.count("orchestrator ")
        assert "orchestrator " in flow.why or "in a row" in flow.why
        assert await told_of(p) == ["held"]
        assert [work.flow.name for work in p.scheduler.stuck] == [FIRST]
        assert await p.ledger.flows.pause(flow.id, "looked at")
        flow = await p.flow(FIRST)
        assert (flow.state, flow.is_braked, flow.why) == ("held", False, "looked at")
        assert await told_of(p) == ["held"]


async def test_a_flow_goes_on_once_the_brake_lets_its_run_go_on(tmp_path: Path) -> None:
    def status(asked: Asked) -> Reply:
        state = "FAILED" if int(asked.remote_id.rpartition("-")[2]) <= 4 else "IN_PROGRESS"
        return says(state, asked.remote_id)

    async with flowing(tmp_path, transport=Scripted(run=accepting(), status=status)) as p:
        await begun(p, braked(tmp_path, 30, breaker="off", canary="4"))
        assert (await p.flow(FIRST)).is_braked
        run = await p.ledger.runs.named(f"{FIRST}/caption")
        assert run is not None
        await obeyed(p.ledger, Action.CONTINUE, run=run.id)
        p.engine.host.control.on_change()
        await anyio.sleep(30)
        flow = await p.flow(FIRST)
        assert (flow.state, flow.is_braked, flow.why) == ("running", False, "")


async def test_to_continue_a_flow_goes_past_the_brakes_of_its_runs(tmp_path: Path) -> None:
    async with flowing(tmp_path, transport=failing_for(set(range(1, 5)))) as p:
        await begun(p, braked(tmp_path, 30, breaker="off", canary="4"))
        assert (await p.flow(FIRST)).is_braked
        await continued(p)
        await anyio.sleep(60)
        flow = await p.flow(FIRST)
        assert (flow.state, flow.why) == ("partial", "4 jobs of 30 without a result")
        assert not flow.is_overruled, "of that nobody was asked"
