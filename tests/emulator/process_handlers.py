"""Plain handlers for processes, which find them here by their names."""

import os
import signal
import sys
from collections.abc import Awaitable, Iterator

import anyio
import anyio.lowlevel

from orchestrator.emulator.workers.handlers import HandlerInput, progress_update


def act(job: HandlerInput) -> object:
    """Does what its input says."""
    match job["input"]:
        case {"do": "exit"}:
            os._exit(7)
        case {"do": "crash"}:
            os.kill(os.getpid(), signal.SIGSEGV)
        case {"do": "leave"}:
            sys.exit(3)
        case {"do": "raise"}:
            raise ValueError("bad")
        case {"do": "hang"}:
            progress_update(job, os.getpid())
            signal.pause()
        case {"do": "talk"}:
            print("nobody's business")
            sys.stdin.read()
            progress_update(job, "talked")
            return "said"
        case _:
            pass
    return {"pid": os.getpid(), **job["input"]}


def count(job: HandlerInput) -> Iterator[object]:
    progress_update(job, "begun")
    yield from range(job["input"]["n"])


def later(job: HandlerInput) -> Awaitable[object]:
    async def wait() -> object:
        await anyio.lowlevel.checkpoint()
        if job["input"].get("fail"):
            raise ValueError("too late")
        return job["input"]

    return wait()
