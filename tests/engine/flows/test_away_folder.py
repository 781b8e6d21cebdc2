"""Where the folder of a pipeline is not, its rows wait and its flow is held; none of them fails."""

from pathlib import Path

import anyio
import pytest

from orchestrator.api.flows.flow_files import LocalFiles
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.pipelines.flow_lifecycle import FlowState
from orchestrator.core.pipelines.flow_paths import awaited_folder
from orchestrator.core.pipelines.pipeline import ALL, Pipeline
from orchestrator.engine.flows.row_handover import AWAY_S
from tests.api.flows.test_stages import ROWS, service, three_stages, triggered
from tests.engine.flowing import Flowing, flowing
from tests.engine.flows.test_command_stage import reporting
from tests.engine.scripted import Asked, Reply, Scripted

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

LOOKING = """
from pathlib import Path

HERE = Path(__file__).parent


def from_table(row):
    if row["input"]["n"] == 2:
        HERE.rename(HERE.with_name("moved")) if not HERE.with_name("once").exists() else None
        HERE.with_name("once").touch()
    return {"text": (HERE / "table.txt").read_text()}


def gathered(rows):
    return {"rows": len(rows)}
"""


def moving(folder: Path) -> Scripted:
    """A service; somebody moves `folder` away as it is asked about its first job."""
    usual = service()

    def status(asked: Asked) -> Reply:
        if folder.is_dir() and not folder.with_name("once").exists():
            folder.rename(folder.with_name("moved"))
            folder.with_name("once").touch()
        script = usual.scripts["status"]
        assert not isinstance(script, Reply)
        return script(asked)

    return Scripted(run=usual.scripts["run"], status=status)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "p1"
    found.mkdir()
    return found


async def counts(p: Flowing, run: str) -> dict[str, int]:
    found = await p.ledger.runs.named(run)
    assert found is not None
    of_run = await p.ledger.runs.counts(found.id)
    return {state: of_run[state] for state in State if of_run.get(state)}


async def held_and_then_done(p: Flowing, pipeline: Pipeline, folder: Path, *, rows: int) -> None:
    """Its flow is held once its folder has been moved away, with no failed row, and ends once that is back."""
    name = await triggered(p, pipeline)
    await p.idle()
    [stuck] = p.scheduler.stuck
    assert stuck.why_stuck == awaited_folder(str(folder))
    await anyio.sleep(5 * AWAY_S)
    assert await p.states() == {name: FlowState.ON_HOLD}
    assert p.warnings == [f"{name} is held: {awaited_folder(str(folder))}"], "once"
    assert State.FAILED not in await counts(p, f"{name}/embed")
    folder.with_name("moved").rename(folder)
    await anyio.sleep(2 * AWAY_S)
    await p.idle()
    assert await p.states() == {name: FlowState.SUCCEEDED}
    assert f"{name} goes on" in p.lines
    assert await counts(p, f"{name}/embed") == {State.SUCCEEDED: rows}


async def test_rows_for_a_step_wait_for_its_folder(tmp_path: Path, folder: Path) -> None:
    async with flowing(tmp_path, transport=moving(folder)) as p:
        await held_and_then_done(p, three_stages(folder, rows=ROWS), folder, rows=1 + 2 + 3 + 4)


async def test_a_group_of_rows_waits_for_it(tmp_path: Path, folder: Path) -> None:
    pipeline = three_stages(folder, rows=ROWS, first="gathered", gather=ALL)
    (folder / "steps.py").write_text(LOOKING)
    async with flowing(tmp_path, transport=moving(folder)) as p:
        await held_and_then_done(p, pipeline, folder, rows=1)


async def test_a_step_that_finds_nothing_there_since_it_is_moved_meanwhile_has_not_failed(
    tmp_path: Path, folder: Path
) -> None:
    pipeline = three_stages(folder, rows=ROWS, first="from_table")
    (folder / "steps.py").write_text(LOOKING)
    (folder / "table.txt").write_text("t")
    async with flowing(tmp_path, transport=service()) as p:
        await held_and_then_done(p, pipeline, folder, rows=ROWS)


class Elsewhere(LocalFiles):
    """Files that are on another machine while they are `away`."""

    away = False

    async def is_here(self, pipeline: Pipeline) -> bool:
        return not self.away


def files_of(p: Flowing) -> Elsewhere:
    assert isinstance(p.scheduler.files, Elsewhere)
    return p.scheduler.files


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_a_flow_does_not_begin_where_its_folder_is_not(
    tmp_path: Path, folder: Path, *, is_cancelled: bool
) -> None:
    async with flowing(tmp_path, transport=service(), files_of=Elsewhere) as p:
        files_of(p).away = True
        name = await triggered(p, three_stages(folder, rows=ROWS))
        await p.idle()
        assert (await p.flow(name)).why == awaited_folder(str(folder))
        assert await p.ledger.runs.all() == []
        if is_cancelled:
            assert await p.ledger.flows.cancel((await p.flow(name)).id, "enough")
            p.scheduler.on_change()
            await anyio.sleep(AWAY_S / 2)
            assert await p.states() == {name: FlowState.CANCELLED}
        else:
            files_of(p).away = False
            await anyio.sleep(2 * AWAY_S)
            await p.idle()
            assert await p.states() == {name: FlowState.SUCCEEDED}


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_a_command_waits_for_its_folder_and_so_does_who_writes_results(
    tmp_path: Path, folder: Path, *, is_cancelled: bool
) -> None:
    async with flowing(tmp_path, transport=service(), files_of=Elsewhere) as p:
        name = await triggered(p, reporting(folder))
        with anyio.fail_after(60):
            while await p.ledger.runs.named(f"{name}/report") is None:  # noqa: ASYNC110  nobody tells
                await anyio.sleep(0.1)
        files_of(p).away = True
        await p.idle()
        assert (await p.flow(name)).why == awaited_folder(str(folder))
        assert await counts(p, f"{name}/embed") == {State.SUCCEEDED: 6}
        await anyio.sleep(5 * AWAY_S)
        assert not any("report.sh" in line for line in p.lines)
        if is_cancelled:
            assert await p.ledger.flows.cancel((await p.flow(name)).id, "enough")
            p.scheduler.on_change()
        else:
            files_of(p).away = False
        await anyio.sleep(2 * AWAY_S)
        await p.idle()
        assert await p.states() == {name: FlowState.CANCELLED if is_cancelled else FlowState.SUCCEEDED}
        assert (folder / "report.jsonl").exists() is not is_cancelled
        assert p.warnings[0] == f"{name} is held: {awaited_folder(str(folder))}"
