"""The user's code: what it is given, and finding it. `handler_call` calls it.

A handler is written as for the official worker: `def handler(job)`, with `job["id"]` and `job["input"]`, plain or
async.
"""

import inspect
import json
from collections.abc import Callable
from enum import StrEnum
from typing import Any

from orchestrator.errors import UsageError
from orchestrator.user_code import load_function

HandlerInput = dict[str, Any]
"""What a handler is given: `id`, `input`, and `s3Config` if the submission brought one."""

Handler = Callable[[HandlerInput], Any]
"""Takes a job; returns its output, or `{"error": "..."}`, or an awaitable of either; or generates chunks."""


AGGREGATE = "return_aggregate_stream"
"""A generator function with this attribute true has all its chunks as its job's output, too."""


class ReportKind(StrEnum):
    """What a handler may say of its job before its end."""

    PROGRESS = "progress"
    CHUNK = "chunk"


HandlerReport = Callable[[ReportKind, bytes], bool]
"""Where that goes, with its JSON. It says whether anybody still waits for the execution."""


class HandlerJob(HandlerInput):
    """The job as a handler is given it; `progress_update` finds its way back through it, from any thread."""

    def __init__(self, report: HandlerReport, fields: HandlerInput) -> None:
        super().__init__(fields)
        self.report = report


def progress_update(job: HandlerInput, progress: object) -> None:
    """Show `progress` (anything that is JSON) as the job's output while it is in progress.

    For handlers that the emulator runs; the official `runpod.serverless.progress_update` is for those that run under
    the official worker. Called from the event loop, or from the thread or the process that a plain handler runs in.
    """
    if not isinstance(job, HandlerJob):
        raise UsageError("progress_update must be given the very job that the handler was given")
    job.report(ReportKind.PROGRESS, encode(progress))


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
    """The function behind `FILE.py:FUNCTION`. Raises UsageError, which says what it is `called`, if there is none."""
    return load_function(reference, called)


def is_async(handler: Handler) -> bool:
    """Whether calling it gives an awaitable, so that it needs no thread."""
    calls = (handler, type(handler).__call__)
    return any(inspect.iscoroutinefunction(call) or inspect.isasyncgenfunction(call) for call in calls)
