"""Calling a handler as the service's own worker does. Whatever it does wrong ends its job and nothing else."""

import inspect
import json
import socket
from collections.abc import Awaitable
from contextlib import aclosing
from functools import partial

import anyio
import anyio.from_thread
import anyio.to_thread
import msgspec

from orchestrator.emulator.jobs.jobs import JobExecution, WorkerResult
from orchestrator.emulator.workers.handlers import (
    AGGREGATE,
    Handler,
    HandlerJob,
    HandlerReport,
    ReportKind,
    encode,
    is_async,
)
from orchestrator.user_code import UserCodeError, awaited, call, each, each_awaited, error_message, trace_of


async def run_handler(
    handler: Handler, execution: JobExecution, threads: anyio.CapacityLimiter, report: HandlerReport
) -> WorkerResult:
    """Call the handler for one execution, in this process; whatever it does becomes a Result.

    A generator's chunks go to `report`, as does progress. A plain function runs in a thread. When this is cancelled
    the thread is left behind, and what it returns is dropped.
    """
    on_loop = partial(_on_loop, report)
    try:
        if inspect.isasyncgenfunction(handler):
            return await _drain_async(handler, call(_job, execution, on_loop))
        if is_async(handler):
            return call(result_of, await awaited(call(handler, call(_job, execution, on_loop))))
        outcome = await anyio.to_thread.run_sync(
            call_plain, handler, execution, on_loop, abandon_on_cancel=True, limiter=threads
        )
        return outcome if isinstance(outcome, WorkerResult) else call(result_of, await awaited(outcome))
    except UserCodeError as error:
        return failure_result(error.error, execution)


def call_plain(handler: Handler, execution: JobExecution, report: HandlerReport) -> WorkerResult | Awaitable[object]:
    """Call a plain function or generator in the thread at hand; never raises.

    A plain function may hand back an awaitable: awaiting it is the caller's affair.
    """
    try:
        job = call(_job, execution, report)
        if inspect.isgeneratorfunction(handler):
            return _drain(handler, job)
        value = call(handler, job)
        if inspect.isawaitable(value):
            return value
        return call(result_of, value)
    except UserCodeError as error:
        return failure_result(error.error, execution)


def result_of(value: object) -> WorkerResult:
    """What the official worker reports for a handler's return value (as observed)."""
    if not isinstance(value, dict):
        return WorkerResult(output=encode(value))
    output = dict(value)
    error, refresh = output.pop("error", None), bool(output.pop("refresh_worker", None))
    if error and not isinstance(error, str):
        return WorkerResult(
            refresh=refresh
        )  # the service drops an error that is not a string: COMPLETED without output
    # `{}` is no output, and neither is what is left of an error without more keys.
    return WorkerResult(
        output=encode(output) if output else None, error=_sendable(error) if error else None, refresh=refresh
    )


def failure_result(error: BaseException, execution: JobExecution) -> WorkerResult:
    """The failure of a handler that raised: a JSON document inside a string (as observed)."""
    document = {
        "error_type": str(type(error)),
        "error_message": error_message(error),
        "error_traceback": trace_of(error),
        "hostname": socket.gethostname(),
        "worker_id": execution.worker_id,
    }
    return WorkerResult(error=json.dumps(document))


def _job(execution: JobExecution, report: HandlerReport) -> HandlerJob:
    job = HandlerJob(report, {"id": execution.job_id, "input": msgspec.json.decode(execution.input)})
    if execution.s3_config is not None:
        job["s3Config"] = msgspec.json.decode(execution.s3_config)
    return job


async def _drain_async(handler: Handler, job: HandlerJob) -> WorkerResult:
    stream = _Stream(handler, job)
    try:
        made = call(handler, job)
        try:
            async with aclosing(each_awaited(made)) as chunks:
                async for chunk in chunks:
                    call(stream.put, chunk)
        finally:
            await awaited(made.aclose())
        return call(stream.result)
    except UserCodeError as error:
        return stream.failure(error)


def _drain(handler: Handler, job: HandlerJob) -> WorkerResult:
    stream = _Stream(handler, job)
    try:
        for chunk in each(call(handler, job)):
            call(stream.put, chunk)
        return call(stream.result)
    except UserCodeError as error:
        return stream.failure(error)


class _Stream:
    """What a generator yields, on its way; an error among it ends the job (as observed)."""

    def __init__(self, handler: Handler, job: HandlerJob) -> None:
        self._report = job.report
        self._parts: list[object] | None = [] if getattr(handler, AGGREGATE, False) else None

    def put(self, chunk: object) -> None:
        if isinstance(chunk, dict) and chunk.get("error"):
            raise _ErrorYielded(_sendable(str(chunk["error"])))
        if self._parts is not None:
            self._parts.append(chunk)
        if not self._report(ReportKind.CHUNK, encode(chunk)):
            raise _ErrorYielded("nobody waits for this execution any more")  # ends a generator that a thread runs

    def result(self) -> WorkerResult:
        return WorkerResult() if self._parts is None else WorkerResult(output=encode(self._parts))

    def failure(self, error: UserCodeError) -> WorkerResult:
        """What comes of it. Raises it again where it was an exit, which fails as that of any function does."""
        if isinstance(error.error, _ErrorYielded):
            return WorkerResult(error=str(error.error))
        if error.is_exit:
            raise error
        return WorkerResult(error=_sendable(f"handler: {error.message} \ntraceback: {error.trace()}"))


class _ErrorYielded(Exception):
    """A generator has yielded `{"error": ...}`."""


def _on_loop(report: HandlerReport, kind: ReportKind, output: bytes) -> bool:
    """Takes a report in any thread and hands it on in the event loop's."""
    try:
        anyio.get_current_task()
    except RuntimeError:  # not on the event loop
        return anyio.from_thread.run_sync(report, kind, output)
    return report(kind, output)


def _sendable(error: str) -> str:
    """The text as UTF-8 can carry it: a lone surrogate in it would break every answer that shows the job."""
    return error.encode(errors="replace").decode()
