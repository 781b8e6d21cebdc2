"""Starts the program without loading it anew: a process that has imported it forks for each start.

    process = Starter().start("orchestrator.cli:main", ["status"], folder=tmp_path, environment={})

Half a second of imports is most of what such a short program costs, and the tests start it more than a hundred times.
What is forked is a process of its own in everything else: its own id, environment, folder, standard streams and end. A
few tests start the installed command all the same, as a user would paste it.

The starter forks a guard, and the guard the program: so it is simply waited for, by somebody who has nothing else to do.
"""

import gc
import importlib
import os
import pickle
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any, Final, NoReturn

import anyio

import orchestrator

ROOT: Final = Path(__file__).resolve().parents[2]
MESSAGE_BYTES: Final = 256 * 1024
"""What a start may take: its arguments and its environment."""

NUMBER_BYTES: Final = 8
"""A process id, or how it ended, on the wire."""

PRELOADED: Final = ("tests.system.service", "uvloop", "aiohttp", "pydantic.main", "pydantic.type_adapter")


class Forked:
    """A process that a starter has made; what the tests use of a `subprocess.Popen`."""

    def __init__(self, report: socket.socket, streams: Sequence[int]) -> None:
        self._report = report
        stdin, stdout, stderr = streams
        self.stdin, self.stdout, self.stderr = FileIO(stdin, "w"), FileIO(stdout), FileIO(stderr)
        self.pid = self._number()
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code, or None as long as it runs; negative is the signal that ended it."""
        if self.returncode is None and select.select([self._report], [], [], 0)[0]:
            return self.wait()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Waits for its end. Raises `subprocess.TimeoutExpired` after `timeout` seconds."""
        if self.returncode is None:
            if not select.select([self._report], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("a forked process", timeout or 0)
            self.returncode = self._number()
            self._report.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Sends it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def _number(self) -> int:
        told = self._report.recv(NUMBER_BYTES)
        assert told, "the starter died"
        return int.from_bytes(told, signed=True)


class Starter:
    """The process that forks. It ends with the one that made it."""

    def __init__(self) -> None:
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.system.starter", str(theirs.fileno())],
                cwd=ROOT,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )

    def start(
        self,
        target: str,
        arguments: Sequence[str],
        *,
        folder: Path,
        environment: Mapping[str, str],
        before: Callable[[], object] | None = None,
    ) -> Forked:
        """Starts `target` (`module:function`) with these arguments, its streams on pipes.

        The new process calls `before` first, which travels as a pickle.
        """
        (stdin, into), (out, stdout), (err, stderr) = os.pipe(), os.pipe(), os.pipe()
        report, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        message = pickle.dumps([target, arguments, str(folder), dict(environment), before])
        assert len(message) <= MESSAGE_BYTES
        try:
            socket.send_fds(self._channel, [message], [stdin, stdout, stderr, theirs.fileno()])
        finally:
            theirs.close()
            for end in (stdin, stdout, stderr):
                os.close(end)
        return Forked(report, [into, out, err])

    def close(self) -> None:
        """Ends it; what it has started goes on."""
        self._channel.close()
        self._process.wait()


def main() -> None:
    """The starter itself: forks for each message of the channel, whose number is its argument."""
    channel = socket.socket(fileno=int(sys.argv[1]))
    _preload()
    signal.signal(signal.SIGCHLD, _reap)
    while True:
        message, numbers, _, _ = socket.recv_fds(channel, MESSAGE_BYTES, 4)
        if not message:
            return
        if os.fork() == 0:
            channel.close()
            _guard(pickle.loads(message), numbers)
        for number in numbers:
            os.close(number)


def _reap(*_: object) -> None:
    """Takes notice of the guards that have ended; their processor time counts as ours then."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _preload() -> None:
    for name in (
        *PRELOADED,
        *(module.name for module in pkgutil.walk_packages(orchestrator.__path__, "orchestrator.")),
    ):
        importlib.import_module(name)
    anyio.run(anyio.sleep, 0)  # AnyIO imports half of itself when it begins
    gc.collect()
    gc.freeze()  # else the first collection of each child would copy every page


def _guard(start: Sequence[Any], numbers: Sequence[int]) -> NoReturn:
    """Starts the program, tells its id, waits for it, and tells how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    *streams, report = numbers
    pid = os.fork()
    if pid == 0:
        os.close(report)
        _become(start, streams)
    for number in streams:
        os.close(number)
    os.write(report, pid.to_bytes(NUMBER_BYTES, signed=True))
    _, status = os.waitpid(pid, 0)
    os.write(report, os.waitstatus_to_exitcode(status).to_bytes(NUMBER_BYTES, signed=True))
    os._exit(0)


def _become(start: Sequence[Any], streams: Sequence[int]) -> NoReturn:
    """The program: what the interpreter and the installed command do before and after its `main`."""
    target, arguments, folder, environment, before = start
    code: object = 1
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may have been started to ignore it (nohup)
    try:
        if before is not None:
            before()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        module, _, function = target.partition(":")
        sys.argv = [module, *arguments]
        getattr(importlib.import_module(module), function)()
        code = 0
    except SystemExit as end:
        code = end.code or 0
    except BaseException:  # noqa: BLE001  as the interpreter tells it
        traceback.print_exc()
    sys.stdout.flush()
    os._exit(code if isinstance(code, int) else 1)


if __name__ == "__main__":
    main()
