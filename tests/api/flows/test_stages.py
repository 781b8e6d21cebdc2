"""Flows of several stages: rows go from one to the next while upstream goes on, and arrive once, whatever crashes."""

import json
import tempfile
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from orchestrator.api.admin.revalidate import wanted_of
from orchestrator.api.flows.lineage import flow_lineage
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.jobs.transitions import reopened
from orchestrator.core.pipelines.flow_lifecycle import FlowKind, FlowState
from orchestrator.core.pipelines.pipeline import INPUT, Pipeline, Stage
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.errors import UsageError
from orchestrator.ledger.jobs.results import FinishedJob
from tests.engine.flowing import Flowing, a_pipeline, flowing
from tests.engine.scripted import Asked, Reply, Scripted, says
from tests.ledger.pipelines import applied
from tests.simulation.clock import EPOCH_AT, VirtualClock
from tests.simulation.database import async_creator
from tests.simulation.run import Crash, run, run_until_crash
from tests.simulation.world import ENDPOINT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

STEPS = """
def spread(row):
    return [{"of": row["input"]["n"], "number": number} for number in range(row["output"])]


def keep_even(row):
    return {"half": row["input"]["n"] // 2} if row["input"]["n"] % 2 == 0 else None


def spread_or_fail(row):
    if row["output"] > 3:
        raise ValueError("too many")
    return spread(row)


def fail_odd(row):
    if row["input"]["n"] % 2:
        raise KeyError("text")
    return {"input": {"kept": row["input"]["n"]}}
"""


ROWS = 4
READING = Dependencies(connect=async_creator)


def three_stages(folder: Path, *, rows: int, first: str = "spread", depth: str = "auto", **more: Any) -> Pipeline:
    """Rows 1, 2, … of which the service makes `n % 6`, and so many rows of the second stage are made of each."""
    pipeline = a_pipeline(folder)
    (folder / "steps.py").write_text(STEPS)
    (folder / "in.jsonl").write_text(
        "".join(f'{{"custom_id": "r{n}", "input": {{"n": {n}}}}}\n' for n in range(1, rows + 1))
    )
    settings = {"endpoint": (ENDPOINT,), "max-attempts": ("1",)}
    stages = (
        Stage(name="caption", from_=(INPUT,), settings={**settings, "queue-depth": (depth,)}),
        Stage(name="embed", from_=("caption",), step=f"steps.py:{first}", settings=settings, **more),
        Stage(name="index", from_=("embed",), settings={**settings, "output": ("out.jsonl",)}),
    )
    return Pipeline(name="p", folder=pipeline.folder, input="in.jsonl", stages=stages)


def service() -> Scripted:
    """The output of the first stage's `n` is `n % 6`; of the others it is the input."""
    inputs: dict[str, Any] = {}

    def run(asked: Asked) -> Reply:
        remote = f"r-{len(inputs)}"
        inputs[remote] = json.loads(asked.body)["input"]
        return says("IN_QUEUE", remote)

    def status(asked: Asked) -> Reply:
        given = inputs[asked.remote_id]
        return says("COMPLETED", asked.remote_id, output=given["n"] % 6 if set(given) == {"n"} else given)

    return Scripted(run=run, status=status)


async def triggered(p: Flowing, pipeline: Pipeline, *, at: int = EPOCH_AT) -> str:
    of = await applied(p.ledger, pipeline, now=p.ledger.now())
    [name] = await p.ledger.flows.add(of.id, "p", of.definition, [at], FlowKind.TRIGGERED)
    p.scheduler.on_change()
    return name


async def ended(p: Flowing, run: str) -> list[FinishedJob]:
    found = await p.ledger.runs.named(run)
    assert found is not None
    return await p.ledger.jobs.results.page(found.id, list(State), after=(0, 0), most=10_000, bytes_max=1 << 24)


