"""The process that runs a plain handler for the emulator, one execution after the other.

It reads executions from its standard input and writes what comes of them to its standard output, each message after
its length. What the handler itself prints goes to standard error. The other end is `handler_pool`.
"""

import os
import signal
import sys
import threading
from collections.abc import Awaitable
from pathlib import Path
from typing import BinaryIO

import anyio
import msgspec

from orchestrator.emulator.jobs.jobs import JobExecution, WorkerResult
from orchestrator.emulator.workers.handler_call import call_plain, failure_result, result_of
from orchestrator.emulator.workers.handlers import Handler, ReportKind, load_handler
from orchestrator.errors import UsageError
from orchestrator.user_code import LOADED_PREFIX, UserCodeError, awaited, call, import_function

LENGTH_BYTES = 4
"""Before each message stands its length, big-endian."""


class FunctionLocation(msgspec.Struct, frozen=True, kw_only=True):
    """Where another process finds a function: in a module that it can import, or else in a file."""

    name: str
    module: str | None = None
    file: str | None = None


class ReportMessage(msgspec.Struct, frozen=True, tag="report"):
    """What the handler says before the end of its execution."""

    kind: ReportKind
    output: bytes


class EndedMessage(msgspec.Struct, frozen=True, tag="ended"):
    """The execution has ended, and the process waits for the next."""

    result: WorkerResult


Message = ReportMessage | EndedMessage


def location_of(handler: Handler) -> FunctionLocation:
    """Raises UsageError for what no other process can find by its name: closures, lambdas, methods, objects."""
    name = getattr(handler, "__qualname__", "")
    module = sys.modules.get(getattr(handler, "__module__", None) or "")
    if module is None or getattr(module, name, None) is not handler:
        raise UsageError(f"{handler!r} cannot run in a process: it must be a function at the top level of a file")
    if module.__name__ != "__main__" and not module.__name__.startswith(LOADED_PREFIX):
        return FunctionLocation(name=name, module=module.__name__)
    if module.__file__ is None:
        raise UsageError(f"{handler!r} cannot run in a process: it stands in no file")
    return FunctionLocation(name=name, file=str(Path(module.__file__).resolve()))


def find(place: FunctionLocation) -> Handler:
    """The function at that place. Raises UsageError."""
    if place.module is None:
        return load_handler(f"{place.file}:{place.name}")
    return import_function(place.module, place.name, "handler")


def frame(message: msgspec.Struct) -> bytes:
    """The message as it goes through a pipe."""
    payload = msgspec.msgpack.encode(message)
    return len(payload).to_bytes(LENGTH_BYTES, "big") + payload


class _Pipe:
    """Where a handler's reports leave, from whichever thread."""

    def __init__(self, sink: BinaryIO) -> None:
        self._sink = sink
        self._lock = threading.Lock()

    def send(self, message: Message) -> None:
        with self._lock:
            self._sink.write(frame(message))
            self._sink.flush()

    def report(self, kind: ReportKind, output: bytes) -> bool:
        self.send(ReportMessage(kind, output))
        return True  # an execution that nobody waits for any more is killed with its process


def serve_executions(source: BinaryIO, sink: BinaryIO) -> None:
    """Find the handler at the place that comes first, then run executions until there are no more."""
    pipe = _Pipe(sink)
    handler = find(msgspec.msgpack.decode(_read(source), type=FunctionLocation))
    while raw := _read(source):
        execution = msgspec.msgpack.decode(raw, type=JobExecution)
        outcome = call_plain(handler, execution, pipe.report)
        pipe.send(EndedMessage(outcome if isinstance(outcome, WorkerResult) else _awaited(outcome, execution)))


def _read(source: BinaryIO) -> bytes:
    """The next message; empty at the end."""
    return source.read(int.from_bytes(source.read(LENGTH_BYTES), "big"))


def _awaited(value: Awaitable[object], execution: JobExecution) -> WorkerResult:
    async def wait() -> WorkerResult:
        return call(result_of, await awaited(value))

    try:
        return anyio.run(wait)
    except UserCodeError as error:
        return failure_result(error.error, execution)


def run_process() -> None:
    """Take the standard streams away from the handler, and serve."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # no Ctrl-C comes here: an interrupt is what the handler raises
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    serve_executions(source, sink)
