"""Rows of old flows: they go once nobody keeps them any more, in short transactions; what was written stays."""

import shutil
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from orchestrator.api.flows.flows import flow_show, flows_list
from orchestrator.api.outcomes.audit import Findings, audit_ledger
from orchestrator.core.jobs.transitions import reopened
from orchestrator.core.pipelines.flow_lifecycle import FlowKind
from orchestrator.core.pipelines.pipeline import News, Pipeline
from orchestrator.engine.flows.flow_retention import FlowRetention
from orchestrator.engine.flows.stage_runs import StageRuns
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.ledger import IntakeRight
from orchestrator.ledger.runs.intake_pace import ROWS_FIRST
from orchestrator.units import HOUR_US
from tests.api.flows.test_notifications import ENVIRON, failing, telling
from tests.api.flows.test_stages import Killing
from tests.api.outcomes.test_reuse import answering, reusing
from tests.engine.flowing import Flowing, flowing
from tests.ledger.ledgers import dump
from tests.ledger.pipelines import applied
from tests.simulation.clock import EPOCH_AT, VirtualClock
from tests.simulation.database import async_creator
from tests.simulation.run import run, run_until_crash

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

READING = Dependencies(connect=async_creator)
FIRST, SECOND = "p@20260101T000000Z", "p@20260101T010000Z"
OF_ROWS = ("jobs", "payloads", "outcomes", "lineage", "handovers", "owed", "relays", "reusable", "reused", "outbox")


def kept(folder: Path, keep_h: int | None = 10) -> Pipeline:
    """Two stages, results taken again, and somebody who is told."""
    pipeline = telling(reusing(folder), News.DONE, News.PARTIAL)
    [caption] = pipeline.stages
    embed = replace(caption, name="embed", from_=("caption",), settings={**caption.settings, "output": ("e-{flow}",)})
    keep_us = None if keep_h is None else keep_h * HOUR_US
    return replace(pipeline, stages=(caption, embed), keep_us=keep_us)


async def flowed(p: Flowing, pipeline: Pipeline, hour: int) -> None:
    known = await p.ledger.flows.pipelines.named("p")
    of = known if known and known.pipeline == pipeline else await applied(p.ledger, pipeline, now=p.ledger.now())
    await p.ledger.flows.add(of.id, "p", of.definition, [EPOCH_AT + hour * HOUR_US], FlowKind.TRIGGERED)
    p.scheduler.on_change()
    await p.idle()
    await p.scheduler.notifier.until_idle()


async def faults(p: Flowing) -> list[object]:
    findings = Findings()
    await audit_ledger(p.ledger, findings, lambda *_: None)
    return list(findings.all())


async def test_rows_go_once_they_are_not_kept_any_more_and_files_and_flows_stay(tmp_path: Path) -> None:
    clock, transport, path = VirtualClock(), answering(), tmp_path / "l.db"
    async with flowing(tmp_path, transport=transport, clock=clock, environ=ENVIRON) as p:
        await flowed(p, kept(tmp_path), 0)
    files = written(tmp_path)
    assert len(files) == 4
    clock.jump(9 * HOUR_US)
    async with flowing(tmp_path, transport=transport, clock=clock, environ=ENVIRON) as p:
        await flowed(p, kept(tmp_path), 1)
        await anyio.sleep(5)
        assert len(dump(path)["jobs"]) == 8
        clock.jump(HOUR_US)
    async with flowing(tmp_path, transport=transport, clock=clock, environ=ENVIRON) as p:
        await anyio.sleep(5)
        assert [run.name for run in await p.ledger.runs.all()] == [f"{SECOND}/caption", f"{SECOND}/embed"]
        rows = dump(path)
        assert [len(rows[table]) for table in ("jobs", "outcomes", "reused", "outbox")] == [4, 4, 4, 1]
        assert rows["reusable"] == [], "what was sent is gone; the others have its results"
        assert {row[1] for row in rows["reused"]} == {f"{FIRST}/caption", f"{FIRST}/embed"}
        assert await faults(p) == []
        flows = await flows_list(path, dependencies=READING)
        assert [(flow.name, flow.state) for flow in flows] == [(SECOND, "succeeded"), (FIRST, "succeeded")]
        shown = await flow_show(path, FIRST, READING)
        assert [(stage.stage, stage.run) for stage in shown.stages] == [("caption", None), ("embed", None)]
    assert len(transport.of("run")) == 4
    assert files.items() <= written(tmp_path).items()


