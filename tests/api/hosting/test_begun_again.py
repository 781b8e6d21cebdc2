"""What an engine finds as it begins with a part of a ledger on a server, it does once."""

import base64
import json
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.outputs.save_rules import parse_save
from orchestrator.ledger.runs.input_rows import packed_rows
from orchestrator.settings.run_settings import RunSettings
from tests.api.hosting.site import JOBS, ONE, PATIENCE_S, Site
from tests.engine.rows import rows

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


@pytest.mark.slow
async def test_what_the_disk_has_not_taken_is_saved_once_by_whoever_comes_next(site: Site, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.touch()  # where a folder would be
    save = parse_save(f"output.image={folder}/{{custom_id}}.png")
    run = await site.run_at(ONE, RunSettings(save=(save,), queue_depth=1), jobs=0)
    image = json.dumps({"image": base64.b64encode(b"an image").decode()}).encode()
    async with site.ledger() as ledger:
        intake = await ledger.runs.intakes.start(run)
        await ledger.runs.intakes.add(intake, packed_rows([replace(row, input=image) for row in rows(JOBS)]))
        await ledger.runs.intakes.accept(intake)
        async with site.serving("a") as [machine]:
            await site.until(run, State.SUCCEEDED, 1, within_s=60)
            machine.heard.warnings.clear()
        folder.unlink()
        async with site.serving("b"):
            await site.until(run, State.SUCCEEDED, within_s=60)
            await anyio.sleep(1)
        counts = await ledger.runs.counts(run.id)
    assert {name: number for name, number in counts.items() if number} == {"succeeded": JOBS}
    assert len(list(folder.iterdir())) == JOBS
