"""The engine needs neither the main thread nor a signal: it works wherever an event loop runs."""

import asyncio
import json
import threading
from pathlib import Path

from orchestrator import ConnectionSettings, RunRequest, RunSettings, Summary, run

HANDLER = "def double(job):\n    return 2 * job['input']['n']\n"


def test_a_run_works_in_a_thread_beside_the_main_one(tmp_path: Path) -> None:
    (tmp_path / "handler.py").write_text(HANDLER)
    source = tmp_path / "in.jsonl"
    source.write_text("".join(f'{{"input":{{"n":{n}}}}}\n' for n in range(5)))
    request = RunRequest(
        name="in",
        source=str(source),
        endpoint=f"local:{tmp_path}/handler.py:double",
        ledger=tmp_path / "ledger.db",
        output=tmp_path / "out.jsonl",
        errors=tmp_path / "errors.jsonl",
        connection=ConnectionSettings(),
        settings=RunSettings(),
    )
    found: list[Summary] = []
    thread = threading.Thread(target=lambda: found.append(asyncio.run(run(request))))
    thread.start()
    thread.join(60)
    assert [summary.jobs["succeeded"] for summary in found] == [5]
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [line["output"] for line in lines] == [0, 2, 4, 6, 8]
