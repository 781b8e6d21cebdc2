"""A handler under the unmodified official worker; its input says what it does. Run as a program."""

import os
import sys
import time
import types
from pathlib import Path
from typing import Any

import anyio

# Before it is loaded: to find out how fast the processor is takes a second, which nobody here wants to know.
sys.modules["cpuinfo"] = types.ModuleType("cpuinfo")
sys.modules["cpuinfo"].get_cpu_info = lambda: {"brand_raw": "a processor"}  # type: ignore[attr-defined]

import runpod  # type: ignore[import-untyped]  # noqa: E402

from orchestrator.worker import LongJob  # noqa: E402

LOOK_S = 0.05
"""How often it is looked whether the file is there that lets a job end."""


class NotJson:
    """What no encoder can send."""


def plain(job: dict[str, Any]) -> Any:
    given = job["input"]
    match given["do"]:
        case "return":
            return given["value"]
        case "raise":
            raise ValueError(given["value"])
        case "progress":
            runpod.serverless.progress_update(job, given["value"])
            while not Path(given["until"]).exists():
                time.sleep(LOOK_S)
            return "done"
        case "not json":
            return NotJson()
        case _:
            return {"worker": os.environ["RUNPOD_POD_ID"], **given}


async def sleeping(job: dict[str, Any]) -> Any:
    try:
        while (until := job["input"].get("until")) and not Path(until).exists():  # noqa: ASYNC110, ASYNC240
            await anyio.sleep(LOOK_S)
        await anyio.sleep(job["input"].get("seconds", 0))
    except anyio.get_cancelled_exc_class():
        Path(job["input"]["mark"]).write_text(job["id"])  # noqa: ASYNC240
        raise
    return {"worker": os.environ["RUNPOD_POD_ID"]}


def stream(job: dict[str, Any]) -> Any:
    for n in range(job["input"]["n"]):
        if n:
            if begins := job["input"].get("begins"):
                Path(begins).write_text("now")
            time.sleep(job["input"].get("pause", 0))
        yield {"n": n}
    if job["input"].get("fail") == "raise":
        raise ValueError("broken")
    if job["input"].get("fail") == "yield":
        yield {"error": "out of chunks"}


def long(job: dict[str, Any]) -> Any:
    with LongJob(job) as long:
        for n in range(3):
            long.report(n / 3, checkpoint={"n": n})
        return long.unfinished() if job["input"]["n"] % 2 else {"n": 3}


def hasty(job: dict[str, Any]) -> Any:
    """The same without the helper: its result does not wait for its reports."""
    for n in range(3):
        runpod.serverless.progress_update(job, {"n": n})
    return {"n": 3}


CONFIGS: dict[str, dict[str, Any]] = {
    "plain": {"handler": plain, "concurrency_modifier": lambda _: 8},
    "sleeping": {"handler": sleeping},
    "concurrent": {"handler": sleeping, "concurrency_modifier": lambda _: 4},
    "stream": {"handler": stream},
    "aggregate": {"handler": stream, "return_aggregate_stream": True},
    "refreshing": {"handler": plain, "refresh_worker": True},
    "long": {"handler": long, "concurrency_modifier": lambda _: 8},
    "hasty": {"handler": hasty, "concurrency_modifier": lambda _: 8},
}

if __name__ == "__main__":
    runpod.serverless.start(CONFIGS[os.environ["RUNPOD_ENDPOINT_ID"]])
