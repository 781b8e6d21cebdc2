"""Rows that come together: all that came of one row, in one call of a function, once none of it is open."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.jobs.transitions import reopened
from orchestrator.core.pipelines.flow_lifecycle import FlowState
from orchestrator.core.pipelines.pipeline import ALL, INPUT, Pipeline, Stage
from tests.api.flows.test_stages import ended, handed_over, service, three_stages, triggered
from tests.engine.flowing import Flowing, flowing
from tests.simulation.world import ENDPOINT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

STEPS = """


def total(rows):
    return {"of": [row["custom_id"] for row in rows], "stages": sorted({row["stage"] for row in rows})}


def one_each(rows):
    return ({"row": row["custom_id"]} for row in rows)


def too_large(rows):
    return {"text": "x" * 100_000_000}


def none(rows):
    raise ValueError(f"{len(rows)} rows")
"""


def gathering(folder: Path, by: str, *, rows: int = 6, step: str = "total", **more: Any) -> Pipeline:
    """Rows 1, 2, … of which the service makes `n % 6`, so many rows of the second stage of each; then those together."""
    pipeline = three_stages(folder, rows=rows, first=more.pop("first", "spread"))
    with (folder / "steps.py").open("a") as steps:
        steps.write(STEPS)
    caption, embed, _ = pipeline.stages
    settings = {"endpoint": (ENDPOINT,), "max-attempts": ("1",), "output": ("out.jsonl",)}
    given = {"from_": ("embed",), "gather": by, "step": f"steps.py:{step}", "settings": settings, **more}
    return replace(pipeline, stages=(caption, embed, Stage(name="total", **given)))


async def made(p: Flowing, run: str) -> dict[str, Any]:
    """The outputs of a run, which are the inputs, by custom_id."""
    found = await ended(p, run)
    return {job.custom_id: json.loads(job.output) if job.output else job.message for job in found}


@pytest.mark.parametrize("by", ["caption", INPUT])
async def test_all_that_came_of_a_row_goes_to_one_call(tmp_path: Path, by: str) -> None:
    async with flowing(tmp_path, transport=service()) as p:
        name = await triggered(p, gathering(tmp_path, by))
        await p.idle()

        assert await p.states() == {name: "succeeded"}
        found = await made(p, f"{name}/total")
        assert list(found) == ["r1", "r2", "r3", "r4", "r5"]  # nothing came of r6
        assert found["r3"] == {"of": ["r3/0", "r3/1", "r3/2"], "stages": ["embed"]}
        assert await handed_over(p, f"{name}/embed", f"{name}/total") == [1] * 15
        assert await p.ledger.flows.groups.runs_ready() == []


async def test_a_group_of_all_is_one_call_with_the_rows_of_several_stages(tmp_path: Path) -> None:
    async with flowing(tmp_path, transport=service()) as p:
        name = await triggered(p, gathering(tmp_path, ALL, rows=3, step="one_each", from_=("caption", "embed")))
        await p.idle()

        assert await p.states() == {name: "succeeded"}
        found = await made(p, f"{name}/total")
        rows = ["r1", "r2", "r3", "r1", "r2/0", "r2/1", "r3/0", "r3/1", "r3/2"]
        assert found == {f"all/{number}": {"row": row} for number, row in enumerate(rows)}
        assert await handed_over(p, f"{name}/embed", f"{name}/total") == [9] * 6
        parents = await p.ledger.flows.lineage.parents([job.job for job in await ended(p, f"{name}/total")])
        assert {len(each) for each in parents.values()} == {9}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "why"),
    [("none", "ValueError: 2 rows"), ("too_large", "bytes")],
)
async def test_a_call_that_fails_is_a_failed_job_which_can_be_made_anew(tmp_path: Path, step: str, why: str) -> None:
    async with flowing(tmp_path, transport=service()) as p:
        name = await triggered(p, gathering(tmp_path, "caption", rows=2, step=step))
        await p.idle()

        assert await p.states() == {name: "failed"}
        [one, two] = await ended(p, f"{name}/total")
        assert [(job.custom_id, job.trouble) for job in (one, two)] == [("r1", "step"), ("r2", "step")]
        assert why in (two.message or "")
        assert await handed_over(p, f"{name}/embed", f"{name}/total") == [0, 0, 0]

        with (tmp_path / "steps.py").open("a") as steps:
            steps.write(f"\n\n{step} = total\n")
        for job in (await p.ledger.jobs.of([two.job])).values():
            assert await p.ledger.writer.step(reopened(job, at=p.ledger.now()))
        await anyio.sleep(60)
        found = await ended(p, f"{name}/total")
        assert [(job.custom_id, job.state) for job in found] == [("r1", State.FAILED), ("r2", State.QUEUED)] or (
            found[1].state is State.SUCCEEDED
        )
        assert await handed_over(p, f"{name}/embed", f"{name}/total") == [0, 1, 1]


async def test_a_group_with_too_few_rows_is_a_failed_job(tmp_path: Path) -> None:
    async with flowing(tmp_path, transport=service()) as p:
        name = await triggered(p, gathering(tmp_path, INPUT, first="spread_or_fail"))
        await p.idle()

        assert await p.states() == {name: "partial"}
        found = await made(p, f"{name}/total")
        assert found["r4"] == "1 of the 1 rows that came of r4 have failed, more than needs allows"
        assert found["r3"]["of"] == ["r3/0", "r3/1", "r3/2"]
        assert list(found) == ["r1", "r2", "r3", "r4", "r5"]


async def test_a_group_goes_on_with_what_it_needs(tmp_path: Path) -> None:
    async with flowing(tmp_path, transport=service()) as p:
        pipeline = gathering(tmp_path, ALL, first="spread_or_fail", needs=750_000)
        name = await triggered(p, pipeline)
        await p.idle()
        assert await p.states() == {name: "partial"}
        found = await made(p, f"{name}/total")
        assert found["all"]["of"] == ["r1", "r2/0", "r2/1", "r3/0", "r3/1", "r3/2"]


async def test_too_few_rows_for_a_group_of_all_hold_the_flow_until_somebody_goes_on(tmp_path: Path) -> None:
    async with flowing(tmp_path, transport=service()) as p:
        name = await triggered(p, gathering(tmp_path, ALL, first="spread_or_fail"))
        await p.idle()

        flow = await p.flow(name)
        assert flow.state is FlowState.ON_HOLD
        assert flow.why == "2 of the 8 rows for total have failed, more than needs allows"
        assert any(f"{name} is held: {flow.why}" in warning for warning in p.warnings)
        assert await ended(p, f"{name}/total") == []

        assert await p.ledger.flows.proceed(flow.id)
        p.engine.host.control.on_change()
        p.scheduler.on_change()
        await anyio.sleep(60)
        assert await p.states() == {name: "partial"}
        assert list(await made(p, f"{name}/total")) == ["all"]


async def test_a_cancelled_flow_hands_over_no_group(tmp_path: Path) -> None:
    async with flowing(tmp_path, transport=service()) as p:
        name = await triggered(p, gathering(tmp_path, ALL, first="spread_or_fail"))
        await p.idle()
        flow = await p.flow(name)
        assert await p.ledger.flows.cancel(flow.id, "by a test")
        p.engine.host.control.on_change()
        p.scheduler.on_change()
        await anyio.sleep(60)
        assert await p.states() == {name: "cancelled"}
        assert await ended(p, f"{name}/total") == []