async def test_rows_go_from_stage_to_stage_and_each_leads_back_to_the_input(tmp_path: Path) -> None:
    async with flowing(tmp_path, transport=service()) as p:
        name = await triggered(p, three_stages(tmp_path, rows=6))
        await p.idle()

        assert await p.states() == {name: "succeeded"}
        index = await ended(p, f"{name}/index")
        assert [job.custom_id for job in index] == [
            f"r{n}" if n == 1 else f"r{n}/{i}" for n in range(1, 6) for i in range(n)
        ]
        lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
        assert [line["output"] for line in lines] == [{"of": n, "number": i} for n in range(1, 6) for i in range(n)]

        first = await p.ledger.runs.named(f"{name}/caption")
        assert first is not None
        await leads_to_the_input(p, [job.job for job in index], first.id)
        assert await handed_over(p, f"{name}/caption", f"{name}/embed") == [1, 2, 3, 4, 5, 0]
        assert await handed_over(p, f"{name}/embed", f"{name}/index") == [1] * 15
        with pytest.raises(UsageError, match="is a stage of a flow, and what it brought is in the next one"):
            await wanted_of(p.ledger, first, {})


async def leads_to_the_input(p: Flowing, jobs: Sequence[int], first: int) -> None:
    """Each of these was made of one row, and that of one of the first run."""
    for _ in range(2):
        parents = await p.ledger.flows.lineage.parents(jobs)
        assert set(parents) == set(jobs)
        assert all(len(each) == 1 for each in parents.values())
        jobs = sorted({each[0] for each in parents.values()})
    found = await p.ledger.jobs.of(jobs)
    assert {found[job].run for job in jobs} == {first}


async def handed_over(p: Flowing, from_run: str, to_run: str) -> list[int]:
    """How many rows each ended row has become, in the order of their lines."""
    found = await p.ledger.runs.named(to_run)
    assert found is not None
    rows = await ended(p, from_run)
    children = await p.ledger.flows.lineage.children([job.job for job in rows], found.id)
    return [children[job.job] for job in rows]


async def test_the_lineage_of_a_row_is_told_from_the_input_to_the_last_stage(tmp_path: Path) -> None:
    async with flowing(tmp_path, transport=service()) as p:
        name = await triggered(p, three_stages(tmp_path, rows=6))
        await p.idle()
        found = await flow_lineage(tmp_path / "l.db", name, "r2/1", READING)
        assert [(row.stage, row.custom_id, row.made_of, row.became) for row in found.rows] == [
            ("caption", "r2", (), 2),
            ("embed", "r2/1", ("r2",), 1),
            ("index", "r2/1", ("r2/1",), None),
        ]
        dropped = await flow_lineage(tmp_path / "l.db", name, "r6", READING)
        assert [(row.stage, row.became) for row in dropped.rows] == [("caption", 0)]
        whole = await flow_lineage(tmp_path / "l.db", name, "r3", READING)
        assert len(whole.rows) == 1 + 3 + 3
        with pytest.raises(UsageError, match="has no row r9"):
            await flow_lineage(tmp_path / "l.db", name, "r9", READING)


@pytest.mark.slow
async def test_a_row_is_handed_over_while_upstream_goes_on(tmp_path: Path) -> None:
    transport = service()
    async with flowing(tmp_path, transport=transport) as p:
        await triggered(p, three_stages(tmp_path, rows=40, first="keep_even", depth="4"))
        await p.idle()
    sent = [json.loads(asked.body)["input"] for asked in transport.of("run")]
    assert len(sent) == 80
    last_of_first = max(at for at, given in enumerate(sent) if set(given) == {"n"})
    assert sum("half" in given for given in sent[:last_of_first]) > 10


async def test_a_step_that_returns_none_drops_the_row(tmp_path: Path) -> None:
    async with flowing(tmp_path, transport=service()) as p:
        name = await triggered(p, three_stages(tmp_path, rows=6, first="keep_even"))
        await p.idle()
        assert await p.states() == {name: "succeeded"}
        assert [job.custom_id for job in await ended(p, f"{name}/index")] == ["r2", "r4", "r6"]


