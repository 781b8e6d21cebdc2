"""A training of three days, of which no execution may take more than half: it goes on from checkpoint to checkpoint.

It needs no account: the service is the emulator, in which an hour passes in a twentieth of a second. Once the
worker is taken away, and what it had done since the last checkpoint that was seen is done again.

    python examples/training.py
"""

import tempfile
import time
from pathlib import Path
from typing import Any

import anyio

from orchestrator import Orchestrator, emulator
from orchestrator.worker import LongJob

HOUR_S = 0.05
"""An hour of the training, in seconds of ours."""

STEPS = 12
"""In an hour: a step has to be shorter than what is left when the time is up, ten minutes here."""

HOURS = 72
SAVED_EVERY = 6
TAKEN_AWAY_AT = 47
UNLUCKY = 2
"""The segment that this happens to."""


def train(job: dict[str, Any]) -> dict[str, Any]:
    """What a worker does. A real one has `from worker import LongJob`, and its checkpoints lead to files in storage."""
    with LongJob(job) as long:
        first = long.checkpoint["steps"] if long.checkpoint else 0
        for step in range(first + 1, HOURS * STEPS + 1):
            time.sleep(HOUR_S / STEPS)
            hour = step // STEPS
            if hour == TAKEN_AWAY_AT and long.segment == UNLUCKY:
                raise RuntimeError("the worker was taken away")
            if step % (SAVED_EVERY * STEPS) == 0:
                long.report(hour / HOURS, f"hour {hour}", checkpoint={"steps": step})
            if long.time_is_up:
                return long.unfinished(checkpoint={"steps": step})
        return {"hours": HOURS, "segments": long.segment}


async def main() -> None:
    ledger = Path(tempfile.mkdtemp(prefix="orchestrator-")) / "orchestrator.db"
    hour_s = 3_600.0
    async with (
        # So fast, what an emulator keeps for half an hour would be gone before anybody asked.
        emulator.serve(train, time_scale=hour_s / HOUR_S, retention_s=100 * hour_s) as service,
        Orchestrator(ledger, serverless_url=service.origin, api_key=service.key, listen="127.0.0.1:0") as orchestrator,
    ):
        run = await orchestrator.submit(
            [{"model": "base"}],
            endpoint="trainer",
            name="training",
            resumable=True,
            execution_timeout="36h",
            progress_every="2h",
            result_retention="100h",
        )
        async with anyio.create_task_group() as watching:
            watching.start_soon(watch, run)
            async for result in run.results():
                print(f"{result.output['hours']} hours, in {result.output['segments']} segments")
            watching.cancel_scope.cancel()


async def watch(run: Any) -> None:
    """Says how far the job is whenever that has changed; on the command line: `orchestrator progress --follow`."""
    told = None
    while True:
        for job in await run.progress():
            if job.message is not None and (job.segment, job.message) != told:
                told = job.segment, job.message
                print(f"segment {job.segment}: {job.message}, {job.share:.0%}")
        await anyio.sleep(HOUR_S)


if __name__ == "__main__":
    anyio.run(main)
