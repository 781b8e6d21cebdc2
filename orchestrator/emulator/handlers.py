"""The user's code: finding it, calling it as the service's own worker does, and a stand-in for it.

A handler is written as for the official worker: `def handler(job)`, with `job["id"]` and `job["input"]`, plain or
async. Whatever it does wrong ends its job and nothing else.
"""

import importlib.util
import inspect
import json
import math
import random
import socket
import sys
import traceback
from collections.abc import Callable, Iterable
from contextlib import aclosing
from pathlib import Path
from typing import Any, Protocol

import anyio
import anyio.from_thread
import anyio.to_thread
import msgspec

from orchestrator.emulator.jobs import Execution, Result
from orchestrator.errors import UsageError

Job = dict[str, Any]
"""What a handler is given: `id`, `input`, and `s3Config` if the submission brought one."""

Handler = Callable[[Job], Any]
"""Takes a job; returns its output, or `{"error": "..."}`, or an awaitable of either; or generates chunks."""


AGGREGATE = "return_aggregate_stream"
"""A generator function with this attribute true has all its chunks as its job's output, too."""


class Report(Protocol):
    """Where a handler's words go before its end. Both say whether anybody still waits for the execution."""

    def progress(self, output: bytes) -> bool: ...

    def chunk(self, output: bytes) -> bool: ...


class HandlerJob(Job):
    """The job as a handler is given it; `progress_update` finds its way back through it."""

    def __init__(self, report: Report, fields: Job) -> None:
        super().__init__(fields)
        self.report = report


def progress_update(job: Job, progress: object) -> None:
    """Show `progress` (anything that is JSON) as the job's output while it is in progress.

    For handlers that run inside the emulator; the official `runpod.serverless.progress_update` is for those that run
    under the official worker. Called from the event loop or from the thread that a plain handler runs in.
    """
    if not isinstance(job, HandlerJob):
        raise UsageError("progress_update must be given the very job that the handler was given")
    raw = _encode(progress)
    try:
        anyio.get_current_task()
    except RuntimeError:  # not on the event loop
        anyio.from_thread.run_sync(job.report.progress, raw)
    else:
        job.report.progress(raw)


def load_handler(reference: str) -> Handler:
    """The function behind `FILE.py:FUNCTION`. Raises UsageError if there is none.

    The file is run as `python FILE.py` would (its folder can be imported from), but not under the name `__main__`:
    what starts a worker at its bottom stays quiet.
    """
    file, colon, name = reference.rpartition(":")
    if not colon or not file or not name:
        raise UsageError(f"handler {reference!r}: write it as FILE.py:FUNCTION")
    path = Path(file)
    if not path.is_file():
        raise UsageError(f"handler {reference!r}: there is no file {file}")
    handler = getattr(_import(path, reference), name, None)
    if handler is None:
        raise UsageError(f"handler {reference!r}: {file} defines no {name}")
    if not callable(handler):
        raise UsageError(f"handler {reference!r}: {name} is not a function")
    return handler  # type: ignore[no-any-return]  # anything callable will do


def _import(path: Path, reference: str) -> object:
    module_name = f"_handler_{path.stem}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"handler {reference!r}: {path} is not a Python file")
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
        raise UsageError(f"handler {reference!r}: importing {path} failed: {type(error).__name__}: {error}") from error
    return module


def is_async(handler: Handler) -> bool:
    """Whether calling it gives an awaitable, so that it needs no thread."""
    calls = (handler, type(handler).__call__)
    return any(inspect.iscoroutinefunction(call) or inspect.isasyncgenfunction(call) for call in calls)


def is_generator(handler: Handler) -> bool:
    """Whether it streams what it yields."""
    return inspect.isgeneratorfunction(handler) or inspect.isasyncgenfunction(handler)


async def run_handler(
    handler: Handler, execution: Execution, threads: anyio.CapacityLimiter, report: Report | None = None
) -> Result:
    """Call the handler for one execution; whatever it does becomes a Result.

    A generator's chunks go to `report`, as does progress. A plain function runs in a thread. When this is cancelled
    the thread is left behind, and what it returns is dropped.
    """
    try:
        job = _job(execution, report or _Nobody())
        if is_generator(handler):
            return await _run_generator(handler, job, threads)
        value = await handler(job) if is_async(handler) else await _call_in_thread(handler, job, threads)
        return result_of(value)
    except BaseException as error:
        # Python's own exits and a handler's stray CancelledError are its failures too; only our cancellation goes on.
        if isinstance(error, anyio.get_cancelled_exc_class()) and anyio.current_effective_deadline() == -math.inf:
            raise
        return Result(error=_describe(error, execution.worker_id))


