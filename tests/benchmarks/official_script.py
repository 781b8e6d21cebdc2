"""What a careful user would write with the official SDK: the same jobs, without a ledger.

    python -m tests.benchmarks.official_script INPUT OUTPUT IN_FLIGHT

Runs each input of a JSONL file with at most IN_FLIGHT jobs in flight, asks for each once a second, and writes the
results. Nothing survives its end, an answer that gets lost is an exception, and the limits are not counted. The service
is the one that RUNPOD_ENDPOINT_BASE_URL names. Prints the seconds from the first request to the last result.
"""

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Final, TextIO

import runpod  # type: ignore[import-untyped]  # the official SDK has no types
from runpod import AsyncioEndpoint
from runpod.http_client import AsyncClientSession  # type: ignore[import-untyped]

POLL_S: Final = 1.0
FINAL: Final = frozenset({"COMPLETED", "FAILED", "TIMED_OUT", "CANCELLED"})


async def run_one(endpoint: AsyncioEndpoint, room: asyncio.Semaphore, row: dict[str, object], output: TextIO) -> None:
    async with room:
        job = await endpoint.run(row["input"])
        state = None
        while state not in FINAL:
            await asyncio.sleep(POLL_S)  # noqa: TID251  as the SDK itself does
            state = await job.status()
        assert state == "COMPLETED"
        output.write(json.dumps({"custom_id": row["custom_id"], "output": await job.output()}) + "\n")


async def run_all(rows: list[dict[str, object]], target: Path, in_flight: int) -> float:
    runpod.api_key = "benchmark"
    room = asyncio.Semaphore(in_flight)
    started = time.perf_counter()
    with target.open("w") as output:
        async with AsyncClientSession() as session, asyncio.TaskGroup() as group:
            endpoint = AsyncioEndpoint("benchmark", session)
            for row in rows:
                group.create_task(run_one(endpoint, room, row, output))
    return time.perf_counter() - started


if __name__ == "__main__":
    inputs = [json.loads(line) for line in Path(sys.argv[1]).read_text().splitlines()]
    print(asyncio.run(run_all(inputs, Path(sys.argv[2]), int(sys.argv[3]))))
