"""Pipelines from a program: applied, triggered, made up for, fired; and flows in its hands."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest

from orchestrator import Flow, Pipeline, Schedule, Stage
from orchestrator.api.python.orchestrator import Orchestrator
from orchestrator.emulator.jobs.jobs import WorkerResult as Answer
from orchestrator.errors import StoppedError, UsageError
from tests.api.desk import desk
from tests.simulation.loop import running_loop
from tests.simulation.world import ENDPOINT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

STEP = "def twice(row):\n    n = row['output']['n']\n    return [{'n': n}, {'n': -n}]\n"


def pipeline(folder: Path, **fields: Any) -> Pipeline:
    """Two stages, of which the second has two rows for each of the first."""
    (folder / "steps.py").write_text(STEP)
    (folder / "in.jsonl").write_text("".join(json.dumps({"n": n}) + "\n" for n in (1, 2)))
    stages = [Stage("caption", endpoint=ENDPOINT), Stage("embed", step="steps.py:twice", endpoint=ENDPOINT)]
    return Pipeline("p", **{"input": "in.jsonl", "stages": stages, "folder": folder, **fields})


async def numbers(flow: Flow, stage: str | None = None) -> list[int]:
    return sorted([result.output["n"] async for result in flow.results(stage)])


@asynccontextmanager
async def serving(orc: Orchestrator) -> AsyncIterator[None]:
    async with anyio.create_task_group() as group:
        group.start_soon(orc.serve)
        yield
        group.cancel_scope.cancel()


async def states(orc: Orchestrator, *names: str) -> list[str]:
    return [await (await orc.flow(name)).wait() for name in names]


async def test_a_pipeline_is_applied_and_a_flow_of_it_is_carried_out_here(tmp_path: Path) -> None:
    async with desk(tmp_path) as d, d.orchestrator() as orc:
        given = pipeline(tmp_path)
        outcomes = [await orc.apply(given, check=True), await orc.apply(given), await orc.apply(given)]
        assert [(each.outcome, each.version) for each in outcomes] == [
            ("checked", None),
            ("recorded", 1),
            ("unchanged", 1),
        ]
        flow = await orc.trigger("p", at=datetime(2026, 3, 1, tzinfo=UTC))
        assert (flow.name, flow.state, flow.counts) == ("p@20260301T000000Z", "waiting", {})
        assert await numbers(flow) == [-2, -1, 1, 2]
        assert (flow.state, flow.why, repr(flow)) == ("succeeded", "", "<Flow 'p@20260301T000000Z': succeeded>")
        assert (flow.counts["caption"]["succeeded"], flow.counts["embed"]["failed"]) == (2, 0)
        assert await numbers(flow, "caption") == [1, 2]
        assert await (await orc.trigger("p", at="2026-03-01")).wait() == "succeeded"
        assert d.service.paid == 6
        assert (await orc.run("p@20260301T000000Z/embed")).counts["total"] == 4
        with pytest.raises(UsageError, match='has no stage "embd"; did you mean embed'):
            await numbers(flow, "embd")
        with pytest.raises(UsageError, match='no stage "x"; there are caption, embed'):
            await numbers(flow, "x")
    with pytest.raises(UsageError, match="is closed"):
        await flow.wait()


async def test_results_come_while_the_flow_goes_on(tmp_path: Path) -> None:
    async with desk(tmp_path, workers=1, seconds=lambda _: 5.0) as d, d.orchestrator() as orc:
        await orc.apply(pipeline(tmp_path))
        flow = await orc.trigger("p")
        seen = [flow.state async for _ in flow.results("caption")]
        assert seen == ["running", "running"]
        assert flow.state == "succeeded"


async def test_what_cannot_be_is_refused_in_the_words_of_a_program(tmp_path: Path) -> None:
    async with desk(tmp_path) as d, d.orchestrator() as orc:
        with pytest.raises(UsageError, match=r"the pipeline p: schedule.zone: there is no time zone"):
            await orc.apply(pipeline(tmp_path, schedule=Schedule(every="24h", zone="Europe/Berln")))
        await orc.apply(pipeline(tmp_path, schedule=Schedule(every="24h", zone="Europe/Berlin")))
        with pytest.raises(UsageError, match="no pipeline called 'q' here"):
            await orc.trigger("q")
        with pytest.raises(UsageError, match=r"at=: .*does not exist in Europe/Berlin"):
            await orc.trigger("p", at=datetime(2026, 3, 29, 2, 30))  # noqa: DTZ001  as the zone of the pipeline has it
        with pytest.raises(UsageError, match="to= 2025-12-01 lies before from_= 2025-12-02"):
            await orc.backfill("p", "2025-12-02", "2025-12-01")
        with pytest.raises(UsageError, match="parallel=0: this must be a whole number from 1 to 1000"):
            await orc.backfill("p", "2025-12-02", "2025-12-03", parallel=0)
        with pytest.raises(UsageError, match="no flow called 'p@2' here"):
            await orc.flow("p@2")


@pytest.mark.slow
async def test_a_backfill_gives_the_flow_of_each_fire_whether_it_is_new_or_not(tmp_path: Path) -> None:
    async with desk(tmp_path) as d, d.orchestrator() as orc:
        await orc.apply(pipeline(tmp_path, schedule=Schedule(every="24h")))
        one = await orc.trigger("p", at="2025-12-02")
        flows = await orc.backfill("p", "2025-12-01", "2025-12-03", parallel=2)
        assert [flow.name for flow in flows] == [f"p@2025120{day}T000000Z" for day in (1, 2, 3)]
        ended: list[str] = []

        async def wait(flow: Flow) -> None:
            ended.append(await flow.wait())

        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                for flow in flows:
                    group.start_soon(wait, flow)
        assert ended == ["succeeded"] * 3
        assert await one.wait() == "succeeded"
        assert d.service.paid == 18
        again = await orc.backfill("p", datetime(2025, 12, 3, tzinfo=UTC), "2025-12-03", again=True)
        assert [(flow.name, await flow.wait()) for flow in again] == [("p@20251203T000000Z~2", "succeeded")]


async def test_it_fires_while_it_serves_and_not_before_or_after(tmp_path: Path) -> None:
    async with desk(tmp_path) as d, d.orchestrator() as orc:
        await orc.apply(pipeline(tmp_path, schedule=Schedule(every="60s", catch_up="30s")))
        await anyio.sleep(100)
        with pytest.raises(UsageError, match="no flow called"):
            await orc.flow("p@20260101T000100Z")
        async with serving(orc):
            await anyio.sleep(1)
            with pytest.raises(UsageError, match="serves already"):
                await orc.serve()
            await anyio.sleep(30)
            assert await states(orc, "p@20260101T000200Z") == ["succeeded"]
        await anyio.sleep(60)
        with pytest.raises(UsageError, match="no flow called"):
            await orc.flow("p@20260101T000300Z")
        assert await (await orc.trigger("p", "2026-01-04")).wait() == "succeeded"  # flows are carried out all the same
        assert d.service.paid == 12


@pytest.mark.slow
async def test_a_program_that_joins_hands_over_and_goes_on_where_the_other_ends(tmp_path: Path) -> None:
    async with (
        desk(tmp_path, workers=1, seconds=lambda _: 5.0) as d,
        d.orchestrator() as first,
        d.orchestrator() as second,
    ):
        await second.apply(pipeline(tmp_path, schedule=Schedule(every="60s", parallel=9)))
        flow = await second.trigger("p", at="2026-03-01")
        began = running_loop().time()
        await anyio.sleep(8)
        assert (await flow.look()).state == "running"
        assert flow.counts["caption"]["succeeded"] == 1
        assert first._session is not None
        async with serving(second):
            await anyio.sleep(0.1)
            first._session.stop()
            with anyio.fail_after(600):
                assert await numbers(flow) == [-2, -1, 1, 2]
            assert running_loop().time() - began > 20
            await anyio.sleep(60)
            assert (await states(second, "p@20260101T000100Z")) == ["succeeded"]


async def test_a_flow_is_held_continued_and_cancelled(tmp_path: Path) -> None:
    async with desk(tmp_path, workers=1, seconds=lambda _: 5.0) as d, d.orchestrator() as orc:
        await orc.apply(pipeline(tmp_path))
        flow = await orc.trigger("p")
        await anyio.sleep(2)
        await flow.pause()
        with pytest.raises(StoppedError, match=r"is held: paused by .*; go on with unpause\(\)"):
            await flow.wait()
        assert flow.state == "held"
        with pytest.raises(StoppedError, match="is held"):
            await numbers(flow)
        await flow.unpause()
        assert await flow.wait() == "succeeded"

        other = await orc.trigger("p", at="2027-01-01")
        await anyio.sleep(2)
        await other.cancel()
        with anyio.fail_after(60):
            assert await other.wait() == "cancelled"
        assert "cancelled by" in other.why


async def test_a_flow_without_its_input_has_no_results_and_says_why(tmp_path: Path) -> None:
    async with desk(tmp_path) as d, d.orchestrator() as orc:
        await orc.apply(pipeline(tmp_path, input="no.jsonl"))
        flow = await orc.trigger("p")
        assert await flow.wait() == "failed"
        with pytest.raises(StoppedError, match=r"embed has not begun, .* failed: .*no.jsonl: the input is not there"):
            await numbers(flow)


async def test_a_flow_of_which_nothing_comes_says_so(tmp_path: Path) -> None:
    async with desk(tmp_path, work=lambda *_: Answer(error="bad")) as d, d.orchestrator() as orc:
        stages = [Stage("a", endpoint=ENDPOINT, max_attempts=5, stop_after_failures=1)]
        await orc.apply(pipeline(tmp_path, stages=stages))
        with pytest.raises(StoppedError, match=r"nothing comes of p@.* before somebody does something: "):
            await (await orc.trigger("p")).wait()
