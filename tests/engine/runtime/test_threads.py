"""The engine belongs to whoever calls it: signals and the main thread are the command line's."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio

from orchestrator.api.foreground.run import run
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.run_request import RunRequest
from orchestrator.settings.run_settings import RunSettings
from orchestrator.views.status import Summary

HANDLER = Path(__file__).parents[3] / "examples" / "handlers.py"


def request(folder: Path) -> RunRequest:
    source = folder / "prompts.jsonl"
    source.write_text('{"prompt": "a lighthouse"}\n{"prompt": "a harbour"}\n')
    return RunRequest(
        name="prompts",
        source=str(source),
        endpoint=f"local:{HANDLER}:caption",
        ledger=folder / "orchestrator.db",
        output=folder / "results.jsonl",
        errors=folder / "errors.jsonl",
        connection=ConnectionSettings(),
        settings=RunSettings(),
    )


def test_a_run_needs_no_main_thread(tmp_path: Path) -> None:
    async def main() -> Summary:
        return await run(request(tmp_path))

    with ThreadPoolExecutor(max_workers=1) as threads:
        summary = threads.submit(anyio.run, main).result()

    assert summary.jobs["succeeded"] == summary.jobs["total"] == 2
    assert len((tmp_path / "results.jsonl").read_text().splitlines()) == 2
