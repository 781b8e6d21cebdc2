"""Inputs out of an object store, and results into it: `python examples/object_store.py s3://bucket`.

It reads `in/*.jsonl` there, and writes `out/results.csv`. It needs the driver of that store, and credentials where that
looks for them, but no account: the endpoint is a function of ours, run by the embedded emulator.
"""

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any

from orchestrator import Orchestrator


def caption(job: dict[str, Any]) -> dict[str, str]:
    """What a worker does: it gets a job and returns its output."""
    return {"caption": f"A picture of {job['input']['prompt']}"}


async def main(bucket: str) -> None:
    ledger = Path(tempfile.mkdtemp(prefix="orchestrator-")) / "orchestrator.db"
    async with Orchestrator(ledger=ledger) as orc:
        run = await orc.submit(f"{bucket}/in/*.jsonl", endpoint=caption, name="captions")
        await run.wait()
        written = await run.export(f"{bucket}/out/results.csv", flatten=["output.caption"])
    print(f"{written.results} results in {written.output}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1].rstrip("/")))
