"""What the keeper's engine does for runs that other engines serve: it begins the stages of flows, hands rows over and
follows, and tells people.
"""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import anyio.lowlevel
import pytest
from msgspec.structs import replace

from orchestrator.api.flows.flow_files import LocalFiles
from orchestrator.core.gates.brake_gates import MaxFailures
from orchestrator.core.gates.failure_breaker import OFF
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.pipelines.flow_lifecycle import FlowKind, FlowState
from orchestrator.core.pipelines.pipeline import INPUT, Pipeline, Stage
from orchestrator.engine.engine import engine_in
from orchestrator.engine.flows.scheduler import Firing, Scheduler
from orchestrator.engine.flows.stage_executor import ServedStage, StageExecutor
from orchestrator.engine.flows.stage_runs import StageRuns
from orchestrator.engine.observers.run_elsewhere import RunElsewhere
from orchestrator.engine.runtime.scope import Scope
from orchestrator.ledger import IntakeRight, Ledger
from orchestrator.ledger.flows.flow_rows import Flow
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.run_settings import RunSettings
from tests.api.flows.test_notifications import Receiver
from tests.engine.several import JOBS, ONE, OTHER, PATIENCE_S, Workplace, another, workplace
from tests.ledger.ledgers import CutOff
from tests.ledger.pipelines import applied
from tests.simulation.world import URL

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

ROWS = 12


@asynccontextmanager
async def keeping(w: Workplace) -> AsyncIterator[Scheduler]:
    """The keeper's engine, which has no endpoint."""
    async with engine_in(w.process, Scope((), is_keeper=True)) as engine, engine.working():
        await engine.collect()
        await engine.keep_up()
        yield await engine.carry_out_flows(files_in(w), Firing.ASKED)


def files_in(w: Workplace) -> LocalFiles:
    """The files of flows there."""
    return LocalFiles(
        ledger=w.ledger,
        connection=ConnectionSettings(serverless_url=URL, api_key="key"),
        dependencies=w.process.dependencies,
        console=w.heard,
        webhook_bytes=lambda: 0,
        scrub=bytes,
    )


async def flow_wanted(ledger: Ledger, folder: Path) -> tuple[Flow, Pipeline]:
    """A flow of two stages that has not begun."""
    (folder / "in.jsonl").write_text("".join(f"{json.dumps({'input': {'n': n}})}\n" for n in range(ROWS)))
    stages = (
        Stage(name="first", from_=(INPUT,), settings={"endpoint": (ONE,)}),
        Stage(name="second", from_=("first",), settings={"endpoint": (OTHER,), "output": ("out-{flow}.jsonl",)}),
    )
    pipeline = Pipeline(name="p", folder=str(folder), input="in.jsonl", stages=stages)
    of = await applied(ledger, pipeline, now=ledger.now())
    [name] = await ledger.flows.add(of.id, of.name, of.definition, [ledger.now()], FlowKind.TRIGGERED)
    flow = await ledger.flows.named(name)
    assert flow is not None
    return flow, pipeline


async def flow_begun(ledger: Ledger, folder: Path, scheduler: Scheduler) -> tuple[str, Run, Run]:
    """A flow of two stages, and their runs."""
    flow, _ = await flow_wanted(ledger, folder)
    name = flow.name
    scheduler.on_change()
    with anyio.fail_after(60):
        while (second := await ledger.runs.named(f"{name}/second")) is None or not second.accepted:  # noqa: ASYNC110  no engine is asked
            await anyio.sleep(0.1)
    first = await ledger.runs.named(f"{name}/first")
    assert first is not None
    return name, first, second


async def until_ended(ledger: Ledger, name: str) -> FlowState:
    with anyio.fail_after(PATIENCE_S):
        while True:
            flow = await ledger.flows.named(name)
            assert flow is not None
            if flow.ended_at is not None:
                return flow.state
            await anyio.sleep(0.5)


@pytest.mark.parametrize("is_elsewhere", [False, True], ids=["same process", "another process"])
async def test_a_flow_goes_through_stages_that_other_engines_serve(tmp_path: Path, is_elsewhere: bool) -> None:
    path = tmp_path / "l.db"
    async with workplace(path) as w, keeping(w) as scheduler:
        name, first, second = await flow_begun(w.ledger, tmp_path, scheduler)
        await anyio.sleep(5)
        assert await w.count(first, State.QUEUED) == ROWS, "the keeper sends nothing that is not its own"
        beside = another(path, w.service, w.clock) if is_elsewhere else nullcontext(w)
        async with beside as there, there.at_work(first), there.at_work(second) as engine:
            assert await until_ended(w.ledger, name) is FlowState.SUCCEEDED
            assert engine.runs.sessions[second.id].progress.counts["succeeded"] == ROWS
            assert engine.runs.sessions[second.id].progress.total == ROWS
        assert await w.count(second, State.SUCCEEDED) == ROWS == w.service.paid // 2
        assert len((tmp_path / f"out-{name}.jsonl").read_text().splitlines()) == ROWS
        assert w.heard.warnings == []


