"""A rehearsal as a user makes it: the program, the emulator and the service's own worker, each a process of its own."""

import pytest

from tests.system.emulators import emulated
from tests.system.processes import FAST, Desk

pytestmark = pytest.mark.system

JOBS = 200
WORKERS = 2

HANDLER = """
import os

import runpod


async def square(job):
    return {"square": job["input"]["n"] ** 2, "worker": os.environ["RUNPOD_POD_ID"]}


# One at a time, the official worker takes a job a second at most.
runpod.serverless.start({"handler": square, "concurrency_modifier": lambda _: 25})
"""


@pytest.mark.slow
def test_a_batch_goes_through_two_processes_of_the_official_worker(desk: Desk) -> None:
    """Every job once, its result in its row, and both workers at work."""
    desk.write("handler.py", HANDLER)
    desk.inputs(JOBS)

    with emulated(desk, "--worker", "python handler.py --rp_log_level ERROR", "--workers", str(WORKERS)) as url:
        ended = desk.call(
            "run", "prompts.jsonl", "--endpoint", "squares", "--serverless-url", url, "--output", "results.jsonl",
            "--json", *FAST,
        )  # fmt: skip

    assert ended.exit_code == 0, ended
    assert ended.summary["jobs"] | {"total": JOBS, "succeeded": JOBS} == ended.summary["jobs"]
    assert ended.summary["requests"]["run"] == JOBS
    assert desk.rows("results.jsonl.errors.jsonl") == []
    rows = desk.rows()
    assert [(row["custom_id"], row["output"]["square"]) for row in rows] == [(f"row-{n}", n * n) for n in range(JOBS)]
    assert len({row["job_id"] for row in rows}) == JOBS
    assert len({row["output"]["worker"] for row in rows}) == WORKERS
