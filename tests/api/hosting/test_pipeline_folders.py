"""Flows go on where the folder of their pipeline is; on a machine that has it not they wait, and none of their rows
fails.
"""

from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from orchestrator.api.hosting.lacks_elsewhere import LOOK_S
from orchestrator.api.hosting.shard_ability import CHECK_EVERY_S
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.ownership.shard_bids import KEEPERS, LEFT_TO_ANY_US, SETTLED_US
from orchestrator.core.pipelines.flow_lifecycle import FlowKind, FlowState
from orchestrator.core.pipelines.flow_paths import awaited_folder
from orchestrator.core.pipelines.pipeline import INPUT, Pipeline, Stage
from orchestrator.engine.flows.row_handover import AWAY_S
from orchestrator.ledger.flows.flow_rows import Flow
from orchestrator.units import SECOND_US
from tests.api.hosting.site import ONE, OTHER, PATIENCE_S, SOON_S, Site
from tests.ledger.pipelines import applied

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

ROWS = 20
LEFT_S = LEFT_TO_ANY_US / SECOND_US + SOON_S
MOVES_S = SETTLED_US / SECOND_US + LOOK_S + 2 * SOON_S
STEPS = "def to_next(row):\n    return {'of': row['input']['n']}\n"


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    """One whose folder has all that there may be: a command that prints its input, a step, a command as a stage."""
    folder = tmp_path / "p1"
    folder.mkdir()
    (folder / "steps.py").write_text(STEPS)
    (folder / "in.jsonl").write_text("".join(f'{{"input": {{"n": {n}}}}}\n' for n in range(ROWS)))
    stages = (
        Stage(name="first", from_=(INPUT,), settings={"endpoint": (ONE,)}),
        Stage(name="second", from_=("first",), step="steps.py:to_next", settings={"endpoint": (OTHER,)}),
        Stage(name="report", from_=("second",), command=("cat", "row.json"), settings={"output": ("out.jsonl",)}),
    )
    (folder / "row.json").write_text('{"rows": "some"}\n')
    return Pipeline(name="p1", folder=str(folder), input_command=("cat", "in.jsonl"), stages=stages)


async def triggered(site: Site, pipeline: Pipeline) -> str:
    async with site.ledger() as ledger:
        of = await ledger.flows.pipelines.named(pipeline.name) or await applied(ledger, pipeline, now=ledger.now())
        [name] = await ledger.flows.add(of.id, of.name, of.definition, [ledger.now()], FlowKind.TRIGGERED)
    return name


async def flow_of(site: Site, name: str) -> Flow:
    async with site.ledger() as ledger:
        found = await ledger.flows.named(name)
    assert found is not None
    return found


async def until(site: Site, name: str, state: FlowState) -> None:
    with anyio.fail_after(PATIENCE_S):
        while (await flow_of(site, name)).state is not state:  # noqa: ASYNC110  nobody tells
            await anyio.sleep(0.5)


async def failed(site: Site) -> int:
    async with site.ledger() as ledger:
        runs = [run.id for run in await ledger.runs.all()]
        return sum(each.get(State.FAILED, 0) for each in (await ledger.runs.counts_by_run(runs)).values())


@pytest.mark.slow
async def test_a_pipeline_whose_folder_is_nowhere_takes_the_flows_of_others_from_nobody(
    site: Site, pipeline: Pipeline
) -> None:
    site.folders_lacking["b"] = {pipeline.folder}
    async with site.serving("a"):
        name = await triggered(site, pipeline)
        await until(site, name, FlowState.RUNNING)
        async with site.serving("b"):
            async with site.ledger() as ledger:
                nowhere = replace(pipeline, name="p2", folder="/nowhere/p2", stages=pipeline.stages[:2])
                await applied(ledger, nowhere, now=ledger.now())
            owners = set[str | None]()
            for _ in range(int(2 * CHECK_EVERY_S + LEFT_S)):
                await anyio.sleep(1)
                owners.add((await site.shards())[KEEPERS])
            assert owners == {"a"}
            again = await triggered(site, pipeline)
            for each in (name, again):
                await until(site, each, FlowState.SUCCEEDED)
    assert await failed(site) == 0
    assert site.service.paid == 2 * 2 * ROWS


@pytest.mark.slow
async def test_flows_wait_with_all_their_rows_for_the_machine_that_has_their_folder(
    site: Site, pipeline: Pipeline
) -> None:
    site.folders_lacking["b"] = {pipeline.folder}
    why = awaited_folder(pipeline.folder)
    async with site.ledger() as ledger:
        await applied(ledger, pipeline, now=ledger.now())
    async with site.serving("b") as [b]:
        async with site.serving("a"):
            await site.until_owned(KEEPERS, "a")
            name = await triggered(site, pipeline)
            await site.until_sent(ROWS // 2)
        begun = await triggered(site, replace(pipeline, name="p3"))
        await site.until_owned(KEEPERS, "b", within_s=LEFT_S)
        for each in (name, begun):
            await until(site, each, FlowState.ON_HOLD)
        await anyio.sleep(20 * AWAY_S)
        assert [(await flow_of(site, each)).why for each in (name, begun)] == [why, why]
        async with site.ledger() as ledger:
            assert await ledger.runs.named(f"{begun}/first") is None, "its input was not even looked for"
        assert await failed(site) == 0
        assert sorted(b.heard.warnings) == sorted(f"{each} is held: {why}" for each in (name, begun))
        b.heard.warnings.clear()
        async with site.serving("a"):
            await site.until_owned(KEEPERS, "a", within_s=MOVES_S)
            for each in (name, begun):
                await until(site, each, FlowState.SUCCEEDED)
    assert await failed(site) == 0
    assert site.service.paid == 2 * 2 * ROWS
