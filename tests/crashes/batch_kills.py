"""A run by the service's own Batch at an emulator, killed as batches are made, filled, finalized and read."""

import json
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from tests.system.emulators import emulated
from tests.system.processes import KEY, SECONDS_MAX, Desk, Program

PATIENCE_S: Final = 500.0
LOOK_S: Final = 0.01

HANDLER: Final = """
def handler(job):
    return {"n": job["input"]["n"]}
"""

RUN: Final = (
    *("run", "rows.jsonl", "--name", "night", "--endpoint", "ep1", "--via", "batch", "--json"),
    *("--output", "results.jsonl", "--limit", "batch=1000/1:10"),
)
"""Pages are read as fast as they come: a test has not the night for it."""

FILE: Final = """
batch-wait = "5s"
batch-result-retention = "40s"
"""
"""So it is asked every ten seconds whether anything has ended."""


@contextmanager
def emulator(desk: Desk) -> Iterator[str]:
    """The URL of an emulator whose batches begin after two seconds."""
    desk.write("handler.py", HANDLER)
    with emulated(
        desk,
        *("--handler", "handler.py:handler", "--key", KEY),
        *("--batch-delay", "2", "--batch-workers", "40", "--batch-append-ids"),
        within_s=PATIENCE_S,
    ) as url:
        yield url


def figures(url: str) -> dict[str, Any]:
    """What the emulator says that it has done, by endpoint."""
    with urllib.request.urlopen(f"{url}/emulator/stats?jobs=0", timeout=SECONDS_MAX) as answer:
        told: dict[str, Any] = json.load(answer)["endpoints"]
    return told


def asked(url: str) -> int:
    """How many requests about batches there have been."""
    requests: int = figures(url).get("ep1", {}).get("operations", {}).get("batch", {}).get("accepted", 0)
    return requests


def killed(desk: Desk, url: str, moments: Sequence[int]) -> tuple[Program, int]:
    """The run that is left after kills, each once so many requests have come, and how many there were."""
    environ = {"ORCHESTRATOR_SERVERLESS_URL": url}
    kills = 0
    program = desk.start(*RUN, environ=environ, within_s=PATIENCE_S)
    for moment in moments:
        while asked(url) < moment:
            if program.is_over:
                return program, kills
            time.sleep(LOOK_S)
        program.kill()
        kills += 1
        program = desk.start(*RUN, environ=environ, within_s=PATIENCE_S)
    return program, kills
