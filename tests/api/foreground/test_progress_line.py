"""A loop of a program, or a cell of a notebook, that shows how its run goes on."""

from io import StringIO
from pathlib import Path

import anyio
import msgspec
import pytest

from orchestrator.api.foreground.progress_line import ProgressLine, progress_text
from orchestrator.core.diagnosis.service_rules import NO_WORKERS
from orchestrator.core.jobs.lifecycle import State
from orchestrator.views.status import Snapshot
from tests.api.desk import desk, numbers
from tests.cli.samples import snapshot
from tests.simulation.world import ENDPOINT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


def stands(**changes: object) -> Snapshot:
    counts = {**dict.fromkeys((state.value for state in State), 0), "queued": 8, "succeeded": 1, "failed": 1}
    return msgspec.structs.replace(snapshot(), counts=counts, **changes)


def test_a_line_says_how_much_is_done_how_fast_and_what_is_in_the_way() -> None:
    assert progress_text(stands()) == "captions: 2 of 10 jobs (20 %), 1 failed"
    fast = stands(jobs_per_s=2.0, eta_s=4.0, finding=NO_WORKERS)
    assert progress_text(fast) == f"captions: 2 of 10 jobs (20 %), 1 failed, 2.0 jobs/s, 4 s left, {NO_WORKERS}"


async def shown(*, in_notebook: bool) -> str:
    out, now = StringIO(), [stands(), stands(), stands(jobs_per_s=1.0)]
    line = ProgressLine(lambda: now.pop(0) if now[1:] else now[0], out, in_notebook=in_notebook)
    async with anyio.create_task_group() as group:
        group.start_soon(line.serve)
        await anyio.sleep(3.5 if in_notebook else 100)
        group.cancel_scope.cancel()
    line.clear()
    return out.getvalue()


async def test_in_a_notebook_it_is_drawn_in_place_and_makes_room() -> None:
    first, second = "captions: 2 of 10 jobs (20 %), 1 failed", "captions: 2 of 10 jobs (20 %), 1 failed, 1.0 jobs/s"
    assert await shown(in_notebook=True) == f"\r{first}\r{first}\r{second}\r{' ' * len(second)}\r"


async def test_in_a_log_it_is_a_line_where_it_says_something_else() -> None:
    first, second = "captions: 2 of 10 jobs (20 %), 1 failed", "captions: 2 of 10 jobs (20 %), 1 failed, 1.0 jobs/s"
    assert await shown(in_notebook=False) == f"{first}\n{second}\n"


async def test_whoever_reads_results_or_waits_may_have_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with desk(tmp_path, workers=1, seconds=lambda _: 40.0) as it, it.orchestrator() as orc:
        run = await orc.submit(numbers(3), endpoint=ENDPOINT, name="night")
        assert [result.output["n"] async for result in run.results(progress=True)] == [0, 1, 2]
        told_of = capsys.readouterr().err.splitlines()
        assert told_of[0].startswith("night: 0 of 3 jobs (0 %)")
        assert told_of[-1].startswith("night: 2 of 3 jobs (66 %)")
        again = orc.map(ENDPOINT, numbers(4), name="night", progress=True)
        assert len([result async for result in again]) == 4
        assert "night: 3 of 4 jobs (75 %)" in capsys.readouterr().err
        await run.wait(progress=True)
        assert [result async for result in run.results()]
        assert capsys.readouterr().err == ""