def written(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.glob("*-p@*")}


async def test_what_is_not_to_go_stays(tmp_path: Path) -> None:
    """Without a limit, of flows that have not ended, and of those of which somebody has something done again."""
    clock, path = VirtualClock(), tmp_path / "l.db"
    async with flowing(tmp_path, transport=failing(1), clock=clock, environ=ENVIRON) as p:
        await flowed(p, kept(tmp_path, None), 0)
        clock.jump(1_000 * HOUR_US)
        outlived = FlowRetention(
            ledger=p.ledger,
            runs=StageRuns(host=p.engine.host, wake_others=lambda: None),
            hold=lambda _: nullcontext(IntakeRight()),
        )
        await outlived.run_once()
        assert len(dump(path)["jobs"]) == 3
        caption = await p.ledger.runs.named(f"{FIRST}/caption")
        assert caption is not None
        jobs = await p.ledger.jobs.of([1, 2])
        failed = next(job for job in jobs.values() if job.state == "failed")
        session = p.engine.runs.sessions[caption.id]
        await session.hold_back()
        assert await p.ledger.writer.step(reopened(failed, at=p.ledger.now()))
        await applied(p.ledger, kept(tmp_path), now=p.ledger.now())
        await outlived.run_once()
        assert not await p.ledger.flows.outlived_runs.give_up(caption.id, p.ledger.now()), (
            "nor by who had seen it before"
        )
        left = {row.name for row in await p.ledger.runs.all()}
        assert left == {f"{FIRST}/caption", f"{FIRST}/embed"}, "a job of it waits again, and with that the flow goes on"


async def test_nothing_of_it_is_done_in_long_transactions(tmp_path: Path) -> None:
    async with flowing(tmp_path) as p:
        assert p.ledger.runs.removals.pace.rows == ROWS_FIRST
        assert p.ledger.runs.intakes.pace is not p.ledger.runs.removals.pace


@pytest.mark.slow
def test_killed_at_a_commit_the_next_process_removes_the_rest(tmp_path: Path) -> None:
    """At every fourth commit of the removal."""
    killing = Killing()

    async def first(world: Path, clock: VirtualClock) -> None:
        async with flowing(world, transport=answering(), clock=clock, environ=ENVIRON) as p:
            await flowed(p, kept(world), 0)

    async def removal(world: Path, clock: VirtualClock) -> None:
        async with flowing(world, transport=answering(), clock=clock, environ=ENVIRON, commits=killing) as p:
            await anyio.sleep(5)
            assert await p.ledger.runs.all() == []
            rows = dump(world / "l.db")
            assert {table: rows[table] for table in OF_ROWS if rows[table]} == {}
            assert await faults(p) == []
            assert await p.states() == {FIRST: "succeeded"}

    made = tmp_path / "made"
    made.mkdir()
    run(partial(first, made, VirtualClock()))
    for deaths, commit in enumerate(range(1, 1_000, 4)):
        world, clock = tmp_path / str(commit), VirtualClock()
        shutil.copytree(made, world)
        clock.jump(20 * HOUR_US)
        killing.arm(commit, after=deaths % 2 == 0)
        crashed_at_s = run_until_crash(partial(removal, world, clock), start_s=100.0)
        killing.arm(0, after=False)
        if crashed_at_s is None:
            assert deaths > 2
            return
        run(partial(removal, world, clock), start_s=crashed_at_s)
    raise AssertionError("it never came to its end")
