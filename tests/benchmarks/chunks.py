"""Rows of milliseconds that travel together: how soon 100,000 of them are done within the contract's limits, at the
emulator in a process of its own, and what one poisonous row among them costs.
"""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.benchmarks.figures import Figure
from tests.benchmarks.processes import ORCHESTRATOR, Verdict, orchestrator

ROWS: Final = 100_000
CHUNK: Final = 16
WORKERS: Final = 60
SECONDS_MAX: Final = 120.0
KILLED_AFTER_S: Final = 1_800.0

HANDLER: Final = """
import asyncio

async def double(job):
    rows = job["input"]["items"]
    await asyncio.sleep(0.02 * len(rows))
    if any(row.get("poison") for row in rows):
        raise RuntimeError("it does not fit into memory")
    return [{"twice": 2 * row["n"]} for row in rows]
"""


def chunks(rows: int = ROWS) -> list[Figure]:
    """The time from the start of both processes to the end of the run."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        took = _run(folder, rows, "--chunk", str(CHUNK), "--max-attempts", "1")
        results = (folder / "out.jsonl").read_bytes().count(b"\n")
        failed = [json.loads(line)["custom_id"] for line in (folder / "errors.jsonl").read_text().splitlines()]
    assert (results, failed) == (rows - 1, ["poison"]), (took.stderr, results, failed)
    return [
        Figure(
            benchmark="chunks",
            name=f"{rows:,} rows of 20 ms, {CHUNK} together, one of them poisonous",
            value=took.wall_s,
            unit="s",
            at_most=SECONDS_MAX,
        ),
        Figure(benchmark="chunks", name="rows", value=rows / took.wall_s, unit="/s"),
    ]


def _run(folder: Path, rows: int, *flags: str) -> Verdict:
    (folder / "handler.py").write_text(HANDLER)
    with (folder / "in.jsonl").open("w") as file:
        for n in range(rows):
            row = {"n": n, "poison": True} if n == rows // 2 else {"n": n}
            custom_id = "poison" if n == rows // 2 else f"row-{n}"
            file.write(json.dumps({"custom_id": custom_id, "input": row}) + "\n")
    run = _command("run", "in.jsonl", "--endpoint", "ep", "--output", "out.jsonl", "--errors", "errors.jsonl", *flags)
    emulate = ("emulate", "--handler", "handler.py:double", "--workers", str(WORKERS), "--port", "0", "--run", run)
    return orchestrator(emulate, folder=folder, seconds_max=KILLED_AFTER_S)


def _command(*arguments: str) -> str:
    words: Sequence[str] = (*ORCHESTRATOR, *arguments)
    return shlex.join(words)
