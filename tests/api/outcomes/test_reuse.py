"""Flows that take results again: what is sent, what is shown of it, and that a crash changes nothing of either."""

import json
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from orchestrator.api.flows.flows import flow_show
from orchestrator.api.flows.lineage import flow_lineage
from orchestrator.api.outcomes.audit import Findings, audit_ledger
from orchestrator.core.jobs.lifecycle import State, replay
from orchestrator.core.jobs.result_reuse import NOTHING_YET
from orchestrator.core.pipelines.flow_lifecycle import FlowKind
from orchestrator.core.pipelines.pipeline import ALL, INPUT, Pipeline
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.units import HOUR_US
from tests.api.flows.test_notifications import failing
from tests.api.flows.test_stages import Killing, service
from tests.engine.flowing import Flowing, a_pipeline, accepting, flowing
from tests.engine.flows.test_gathering import gathering, made
from tests.engine.scripted import Scripted, says
from tests.ledger.pipelines import applied
from tests.simulation.clock import EPOCH_AT, VirtualClock
from tests.simulation.database import async_creator
from tests.simulation.run import run, run_until_crash

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

READING = Dependencies(connect=async_creator)


def reusing(folder: Path, *, version: str = "", rows: int = 2) -> Pipeline:
    """A pipeline that takes results of the last day again."""
    pipeline = a_pipeline(folder)
    (folder / "in.jsonl").write_text(
        "".join(f'{{"custom_id": "r{n}", "input": {{"n": {n}}}}}\n' for n in range(1, rows + 1))
    )
    [stage] = pipeline.stages
    return replace(pipeline, stages=(replace(stage, reuse_us=24 * HOUR_US, reuse_version=version),))


async def flowed(p: Flowing, pipeline: Pipeline, hour: int) -> str:
    """A flow of the pipeline, carried out to its end."""
    known = await p.ledger.flows.pipelines.named("p")
    of = known if known and known.pipeline == pipeline else await applied(p.ledger, pipeline, now=p.ledger.now())
    [name] = await p.ledger.flows.add(of.id, "p", of.definition, [EPOCH_AT + hour * HOUR_US], FlowKind.TRIGGERED)
    p.scheduler.on_change()
    await p.idle()
    return name


def answering() -> Scripted:
    return Scripted(
        run=accepting(), status=lambda asked: says("COMPLETED", asked.remote_id, output={"of": asked.remote_id})
    )


async def test_the_second_flow_sends_what_is_new_and_takes_the_rest_again(tmp_path: Path) -> None:
    transport = answering()
    async with flowing(tmp_path, transport=transport) as p:
        await flowed(p, reusing(tmp_path), 0)
        assert len(transport.of("run")) == 2
        name = await flowed(p, reusing(tmp_path, rows=3), 1)
        assert len(transport.of("run")) == 3
        assert await p.states() == {"p@20260101T000000Z": "succeeded", name: "succeeded"}
        lines = [json.loads(line) for line in (tmp_path / f"out-{name}.jsonl").read_text().splitlines()]
        for n, line in enumerate(lines[:2], start=1):
            assert line == {
                "custom_id": f"r{n}",
                "job_id": f"r-{n}",
                "status": "COMPLETED",
                "output": {"of": f"r-{n}"},
                "attempts": 0,
                "paid_at_most": 0,
                "delay_ms": None,
                "execution_ms": None,
                "reused": {"run": "p@20260101T000000Z/caption", "custom_id": f"r{n}"},
            }
        assert (lines[2]["attempts"], "reused" in lines[2]) == (1, False)

        [stage] = (await flow_show(tmp_path / "l.db", name, READING)).stages
        assert (stage.rows_in, stage.done, stage.reused) == (3, 3, 2)
        [row] = (await flow_lineage(tmp_path / "l.db", name, "r2", READING)).rows
        assert row.reused is not None
        assert (row.reused.run, row.reused.custom_id, row.not_reused) == ("p@20260101T000000Z/caption", "r2", None)
        [row] = (await flow_lineage(tmp_path / "l.db", name, "r3", READING)).rows
        assert (row.reused, row.not_reused) == (None, NOTHING_YET)


