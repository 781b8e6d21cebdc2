"""Plain handlers in processes of their own: they use more than one core, can be stopped, and take nobody with them.

A process runs one execution at a time. One that crashes fails its execution; one whose execution is stopped is killed.
Another is started when there is work for it.
"""

import os
import signal
import subprocess
import sys
from contextlib import suppress

import anyio
import msgspec
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from orchestrator.emulator.jobs.jobs import JobExecution, WorkerResult
from orchestrator.emulator.workers.handler_process import (
    LENGTH_BYTES,
    EndedMessage,
    Message,
    ReportMessage,
    frame,
    location_of,
)
from orchestrator.emulator.workers.handlers import Handler, HandlerReport

_BROKEN = (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)
"""What talking to a process ends in that is no more."""

_DECODER = msgspec.msgpack.Decoder(ReportMessage | EndedMessage)

EXIT_S = 5.0
"""How long a process that has closed its pipe may take to end."""

_PROGRAM = (
    "import sys; sys.path[:] = {path!r}; "
    "from orchestrator.emulator.workers.handler_process import run_process; run_process()"
)


def kill_session(process: Process) -> None:
    """Kill a process that was started in a session of its own, and its children; ended ones are fine."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


class HandlerPool:
    """At most so many `processes` of one handler. Raises UsageError for a handler that no other process can find."""

    def __init__(self, handler: Handler, processes: int) -> None:
        self._place = location_of(handler)
        self._slots = anyio.CapacityLimiter(processes)
        self._idle: list[_HandlerProcess] = []

    async def run(self, execution: JobExecution, report: HandlerReport) -> WorkerResult:
        """Run one execution, as soon as a process is free. When this is cancelled, its process is killed."""
        async with self._slots:
            process = await self._free()
            try:
                result = await process.run(execution, report)
            except _BROKEN:
                return WorkerResult(error=await process.epitaph())
            except BaseException:
                await process.kill()
                raise
            self._idle.append(process)
            return result

    async def aclose(self) -> None:
        """Kill what is idle."""
        while self._idle:
            await self._idle.pop().kill()

    async def _free(self) -> "_HandlerProcess":
        while self._idle:
            process = self._idle.pop()
            if process.is_alive:
                return process
            await process.kill()
        return _HandlerProcess(
            await anyio.open_process(
                [sys.executable, "-c", _PROGRAM.format(path=sys.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=None,
                start_new_session=True,  # Ctrl-C is the emulator's alone
            ),
            frame(self._place),
        )


class _HandlerProcess:
    """One process, and what is to be said to it before anything else."""

    def __init__(self, process: Process, greeting: bytes) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._stdin = process.stdin
        self._stdout = BufferedByteReceiveStream(process.stdout)
        self._unsaid = greeting

    @property
    def is_alive(self) -> bool:
        return self._process.returncode is None

    async def run(self, execution: JobExecution, report: HandlerReport) -> WorkerResult:
        """Raises one of `_BROKEN` if the process is no more."""
        unsaid, self._unsaid = self._unsaid, b""
        await self._stdin.send(unsaid + frame(execution))
        while True:
            match await self._receive():
                case EndedMessage(result=result):
                    return result
                case ReportMessage(kind=kind, output=output):
                    report(kind, output)

    async def _receive(self) -> Message:
        length = int.from_bytes(await self._stdout.receive_exactly(LENGTH_BYTES), "big")
        message: Message = _DECODER.decode(await self._stdout.receive_exactly(length))
        return message

    async def epitaph(self) -> str:
        """How a process ended that is no more, in a sentence."""
        with anyio.move_on_after(EXIT_S):  # its pipe may break a moment before it is gone
            await self._process.wait()
        await self.kill()
        code = self._process.returncode or 0
        if code >= 0:
            return f"the handler's process ended with exit code {code}"
        return f"the handler's process was ended by {signal.Signals(-code).name}"

    async def kill(self) -> None:
        """End it with its children, whatever it does."""
        with anyio.CancelScope(shield=True):
            kill_session(self._process)
            await self._process.aclose()