async def test_a_stage_that_is_begun_stays_where_another_process_clears_what_dead_ones_have_left(
    tmp_path: Path,
) -> None:
    async with workplace(tmp_path / "l.db") as w:
        flow, pipeline = await flow_wanted(w.ledger, tmp_path)
        first, second = pipeline.stages
        files, hold = files_in(w), w.process.dependencies.holding_intakes(w.ledger.address)
        before = {first.name: await files.begin(flow, pipeline, first)}
        begun: list[Run] = []

        async def begin() -> None:
            begun.append(await files.follow(flow, pipeline, second, before))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(begin)
            while not begun:
                await w.ledger.runs.intakes.clear_dead(hold)
                await anyio.lowlevel.checkpoint()
        assert [run.id for run in await w.ledger.runs.all([begun[0].id])] == [begun[0].id]


class Watched(IntakeRight):
    """A right of which it is known whether it is kept just now."""

    is_kept = False

    async def keep(self) -> None:
        self.is_kept = True
        try:
            await anyio.sleep_forever()
        finally:
            self.is_kept = False


async def test_a_stage_of_which_another_process_has_cleared_what_was_read_is_read_again(
    tmp_path: Path,
) -> None:
    async def clear() -> None:
        seen.append(any(right.is_kept for right in rights))
        await w.ledger.runs.intakes.clear(f"{flow.name}/first")

    rights = [Watched() for _ in range(2)]
    held, seen = iter(rights), list[bool]()
    async with workplace(tmp_path / "l.db") as w:
        flow, pipeline = await flow_wanted(w.ledger, tmp_path)
        files = files_in(w)
        given = replace(w.process.dependencies, intake_lock=lambda _ledger, _run, *, now: nullcontext(next(held)))
        files.dependencies = given
        w.ledger.runs.intakes.pace = CutOff(1, clear)
        run = await files.begin(flow, pipeline, pipeline.stages[0])
        assert await w.ledger.runs.counts(run.id) == {"queued": ROWS}
        assert seen == [True], "its right was kept while it was read"
        assert not any(right.is_kept for right in rights)
        assert [each for each in w.heard.lines if "it is read again" in each] == [
            f"another process has taken over what was read of {flow.name}/first: it is read again"
        ]


async def test_the_keeper_tells_of_runs_what_the_engines_have_found_that_serve_them(tmp_path: Path) -> None:
    path, receiver = tmp_path / "l.db", Receiver()
    async with workplace(path, receiver=receiver) as w, keeping(w):
        w.service.broken.add(OTHER)
        told = RunSettings(breaker=OFF, notify="env:HOOK", max_attempts=1)
        good = await w.a_run(ONE, told)
        bad = await w.a_run(OTHER, replace(told, max_failures=MaxFailures(rows=0), queue_depth=1))
        async with another(path, w.service, w.clock) as there, there.at_work(good), w.at_work(bad):
            await w.until(good, State.SUCCEEDED, JOBS)
            await anyio.sleep(10)
        news = {(body["type"], body["data"]["run"]) for body in receiver.bodies}
    assert news == {("run.held", bad.name), ("run.done", good.name)}
    assert len(receiver.bodies) == 2, "each is told once, and no engine that leaves calls its runs interrupted"


@dataclass(kw_only=True, eq=False)
class NotLookedAt(StageRuns):
    """Of which all stages are served by `session`, which knows what it has looked at."""

    session: RunElsewhere

    async def served(self, _run: Run) -> RunElsewhere:
        return self.session

    def of(self, _run: int) -> RunElsewhere:
        return self.session


async def test_a_stage_whose_rows_came_before_they_were_looked_at_is_not_over(tmp_path: Path) -> None:
    async with workplace(tmp_path / "l.db") as w, keeping(w) as scheduler, anyio.create_task_group() as tasks:
        run = await w.a_run(ONE)
        session = RunElsewhere(w.ledger, run)
        runs = NotLookedAt(host=scheduler.runs.host, wake_others=lambda: None, session=session)

        def stage(name: str, *sources: ServedStage) -> ServedStage:
            of, relay = Stage(name=name, from_=(INPUT,), settings={}), scheduler.relay
            return ServedStage(
                stage=of, run=run, sources=sources, ledger=w.ledger, relay=relay, changed=lambda: None, runs=runs
            )

        async def look(_: StageExecutor) -> None:
            """Nothing is looked after."""

        first = stage("first")
        first.session, first.is_over = session, True
        second = stage("second", first)
        tasks.start_soon(second.until_over, look)
        await anyio.sleep(1)
        assert not second.is_over
        await session.look()
        async with w.at_work(run):
            await w.until(run, State.SUCCEEDED, JOBS)
        assert not second.is_over
        await session.look()
        await anyio.sleep(1)
        assert second.is_over
