"""The program as a user starts it, and the service of `service.py`: two real processes, and what a test does to them.

Nothing is waited for by the clock: a test waits for a counter of the service, a line of the program, or its exit.
"""

import json
import os
import platform
import re
import selectors
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, Protocol, cast

from orchestrator.settings.parsers.name_parsers import MACHINE_CHARS_MAX

ROOT: Final = Path(__file__).resolve().parents[2]
SERVICE: Final = Path(__file__).with_name("service.py")
BIN: Final = Path(sys.executable).parent
ORCHESTRATOR: Final = str(BIN / "orchestrator")
KEY: Final = "the-key-of-the-tests"
HOST: Final = platform.node().partition(".")[0][:MACHINE_CHARS_MAX]
"""This machine, as people find its processes by it."""
SECONDS_MAX: Final = 60.0
READ_BYTES: Final = 64 * 1024
LOOK_EVERY_S: Final = 0.001
"""What looks at processes at work leave the processor to them."""

FAST: Final = ("--limit", "run=1000/1:100", "--limit", "status=2000/1:200", "--limit", "retry=200/1:20")
"""Limits that keep a test short."""


class Process(Protocol):
    """What is used of a process: a `subprocess.Popen` whose streams are pipes without buffers, or what a `Starter` made."""

    @property
    def pid(self) -> int: ...
    @property
    def stdin(self) -> IO[bytes] | None: ...
    @property
    def stdout(self) -> IO[bytes] | None: ...
    @property
    def stderr(self) -> IO[bytes] | None: ...

    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, sig: int, /) -> None: ...
    def kill(self) -> None: ...


