"""The user's code: what it is given, finding it, and a stand-in for it. `calls` calls it.

A handler is written as for the official worker: `def handler(job)`, with `job["id"]` and `job["input"]`, plain or
async.
"""

import importlib.util
import inspect
import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import anyio
import anyio.from_thread
import anyio.to_thread

from orchestrator.errors import UsageError

Job = dict[str, Any]
"""What a handler is given: `id`, `input`, and `s3Config` if the submission brought one."""

Handler = Callable[[Job], Any]
"""Takes a job; returns its output, or `{"error": "..."}`, or an awaitable of either; or generates chunks."""


AGGREGATE = "return_aggregate_stream"
"""A generator function with this attribute true has all its chunks as its job's output, too."""


LOADED_PREFIX = "_handler_"
"""Begins the name of a module that was loaded from a user's file."""


class Report(Protocol):
    """Where a handler's words go before its end. Both say whether anybody still waits for the execution."""

    def progress(self, output: bytes) -> bool: ...

    def chunk(self, output: bytes) -> bool: ...


class HandlerJob(Job):
    """The job as a handler is given it; `progress_update` finds its way back through it, from any thread."""

    def __init__(self, report: Report, fields: Job) -> None:
        super().__init__(fields)
        self.report = report


def progress_update(job: Job, progress: object) -> None:
    """Show `progress` (anything that is JSON) as the job's output while it is in progress.

    For handlers that the emulator runs; the official `runpod.serverless.progress_update` is for those that run under
    the official worker. Called from the event loop, or from the thread or the process that a plain handler runs in.
    """
    if not isinstance(job, HandlerJob):
        raise UsageError("progress_update must be given the very job that the handler was given")
    job.report.progress(encode(progress))


def encode(value: object) -> bytes:
    """JSON, as strict as the worker's own encoder: a date or a set is not JSON there. Raises TypeError.

    The official worker posts nothing at all for such a value, and the job hangs until its execution times out. A
    clear failure is of more use.
    """
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"the handler's return value is not JSON: {error}") from error


def load_handler(reference: str, called: str = "handler") -> Handler:
    """The function behind `FILE.py:FUNCTION`. Raises UsageError, which says what it is `called`, if there is none.

    The file is run as `python FILE.py` would (its folder can be imported from), but not under the name `__main__`:
    what starts a worker at its bottom stays quiet.
    """
    file, colon, name = reference.rpartition(":")
    if not colon or not file or not name:
        raise UsageError(f"{called} {reference!r}: write it as FILE.py:FUNCTION")
    path = Path(file)
    if not path.is_file():
        raise UsageError(f"{called} {reference!r}: there is no file {file}")
    handler = getattr(_import(path, f"{called} {reference!r}"), name, None)
    if handler is None:
        raise UsageError(f"{called} {reference!r}: {file} defines no {name}")
    if not callable(handler):
        raise UsageError(f"{called} {reference!r}: {name} is not a function")
    return handler  # type: ignore[no-any-return]  # anything callable will do


def _import(path: Path, named: str) -> object:
    module_name = f"{LOADED_PREFIX}{path.stem}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{named}: {path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    sys.modules[module_name] = module  # dataclasses and pickle look their module up by name
    try:
        spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        del sys.modules[module_name]
        raise UsageError(f"{named}: importing {path} failed: {type(error).__name__}: {error}") from error
    return module


def is_async(handler: Handler) -> bool:
    """Whether calling it gives an awaitable, so that it needs no thread."""
    calls = (handler, type(handler).__call__)
    return any(inspect.iscoroutinefunction(call) or inspect.isasyncgenfunction(call) for call in calls)


class SimulatedHandler:
    """A handler that takes time and echoes its input: load without user code, on any clock.

    `seconds` draws how long one execution takes from the generator given.
    """

    def __init__(self, rng: random.Random, *, seconds: Callable[[random.Random], float] = lambda _: 0.0) -> None:
        self._rng = rng
        self._seconds = seconds

    async def __call__(self, job: Job) -> object:
        await anyio.sleep(self._seconds(self._rng))
        return {"echo": job["input"]}