def _job(execution: Execution, report: Report) -> HandlerJob:
    job = HandlerJob(report, {"id": execution.job_id, "input": msgspec.json.decode(execution.input)})
    if execution.s3_config is not None:
        job["s3Config"] = msgspec.json.decode(execution.s3_config)
    return job


async def _run_generator(handler: Handler, job: HandlerJob, threads: anyio.CapacityLimiter) -> Result:
    """Stream what it yields; an error among it ends the job (as observed)."""
    parts: list[object] | None = [] if getattr(handler, AGGREGATE, False) else None
    try:
        if inspect.isasyncgenfunction(handler):
            async with aclosing(handler(job)) as chunks:
                async for chunk in chunks:
                    _stream(job, chunk, parts)
        else:
            await _call_in_thread(lambda job: _stream_all(job, handler(job), parts), job, threads)
    except _ErrorYielded as error:
        return Result(error=str(error))
    except Exception as error:  # noqa: BLE001  # whatever user code raises
        return Result(error=_sendable(f"handler: {error} \ntraceback: {traceback.format_exc()}"))
    return Result() if parts is None else Result(output=_encode(parts))


def _stream_all(job: HandlerJob, chunks: Iterable[object], parts: list[object] | None) -> None:
    for chunk in chunks:
        anyio.from_thread.run_sync(_stream, job, chunk, parts)


def _stream(job: HandlerJob, chunk: object, parts: list[object] | None) -> None:
    if isinstance(chunk, dict) and chunk.get("error"):
        raise _ErrorYielded(_sendable(str(chunk["error"])))
    if parts is not None:
        parts.append(chunk)
    if not job.report.chunk(_encode(chunk)):
        raise _ErrorYielded("nobody waits for this execution any more")  # ends a generator that a thread runs


class _ErrorYielded(Exception):
    """A generator has yielded `{"error": ...}`."""


class _Nobody:
    """Takes reports for an execution that nobody follows."""

    def progress(self, output: bytes) -> bool:
        return bool(output)

    def chunk(self, output: bytes) -> bool:
        return bool(output)


async def _call_in_thread(
    handler: Callable[[HandlerJob], object], job: HandlerJob, threads: anyio.CapacityLimiter
) -> object:
    def call() -> tuple[object, BaseException | None]:
        try:
            return handler(job), None
        except BaseException as error:  # noqa: BLE001  # SystemExit must not reach the event loop, which it would end
            return None, error

    value, error = await anyio.to_thread.run_sync(call, abandon_on_cancel=True, limiter=threads)
    if error is not None:
        raise error
    return await value if inspect.isawaitable(value) else value


def result_of(value: object) -> Result:
    """What the official worker reports for a handler's return value (as observed)."""
    if not isinstance(value, dict):
        return Result(output=_encode(value))
    output = dict(value)
    error, refresh = output.pop("error", None), bool(output.pop("refresh_worker", None))
    if error and not isinstance(error, str):
        return Result(refresh=refresh)  # the service drops an error that is not a string: COMPLETED without output
    # `{}` is no output, and neither is what is left of an error without more keys.
    return Result(
        output=_encode(output) if output else None, error=_sendable(error) if error else None, refresh=refresh
    )


def _sendable(error: str) -> str:
    """The text as UTF-8 can carry it: a lone surrogate in it would break every answer that shows the job."""
    return error.encode(errors="replace").decode()


def _encode(value: object) -> bytes:
    """JSON, as strict as the worker's own encoder: a date or a set is not JSON there.

    The official worker posts nothing at all for such a value, and the job hangs until its execution times out. A
    clear failure is of more use.
    """
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"the handler's return value is not JSON: {error}") from error


def _describe(error: BaseException, worker_id: str) -> str:
    """The error of a handler that raised: a JSON document inside a string (as observed)."""
    try:
        message, trace = str(error), "".join(traceback.format_exception(error))
    except Exception:  # noqa: BLE001  # an exception of the user's may fail at being printed, too
        message, trace = "(the error cannot be printed)", ""
    document = {
        "error_type": str(type(error)),
        "error_message": message,
        "error_traceback": trace,
        "hostname": socket.gethostname(),
        "worker_id": worker_id,
    }
    return json.dumps(document)


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
