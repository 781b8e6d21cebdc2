"""People's steps and checks in a process of their own: nothing that they do there changes ours.

They have its folder, its environment, its signals and its imports for themselves, and print to standard error. One that
ends its process (by a crash of a library, or by `os._exit`) has failed, and the next one has a new process; one that
hangs can be ended.
"""

import os
import signal
import subprocess
import sys
import threading
import weakref
from contextlib import suppress
from typing import IO, Final

import msgspec

from orchestrator.engine.user_code.functions import PerformsTasks, Task, TaskResult, UserFunctions, UserProcessDied

LENGTH_BYTES: Final = 8
"""Before each message stands its length, big-endian."""

END_S: Final = 5.0
"""So long a process may take to be gone once it is killed."""

_PROGRAM: Final = (
    "import sys; sys.path[:] = {path!r}; from orchestrator.engine.user_code.process_main import main; main()"
)

_encode: Final = msgspec.msgpack.Encoder().encode
_answer: Final = msgspec.msgpack.Decoder(TaskResult).decode


class UserProcess:
    """One process, begun when something is to be done. Called in threads: a call waits for the one before it."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._end: weakref.finalize[[subprocess.Popen[bytes]], UserProcess] | None = None

    def do(self, task: Task) -> TaskResult:
        """Has it call a function, for as long as that takes. Raises `UserProcessDied`."""
        with self._turn:
            process = self._running()
            try:
                return self._asked(process, task)
            except (OSError, EOFError, ValueError):  # ValueError: it was closed meanwhile
                self.close()
                raise UserProcessDied(_epitaph(process)) from None

    def close(self) -> None:
        """Ends it, whatever it does; there will be another one when something is to be done."""
        end, self._end = self._end, None
        self._process = None
        if end is not None:
            end()

    def _running(self) -> "subprocess.Popen[bytes]":
        if self._process is not None and self._process.poll() is None:
            return self._process
        self.close()
        process = self._process = subprocess.Popen(  # noqa: S603  ourselves
            [sys.executable, "-c", _PROGRAM.format(path=sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is ours alone
        )
        self._end = weakref.finalize(self, _ended, process)
        return process

    @staticmethod
    def _asked(process: "subprocess.Popen[bytes]", task: Task) -> TaskResult:
        assert process.stdin is not None
        assert process.stdout is not None
        write(process.stdin, _encode(task))
        return _answer(read(process.stdout))


def write(sink: IO[bytes], message: bytes) -> None:
    """Sends a message. Raises `OSError`."""
    sink.write(len(message).to_bytes(LENGTH_BYTES, "big"))
    sink.write(message)
    sink.flush()


def read(source: IO[bytes]) -> bytes:
    """The next message. Raises `EOFError` where there is none any more."""
    return _exactly(source, int.from_bytes(_exactly(source, LENGTH_BYTES), "big"))


def _exactly(source: IO[bytes], length: int) -> bytes:
    found = source.read(length)
    if len(found) < length:
        raise EOFError
    return found


def _ended(process: "subprocess.Popen[bytes]") -> None:
    """Kills it, with all that it has begun."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(END_S)
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):  # what was on its way to it
                pipe.close()


def _epitaph(process: "subprocess.Popen[bytes]") -> str:
    with suppress(subprocess.TimeoutExpired):
        process.wait(END_S)  # it may be another thread that ends it
    code = process.returncode
    if code is not None and code < 0:
        return f"its process was ended by {signal.Signals(-code).name}"
    return f"its process has ended with exit code {code}"


def user_code() -> PerformsTasks:
    """What calls people's functions: in a process of their own, where this program can begin one like itself."""
    is_frozen = getattr(sys, "frozen", False) or not sys.executable
    return UserFunctions() if is_frozen else UserProcess()
