"""The program as a user starts it, and the service of `service.py`: two real processes, and what a test does to them.

Nothing is waited for by the clock: a test waits for a counter of the service, a line of the program, or its exit.
"""

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
SERVICE: Final = Path(__file__).with_name("service.py")
BIN: Final = Path(sys.executable).parent
ORCHESTRATOR: Final = str(BIN / "orchestrator")
KEY: Final = "the-key-of-the-tests"
SECONDS_MAX: Final = 60.0
LOOKS_MAX: Final = 500_000
"""Looks at a ledger, of some hundredths of a millisecond each."""

FAST: Final = ("--limit", "run=1000/1:100", "--limit", "status=2000/1:200", "--limit", "retry=200/1:20")
"""Limits that keep a test short."""


class Service:
    """The service, running. `url` is its address."""

    def __init__(self, **options: Any) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(SERVICE), json.dumps(options)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        self.url = f"http://127.0.0.1:{int(self._process.stdout.readline())}"

    def log(self) -> dict[str, Any]:
        """`accepted`: the inputs of all accepted submissions; `counted`: its counters."""
        told: dict[str, Any] = self._ask("/log")
        return told

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
        self._process.communicate()


@dataclass(frozen=True)
class Ended:
    """How a process ended. A negative exit code is the signal that killed it."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def summary(self) -> Any:
        """What `--json` printed."""
        return json.loads(self.stdout)


class Program:
    """The command, running; it is killed when it takes too long."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        folder: Path,
        environment: Mapping[str, str],
        before: Callable[[], None] | None = None,
        within_s: float = SECONDS_MAX,
    ) -> None:
        self._within_s = within_s
        self._process = subprocess.Popen(
            [ORCHESTRATOR, *arguments],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=before,  # noqa: PLW1509  sets a limit; no thread of ours runs beside it
            text=True,
        )
        self._said: list[str] = []
        self._watchdog = threading.Timer(within_s, self._process.kill)
        self._watchdog.start()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def until_said(self, text: str) -> str:
        """Reads what it says until a line contains `text`; returns that line."""
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._said.append(line)
            if text in line:
                return line
        raise AssertionError(f"never said {text!r}, but: {''.join(self._said)}")

    def signal(self, number: int) -> None:
        """Sends it a signal."""
        assert self._process.poll() is None, "it has ended already"
        self._process.send_signal(number)

    def ended(self, within_s: float | None = None, given: str | None = None) -> Ended:
        """Waits for its end. `given` goes to its standard input."""
        within_s = within_s or self._within_s
        try:
            stdout, stderr = self._process.communicate(given, timeout=within_s)
        finally:
            self._watchdog.cancel()
            self._process.kill()
        return Ended(self._process.returncode, stdout, "".join(self._said) + stderr)

    def kill(self) -> Ended:
        """SIGKILL, at work."""
        self.signal(signal.SIGKILL)
        ended = self.ended()
        assert ended.exit_code == -signal.SIGKILL, ended
        return ended


@dataclass(frozen=True)
class Desk:
    """A folder to work in, and the program in it."""

    folder: Path

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """The environment without what could change the program's settings, with a key, and with the command."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("ORCHESTRATOR_", "RUNPOD_"))}
        path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
        return kept | {"PATH": path, "ORCHESTRATOR_API_KEY": KEY, "NO_COLOR": "1"} | dict(more or {})

    def start(
        self,
        *arguments: str,
        environ: Mapping[str, str] | None = None,
        before: Callable[[], None] | None = None,
        within_s: float = SECONDS_MAX,
    ) -> Program:
        """Starts `orchestrator` with these arguments; `environ` comes on top of `environment`."""
        environment = self.environment(environ)
        return Program(arguments, folder=self.folder, environment=environment, before=before, within_s=within_s)

    def call(
        self,
        *arguments: str,
        given: str | None = None,
        environ: Mapping[str, str] | None = None,
        before: Callable[[], None] | None = None,
    ) -> Ended:
        """Runs `orchestrator` with these arguments to its end; `given` is its standard input."""
        return self.start(*arguments, environ=environ, before=before).ended(given=given)

    def shell(self, command: str) -> Ended:
        """Runs what a user would paste."""
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment(), shell=True, capture_output=True, text=True,
            timeout=SECONDS_MAX, check=False,
        )  # fmt: skip
        return Ended(done.returncode, done.stdout, done.stderr)

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
        found = None
        with closing(sqlite3.connect(f"file:{self.folder / ledger}?mode=ro", uri=True)) as connection:
            for _ in range(LOOKS_MAX):
                found = connection.execute("SELECT count(*) FROM jobs WHERE state = 'outstanding'").fetchone()[0]
                if found == jobs:
                    return
        raise AssertionError(f"never {jobs} outstanding, at last {found}")

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