async def test_a_step_that_raises_is_a_failed_job_downstream_which_can_be_made_anew(tmp_path: Path) -> None:
    async with flowing(tmp_path, transport=service()) as p:
        name = await triggered(p, three_stages(tmp_path, rows=4, first="fail_odd"))
        await p.idle()

        assert await p.states() == {name: "partial"}
        failed = [job for job in await ended(p, f"{name}/embed") if job.state is State.FAILED]
        assert [(job.custom_id, job.trouble) for job in failed] == [("r1", "step"), ("r3", "step")]
        assert "KeyError: 'text'" in (failed[0].message or "")
        assert await handed_over(p, f"{name}/caption", f"{name}/embed") == [0, 1, 0, 1]

        (tmp_path / "steps.py").write_text(STEPS.replace("% 2:", "% 3 == 0:"))
        jobs = await p.ledger.jobs.of([job.job for job in failed])
        for job in jobs.values():
            assert await p.ledger.writer.step(reopened(job, at=p.ledger.now()))
        await anyio.sleep(60)
        assert [job.state.value for job in await ended(p, f"{name}/embed")] == [
            "succeeded",
            "succeeded",
            "failed",
            "succeeded",
        ]
        assert await handed_over(p, f"{name}/caption", f"{name}/embed") == [1, 1, 0, 1]


@pytest.mark.slow
async def test_a_step_that_raises_no_ordinary_error_stops_no_hand_over(tmp_path: Path) -> None:
    for kind in ("cancelled", "exit", "generator_exit", "own"):
        folder = tmp_path / kind
        folder.mkdir()
        async with flowing(folder, transport=service()) as p:
            pipeline = three_stages(folder, rows=4, first="fail_odd")
            (folder / "steps.py").write_text(
                f"from tests.raising import raises\n{STEPS}".replace('raise KeyError("text")', f'raises("{kind}")')
            )
            name = await triggered(p, pipeline)
            await p.idle()
            assert await p.states() == {name: "partial"}
            assert await handed_over(p, f"{name}/caption", f"{name}/embed") == [0, 1, 0, 1]
            assert len(await ended(p, f"{name}/index")) == 2


async def test_what_is_no_row_is_a_failed_job_downstream(tmp_path: Path) -> None:
    pipeline = three_stages(tmp_path, rows=1)
    first, _, _ = pipeline.stages
    second = Stage(name="embed", from_=("caption",), settings=first.settings)
    async with flowing(tmp_path, transport=service()) as p:
        name = await triggered(p, replace(pipeline, stages=(first, second)))
        await p.idle()
        assert await p.states() == {name: "failed"}
        [job] = await ended(p, f"{name}/embed")
        assert job.message == "the output of r1 is no object, as an input is; a step can make one of it"


async def test_a_row_with_a_resume_of_its_own_is_none_for_a_resumable_stage(tmp_path: Path) -> None:
    pipeline = three_stages(tmp_path, rows=1)
    (tmp_path / "steps.py").write_text("def own(row):\n    return {'resume': 1, 'n': 1}\n")
    first, _, _ = pipeline.stages
    settings = {**first.settings, "resumable": ("true",)}
    second = Stage(name="embed", from_=("caption",), step="steps.py:own", settings=settings)
    async with flowing(tmp_path, transport=service()) as p:
        name = await triggered(p, replace(pipeline, stages=(first, second)))
        await p.idle()
        [job] = await ended(p, f"{name}/embed")
        assert job.trouble == "step"
        assert "resume" in (job.message or "")


@pytest.mark.slow
async def test_too_many_failed_rows_of_a_later_stage_hold_the_flow(tmp_path: Path) -> None:
    async with flowing(tmp_path, transport=service()) as p:
        name = await triggered(p, three_stages(tmp_path, rows=40, first="fail_odd", max_failed=50_000))
        await anyio.sleep(60)
        flow = await p.flow(name)
        assert flow.state is FlowState.ON_HOLD
        assert "rows of embed have failed" in flow.why


