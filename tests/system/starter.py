"""Starts the program without loading it anew: a process that has imported it forks for each start.

    process = Starter().start("orchestrator.cli:main", ["status"], folder=tmp_path, environment={})

Half a second of imports is most of what such a short program costs, and the tests start it more than a hundred times.
What is forked is a process of its own in everything else: its own id, environment, folder, standard streams and end. A
few tests start the installed command all the same, as a user would paste it.

What the program makes when it first needs it (what Typer makes of the commands, what SQLAlchemy makes of statements) is
most of what is left of a short start: so the process that forks has itself carried out a run first.
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
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import chdir, suppress
from io import FileIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NoReturn

import orchestrator
from orchestrator.cli import program
from tests.system.processes import FAST, KEY

ROOT: Final = Path(__file__).resolve().parents[2]
MESSAGE_BYTES: Final = 256 * 1024
"""What a start may take: its arguments and its environment."""

NUMBER_BYTES: Final = 8
"""A process id, or how it ended, on the wire."""

READY: Final = b"ready"

PLAYED: Final = (
    ("run", "in.jsonl", "--endpoint", "ep1", "--listen", "127.0.0.1:0", "--output", "out.jsonl", "--quiet", *FAST),
    ("status",),
    ("resume", "in", "--quiet"),
    ("results", "in"),
)
"""What the process that forks does itself, before it does."""

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

    def until_ready(self) -> None:
        """Returns once it has loaded the program, which takes longer than most of what it starts. To be called once."""
        assert self._channel.recv(MESSAGE_BYTES) == READY, "it has ended"

    def close(self) -> None:
        """Ends it; what it has started goes on."""
        self._channel.close()
        self._process.wait()


def main() -> None:
    """The starter itself: forks for each message of the channel, whose number is its argument."""
    channel = socket.socket(fileno=int(sys.argv[1]))
    _preload()
    channel.send(READY)
    ended, ending = socket.socketpair()
    ending.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)  # what nobody handles wakes nobody either
    signal.set_wakeup_fd(ending.fileno())
    reports: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([channel, ended], [], [])
        if ended in ready:
            ended.recv(MESSAGE_BYTES)
            _report_ends(reports)
        if channel not in ready:
            continue
        message, numbers, _, _ = socket.recv_fds(channel, MESSAGE_BYTES, 4)
        if not message:
            return
        *streams, report = numbers
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for number in (channel.detach(), ended.detach(), ending.detach(), report, *reports.values()):
                os.close(number)
            _become(pickle.loads(message), streams)
        for number in streams:
            os.close(number)
        reports[pid] = report
        os.write(report, pid.to_bytes(NUMBER_BYTES, signed=True))


def _report_ends(reports: dict[int, int]) -> None:
    """Tells whoever waits for one of `reports`, by process id, how that has ended."""
    with suppress(ChildProcessError):
        while (end := os.waitpid(-1, os.WNOHANG))[0]:
            report = reports.pop(end[0])
            with suppress(BrokenPipeError):  # of a test that has given up
                os.write(report, os.waitstatus_to_exitcode(end[1]).to_bytes(NUMBER_BYTES, signed=True))
            os.close(report)


def _preload() -> None:
    for name in (
        *PRELOADED,
        *(module.name for module in pkgutil.walk_packages(orchestrator.__path__, "orchestrator.")),
    ):
        importlib.import_module(name)
    with TemporaryDirectory() as folder:
        _play(Path(folder))
    gc.collect()
    gc.freeze()  # else the first collection of each child would copy every page


def _play(folder: Path) -> None:
    """Begins as most tests do, in this process: what the program makes when it first needs it, each start has made."""
    (reading, into), (out, writing), told = os.pipe(), os.pipe(), os.dup(sys.stderr.fileno())
    service = os.fork()
    if service == 0:
        os.close(into)
        _become(("tests.system.service:main", [], folder, {}, None), [reading, writing, told])
    for number in (reading, writing, told):
        os.close(number)
    (folder / "in.jsonl").write_text('{"n": 1}\n{"n": 2, "failures": 1}\n')
    os.environ.clear()  # each start has its own
    os.environ["ORCHESTRATOR_API_KEY"] = KEY
    thresholds = gc.get_threshold()
    with FileIO(into, "w") as options, os.fdopen(out) as said, chdir(folder):
        options.write(b"{}\n")
        os.environ["ORCHESTRATOR_SERVERLESS_URL"] = f"http://127.0.0.1:{int(said.readline())}"
        for words in PLAYED:
            with suppress(SystemExit):
                program()([*words])
    os.waitpid(service, 0)
    gc.set_threshold(*thresholds)
    for thread in set(threading.enumerate()) - {threading.main_thread()}:
        if not thread.daemon:
            thread.join()  # it has been told to end, and is not to be missing from a fork in the middle of something


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