async def test_what_failed_what_is_old_and_what_is_of_another_version_is_sent(tmp_path: Path) -> None:
    clock, transport = VirtualClock(), failing(1)
    async with flowing(tmp_path, transport=transport, clock=clock) as p:
        await flowed(p, reusing(tmp_path), 0)
        await flowed(p, reusing(tmp_path), 1)
        assert len(transport.of("run")) == 2 + 1  # the one that failed
        await flowed(p, reusing(tmp_path, version="model-2"), 2)
        assert len(transport.of("run")) == 3 + 2
        clock.jump(25 * HOUR_US)
        name = await flowed(p, reusing(tmp_path, version="model-2"), 3)
        assert len(transport.of("run")) == 5 + 2
        [row] = (await flow_lineage(tmp_path / "l.db", name, "r2", READING)).rows
        assert (row.not_reused or "").endswith("older than 1 day")


@pytest.mark.parametrize("by", [*(pytest.param(by, marks=pytest.mark.slow) for by in (ALL, INPUT)), "caption"])
async def test_groups_of_what_was_taken_again_are_as_they_were(tmp_path: Path, by: str) -> None:
    """Of three rows each becomes as many: a new one alone is sent, and its group with it."""
    transport = service()
    async with flowing(tmp_path, transport=transport) as p:
        found, sent = list[dict[str, Any]](), [0]
        for rows in (2, 2, 3):
            pipeline = gathering(tmp_path, by, rows=rows)
            stages = tuple(replace(stage, reuse_us=24 * HOUR_US) for stage in pipeline.stages)
            name = await flowed(p, replace(pipeline, stages=stages), len(found))
            assert (await p.states())[name] == "succeeded"
            assert await p.ledger.flows.groups.runs_ready() == []
            found.append(await made(p, f"{name}/total"))
            sent.append(len(transport.of("run")))
    assert found[0] == found[1]
    groups = 1 if by == ALL else 2
    assert [now - before for before, now in pairwise(sent)] == [2 + 3 + groups, 0, 1 + 3 + 1]
    assert len(found[2]) == (1 if by == ALL else 3)


async def test_what_was_taken_again_is_handed_over_like_any_other_row(tmp_path: Path) -> None:
    transport = answering()
    pipeline = reusing(tmp_path)
    [caption] = pipeline.stages
    embed = replace(caption, name="embed", from_=("caption",), settings={**caption.settings, "output": ("e-{flow}",)})
    both = replace(pipeline, stages=(replace(caption, settings={**caption.settings, "output": ("c-{flow}",)}), embed))
    async with flowing(tmp_path, transport=transport) as p:
        await flowed(p, both, 0)
        assert len(transport.of("run")) == 4
        name = await flowed(p, both, 1)
        assert len(transport.of("run")) == 4
        assert (await p.states())[name] == "succeeded"
        assert len((tmp_path / f"e-{name}").read_text().splitlines()) == 2


# --- crashes


@pytest.mark.slow
def test_killed_at_a_commit_each_row_has_one_end_and_what_was_reused_was_not_sent(tmp_path: Path) -> None:
    """At every eighth."""
    killing = Killing()

    async def life(folder: Path, transport: Scripted, clock: VirtualClock) -> None:
        async with flowing(folder, transport=transport, clock=clock, commits=killing) as p:
            for hour in range(2):
                if len(await p.ledger.flows.latest(None)) == hour:
                    await flowed(p, reusing(folder), hour)
            p.scheduler.on_change()
            await p.idle()
            assert set((await p.states()).values()) == {"succeeded"}
            second = await p.ledger.runs.named("p@20260101T010000Z/caption")
            assert second is not None
            assert (await p.ledger.runs.counts(second.id))["reused"] == 2
            for job in range(1, 5):
                events = [each.event for each in await p.ledger.jobs.history.of(job)]
                assert replay(events) is State.SUCCEEDED
            findings = Findings()
            await audit_ledger(p.ledger, findings, lambda *_: None)
            assert list(findings.all()) == []

    for deaths, commit in enumerate(range(3, 10_000, 8)):
        world = tmp_path / str(commit)
        world.mkdir()
        transport, clock = answering(), VirtualClock()
        killing.arm(commit, after=deaths % 2 == 0)
        crashed_at_s = run_until_crash(partial(life, world, transport, clock))
        killing.arm(0, after=False)
        if crashed_at_s is None:
            assert deaths > 2
            return
        run(partial(life, world, transport, clock), start_s=crashed_at_s)
    raise AssertionError("it never came to its end")