async def test_of_a_later_stage_some_rows_go_first_as_soon_as_it_has_any(tmp_path: Path) -> None:
    """Its run is served before it has rows, and these come one page after the other."""
    transport, is_waited_for = service(), True
    finished = transport.scripts["status"]
    assert callable(finished)

    def status(asked: Asked) -> Reply:
        is_of_embed = int(asked.remote_id.removeprefix("r-")) >= ROWS
        return says("IN_PROGRESS", asked.remote_id) if is_waited_for and is_of_embed else finished(asked)

    transport.scripts["status"] = status
    pipeline = three_stages(tmp_path, rows=ROWS)
    caption, embed, index = pipeline.stages
    embed = replace(embed, settings={**embed.settings, "canary": ("2",)})
    async with flowing(tmp_path, transport=transport) as p:
        name = await triggered(p, replace(pipeline, stages=(caption, embed, index)))
        await anyio.sleep(120)
        assert 1 <= len(transport.of("run")) - ROWS <= 2
        is_waited_for = False
        await p.idle()
        assert await p.states() == {name: "succeeded"}
        assert len(await ended(p, f"{name}/embed")) == 10


class Killing:
    """Kills the world before or after its so manieth commit."""

    def __init__(self) -> None:
        self._crash = Crash()
        self._left = 0
        self._is_after = False

    def arm(self, commits: int, *, after: bool) -> None:
        """0 spares."""
        self._left, self._is_after = commits, after

    def committing(self) -> bool:
        self._left -= 1
        if self._left == 0 and not self._is_after:
            self._crash.pull()
            return False
        return True

    def committed(self) -> None:
        if self._left == 0 and self._is_after:
            self._crash.pull()


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_killed_at_a_commit_each_row_arrives_once(tmp_path: Path, *, after: bool) -> None:
    """At every twelfth; `python -m tests.api.flows.test_stages` takes each."""
    assert killed_at_commits(tmp_path, range(2, 10_000, 12), after=after) in range(3, 6)


def killed_at_commits(folder: Path, commits: Iterable[int], *, after: bool) -> int:
    """A process dies at each of these commits, in a world of its own, and the next one goes on to the end. Returns in
    how many worlds that was before the end.
    """
    killing = Killing()

    async def life(folder: Path, transport: Scripted, clock: VirtualClock) -> None:
        async with flowing(folder, transport=transport, clock=clock, commits=killing) as p:
            if not await p.ledger.flows.latest(1):
                await triggered(p, three_stages(folder, rows=ROWS, first="spread_or_fail"))
            p.scheduler.on_change()
            await p.idle()
            await each_row_has_arrived_once(p)

    for deaths, commit in enumerate(commits):
        world = folder / str(commit)
        world.mkdir()
        transport, clock = service(), VirtualClock()
        killing.arm(commit, after=after)
        crashed_at_s = run_until_crash(partial(life, world, transport, clock))
        if crashed_at_s is None:
            return deaths
        killing.arm(0, after=after)
        run(partial(life, world, transport, clock), start_s=crashed_at_s)
    raise AssertionError("it never came to its end")


async def each_row_has_arrived_once(p: Flowing) -> None:
    [name] = await p.states()
    assert await p.states() == {name: "partial"}
    assert await handed_over(p, f"{name}/caption", f"{name}/embed") == [1, 2, 3, 0]
    assert await handed_over(p, f"{name}/embed", f"{name}/index") == [1] * 6 + [0]
    assert await p.ledger.flows.handovers.relays_owed() == []
    index = await ended(p, f"{name}/index")
    assert len(index) == len({job.custom_id for job in index}) == 6
    caption = await p.ledger.runs.named(f"{name}/caption")
    assert caption is not None
    await leads_to_the_input(p, [job.job for job in index], caption.id)


if __name__ == "__main__":
    for is_after in (False, True):
        with tempfile.TemporaryDirectory() as scratch:
            worlds = killed_at_commits(Path(scratch), range(1, 10_000), after=is_after)
        print(f"killed {'after' if is_after else 'before'} each of {worlds} commits: each row has arrived once")