class Service:
    """The service, running. `url` is its address."""

    def __init__(self, process: Process | None = None, **options: Any) -> None:
        self._process = process or subprocess.Popen(
            [sys.executable, str(SERVICE)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(options).encode() + b"\n")
        self.url = f"http://127.0.0.1:{int(self._process.stdout.readline())}"

    def log(self) -> dict[str, Any]:
        """`accepted`: the inputs of all accepted submissions; `answered`: the ids that it has given, but for those of
        answers that it dropped; `counted`: its counters.
        """
        told: dict[str, Any] = self._ask("/log")
        return told

    def senders(self, after: int = 0) -> list[tuple[float, str, str, str]]:
        """When each request came, whose key it bore, which operation it was and at which endpoint, without the first so
        many.
        """
        return [
            (at, key, operation, endpoint) for at, key, operation, endpoint in self._ask(f"/senders/{after}")["senders"]
        ]

    def told(self) -> list[Any]:
        """The messages that came, each with its `id`, `type` and `data`."""
        came: list[Any] = self._ask("/told")["told"]
        return came

    def accepted(self) -> list[Any]:
        """The inputs of all accepted submissions, in order."""
        inputs: list[Any] = self.log()["accepted"]
        return inputs

    def counted(self, what: str) -> int:
        """One counter: `accepted`, `dropped`, `finished`, `hooks_taken` …, and the requests of each operation."""
        return int(self.log()["counted"].get(what, 0))

    def wait(self, what: str, number: int) -> None:
        """Returns once the counter `what` has come to `number`."""
        self._ask(f"/wait/{what}/{number}")

    def change(self, **options: Any) -> None:
        """Other options from now on."""
        self._ask("/options", json.dumps(options).encode())

    def _ask(self, path: str, body: bytes | None = None) -> Any:
        with urllib.request.urlopen(self.url + path, body, timeout=SECONDS_MAX) as answer:
            return json.load(answer)

    def stop(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.wait()
        for stream in filter(None, (self._process.stdin, self._process.stdout, self._process.stderr)):
            stream.close()


@dataclass(frozen=True)
class Verdict:
    """How a process ended. A negative exit code is the signal that killed it."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def summary(self) -> Any:
        """What `--json` printed."""
        return json.loads(self.stdout)


class Launch(Protocol):
    """Starts `orchestrator` with these arguments; the new process calls `before` first."""

    def __call__(
        self,
        arguments: Sequence[str],
        *,
        folder: Path,
        environment: Mapping[str, str],
        before: Callable[[], object] | None = None,
    ) -> Process: ...


def installed(
    arguments: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    before: Callable[[], object] | None = None,
) -> "subprocess.Popen[bytes]":
    """The command as it is installed."""
    return subprocess.Popen(
        [ORCHESTRATOR, *arguments],
        cwd=folder,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=before,  # noqa: PLW1509  sets a limit; no thread of ours runs beside it
        bufsize=0,
    )


class Program:
    """The command, running; it is killed when it takes too long."""

    def __init__(self, process: Process, *, within_s: float = SECONDS_MAX) -> None:
        self._process = process
        self._heard: dict[IO[bytes], bytearray] = {}
        self._open = selectors.DefaultSelector()
        for stream in (process.stdout, process.stderr):
            assert stream is not None
            self._heard[stream] = bytearray()
            self._open.register(stream, selectors.EVENT_READ)
        self._watchdog = _watchdog(process, within_s)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self._process.poll() is not None

    def until_said(self, text: str) -> str:
        """Reads what it says until a line contains `text`; returns that line."""
        while self._open.get_map():
            *lines, _ = self._said(self._process.stderr).split("\n")
            found = next((line for line in lines if text in line), None)
            if found is not None:
                return found
            self._hear()
        raise AssertionError(f"never said {text!r}, but: {self._said(self._process.stderr)}")

    @property
    def said(self) -> str:
        """What it has said until now."""
        while self._open.get_map() and self._open.select(timeout=0):
            self._hear()
        return self._said(self._process.stderr)

    def signal(self, number: int) -> None:
        """Sends it a signal."""
        assert self._process.poll() is None, "it has ended already"
        self._process.send_signal(number)

    def ended(self, within_s: float | None = None, given: str | None = None) -> Verdict:
        """Waits for its end, and kills it where that does not come. `given` goes to its standard input, unless it was
        given something before.
        """
        if within_s is not None:
            self._watchdog.cancel()
            self._watchdog = _watchdog(self._process, within_s)
        self.give(given or "")
        while self._open.get_map():
            self._hear()
        code = self._process.wait()
        self._watchdog.cancel()
        return Verdict(code, self._said(self._process.stdout), self._said(self._process.stderr))

    def kill(self) -> Verdict:
        """SIGKILL, at work."""
        self.signal(signal.SIGKILL)
        ended = self.ended()
        assert ended.exit_code == -signal.SIGKILL, ended
        return ended

    def give(self, text: str) -> None:
        """All that its standard input has."""
        assert self._process.stdin is not None
        if not self._process.stdin.closed:
            with self._process.stdin as stdin, suppress(BrokenPipeError):
                stdin.write(text.encode())

    def _hear(self) -> None:
        """Waits for more on either stream; one that has come to its end is closed."""
        for key, _ in self._open.select():
            stream = cast("IO[bytes]", key.fileobj)
            heard = os.read(stream.fileno(), READ_BYTES)
            self._heard[stream] += heard
            if not heard:
                self._open.unregister(stream)
                stream.close()

    def _said(self, stream: IO[bytes] | None) -> str:
        assert stream is not None
        return self._heard[stream].decode()


def _watchdog(process: Process, within_s: float) -> threading.Timer:
    watchdog = threading.Timer(within_s, process.kill)
    watchdog.daemon = True
    watchdog.start()
    return watchdog


def looks(within_s: float = SECONDS_MAX) -> Iterator[None]:
    """One for each look at a process at work, until what is waited for is given up."""
    over = threading.Event()
    watchdog = threading.Timer(within_s, over.set)
    watchdog.daemon = True
    watchdog.start()
    try:
        yield
        while not over.wait(LOOK_EVERY_S):
            yield
    finally:
        watchdog.cancel()


@dataclass(frozen=True)
class Desk:
    """A folder to work in, and the program in it, which `launch` starts."""

    folder: Path
    launch: Launch = installed

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """The environment without what could change the program's settings, with a key, and with the command."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("ORCHESTRATOR_", "RUNPOD_"))}
        path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
        # Without the breaker, which lets few go before the first has succeeded: many wait until much is outstanding.
        told = {"ORCHESTRATOR_API_KEY": KEY, "ORCHESTRATOR_BREAKER": "off"}
        return kept | told | {"PATH": path, "NO_COLOR": "1"} | dict(more or {})

    def start(
        self,
        *arguments: str,
        environ: Mapping[str, str] | None = None,
        before: Callable[[], object] | None = None,
        within_s: float = SECONDS_MAX,
    ) -> Program:
        """Starts `orchestrator` with these arguments; `environ` comes on top of `environment`."""
        process = self.launch(arguments, folder=self.folder, environment=self.environment(environ), before=before)
        return Program(process, within_s=within_s)

    def call(
        self,
        *arguments: str,
        given: str | None = None,
        environ: Mapping[str, str] | None = None,
        before: Callable[[], object] | None = None,
    ) -> Verdict:
        """Runs `orchestrator` with these arguments to its end; `given` is its standard input."""
        return self.start(*arguments, environ=environ, before=before).ended(given=given)

    def shell(self, command: str) -> Verdict:
        """Runs what a user would paste."""
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment(), shell=True, capture_output=True, text=True,
            timeout=SECONDS_MAX, check=False,
        )  # fmt: skip
        return Verdict(done.returncode, done.stdout, done.stderr)

    def write(self, name: str, text: str | bytes) -> Path:
        """A file in the folder."""
        path = self.folder / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def inputs(self, jobs: int, name: str = "prompts.jsonl", **more: object) -> Path:
        """An input of so many different jobs, `{"n": 0}` and so on, with custom_ids `row-0` and so on."""
        return self.write(name, lines_of({"custom_id": f"row-{n}", "n": n, **more} for n in range(jobs)))

    def rows(self, name: str = "results.jsonl") -> list[Any]:
        """The rows of a file of JSON Lines."""
        return [json.loads(line) for line in (self.folder / name).read_text(encoding="utf-8").splitlines()]

    def ids(self, name: str = "results.jsonl") -> list[str]:
        """The custom_ids of a file, in order."""
        return [row["custom_id"] for row in self.rows(name)]

    def until_outstanding(self, jobs: int, ledger: str = "orchestrator.db") -> None:
        """Returns once the ledger of a process at work holds the answers to so many submissions."""
        self.until_state("outstanding", jobs, ledger)

    def until_state(self, state: str, jobs: int, ledger: str = "orchestrator.db") -> None:
        """Returns once at least so many jobs are in `state` in the ledger of a process at work."""
        found = 0
        with closing(sqlite3.connect(f"file:{self.folder / ledger}?mode=ro", uri=True)) as connection:
            for _ in looks():
                found = connection.execute("SELECT count(*) FROM jobs WHERE state = ?", (state,)).fetchone()[0]
                if found >= jobs:
                    return
        raise AssertionError(f"never {jobs} {state}, at last {found}")

    def until_heartbeat(self, text: str, ledger: str = "orchestrator.db") -> None:
        """Returns once a process at work says `text` of itself in the ledger."""
        with closing(sqlite3.connect(f"file:{self.folder / ledger}?mode=ro", uri=True)) as connection:
            for _ in looks():
                if any(text in str(said) for (said,) in connection.execute("SELECT said FROM heartbeats")):
                    return
        raise AssertionError(f"no process ever said {text!r}")

    def states(self, ledger: str = "orchestrator.db") -> dict[str, int]:
        """Jobs in each state, read from a copy of a ledger: looking must not tidy up after a crash."""
        copies = self.folder / "copies"
        copies.mkdir(exist_ok=True)
        for suffix in ("", "-wal"):
            if (source := self.folder / f"{ledger}{suffix}").exists():
                shutil.copy(source, copies / f"{ledger}{suffix}")
        connection = sqlite3.connect(copies / ledger)
        try:
            return dict(connection.execute("SELECT state, count(*) FROM jobs GROUP BY state").fetchall())
        finally:
            connection.close()
            shutil.rmtree(copies)


def lines_of(rows: Any) -> str:
    """JSON Lines."""
    return "".join(json.dumps(row) + "\n" for row in rows)


def resume_command_in(text: str) -> str:
    """The command that a message tells the user to paste."""
    found = re.search(r"orchestrator resume [^\n]*", text)
    assert found, text
    return found[0].strip()
