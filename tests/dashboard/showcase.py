"""A ledger worth looking at, made by real processes: runs that are done, failed, held and under way, and pipelines with
some fourteen fires each. The engine and the emulator are at work until the block of `at_work` ends.

python -m tests.dashboard.showcase FOLDER      makes one in a new folder, and works on it until Ctrl-C
"""

import json
import os
import select
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from tests.benchmarks.processes import ORCHESTRATOR, clean_environment

LEDGER: Final = "ledger.db"
SECONDS_MAX: Final = 60.0
WAIT_S_MAX: Final = 600.0

HANDLERS: Final = """
import asyncio

async def caption(job):
    given = job["input"]
    number = given["n"]
    await asyncio.sleep(given.get("seconds", 0.02))
    if given.get("broken"):
        raise ImportError("libcudnn.so.9: cannot open shared object file: No such file or directory")
    match number % 40:
        case 7:
            raise ValueError(f"the seed of picture {number} is <b>no</b> number")
        case 9:
            raise MemoryError(f"CUDA out of memory: tried to allocate {number} MiB")  # LONG
        case 11:
            raise ConnectionError(f"no answer from 10.0.0.{number % 250}")
    return {"caption": f"A picture of a fox, no. {number} <script>alert(1)</script>"}


async def steady(job):
    await asyncio.sleep(0.01)
    return {"tokens": len(str(job["input"]))}


async def moody(job):
    await asyncio.sleep(0.01)
    if job["input"].get("bad"):
        raise RuntimeError("the index of 14 parts cannot be read")
    return job["input"]
"""

PIPELINES: Final[Mapping[str, str]] = {
    "captions": """
name = "captions"
input = "inbox/{fire:%Y-%m-%d}.jsonl"
[schedule]
cron = "0 2 * * *"
zone = "Europe/Berlin"
parallel = 4
[stage.caption]
endpoint = "cap01"
max-failed = "40%"
max-attempts = 1
[stage.embed]
from = "caption"
endpoint = "steady"
""",
    "dedupe": """
name = "dedupe"
input = "inbox/{fire:%Y-%m-%d}.jsonl"
[schedule]
cron = "45 4 * * *"
parallel = 4
[stage.dedupe]
endpoint = "moody"
max-failed = "5%"
max-attempts = 1
[notify]
on = ["failed"]
command = "cat > told.json"
""",
    "titles": """
name = "titles"
input = "inbox/{fire:%Y-%m-%d}.jsonl"
[schedule]
cron = "15 3 * * 1-5"
parallel = 4
[stage.title]
endpoint = "steady"
""",
}


@dataclass(frozen=True)
class Showcase:
    """What is there to look at, and the processes that work on it."""

    folder: Path
    environment: Mapping[str, str]
    engine: "subprocess.Popen[bytes]"

    @property
    def ledger(self) -> Path:
        return self.folder / LEDGER

    def run(self, *words: str) -> None:
        """Has a run begun, which the engine carries out: the process that asked for it follows it, and is killed."""
        words = ("run", *words, "--ledger", LEDGER)
        with started(
            words, self.folder, self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        ) as process:
            assert process.stderr is not None
            is_followed = False
            for line in process.stderr:
                if b"works on this ledger" in line:
                    is_followed = True
                    process.kill()
        assert is_followed, words

    def call(self, *words: str) -> str:
        """What a command prints. Raises AssertionError where it fails."""
        return _call(self.folder, self.environment, words)


@contextmanager
def at_work(folder: Path, *, jobs: int = 600, pipelines: int = len(PIPELINES)) -> Iterator[Showcase]:
    """The showcase in `folder`, with an engine that works on it. The run `night-2` lasts for minutes.

    Of more pipelines than there are the further ones are like the last.
    """
    names = [*PIPELINES, *(f"titles-{n}" for n in range(len(PIPELINES), pipelines))]
    (folder / "handlers.py").write_text(HANDLERS.replace("LONG", "x" * 160))
    _inputs(folder, names, jobs)
    serve = ("serve", "--listen", "127.0.0.1:0", "--ledger", LEDGER)
    with _emulator(folder) as environment, started(serve, folder, environment, stdout=subprocess.DEVNULL) as engine:
        showcase = Showcase(folder=folder, environment=environment, engine=engine)
        until(folder, "SELECT count(*) FROM heartbeats", 1)
        for name in names:
            showcase.call("apply", f"{name}.toml")
        twice = ("--max-attempts", "2")
        showcase.run("night-1.jsonl", "--endpoint", "cap01", *twice, "--budget", "25", "--price-per-second", "0.0004")
        showcase.run("week.jsonl", "--endpoint", "cap01", "--name", "week 48/titles", *twice)
        showcase.run("broken.jsonl", "--endpoint", "broken", "--name", "broken-image")
        for name in names:
            showcase.call("backfill", name, "--from", "2026-11-06", "--to", "2026-11-19", "--parallel", "9", "--yes")
        showcase.run("night-2.jsonl", "--endpoint", "slow", *twice, "--limit", "run=20/1")
        until(folder, "SELECT min(ended_at IS NOT NULL) * count(DISTINCT pipeline_id) FROM flows", len(names))
        until(folder, "SELECT count(*) FROM jobs WHERE ended_at IS NOT NULL AND run_id = 1", jobs)
        yield showcase


def _inputs(folder: Path, names: Sequence[str], jobs: int) -> None:
    (folder / "inbox").mkdir()
    for name in names:
        text = PIPELINES.get(name) or PIPELINES["titles"].replace('"titles"', f'"{name}"')
        (folder / f"{name}.toml").write_text(text)
    for day in range(1, 31):
        bad = {"bad": True} if 16 <= day <= 18 else {}
        _rows(folder / "inbox" / f"2026-11-{day:02}.jsonl", [{"n": 40 * n + day, **bad} for n in range(8)])
    _rows(folder / "night-1.jsonl", [{"n": n} for n in range(jobs)])
    _rows(folder / "week.jsonl", [{"n": 40 * n} for n in range(50)])
    _rows(folder / "broken.jsonl", [{"n": n, "broken": True} for n in range(200)])
    _rows(folder / "night-2.jsonl", [{"n": n, "seconds": 0.6} for n in range(10 * jobs)])


def _rows(path: Path, inputs: Sequence[Mapping[str, object]]) -> None:
    rows = ({"custom_id": f"{path.stem}-{each['n']}", "input": each} for each in inputs)
    path.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))


@contextmanager
def _emulator(folder: Path) -> Iterator[Mapping[str, str]]:
    handlers = [f"{name}=handlers.py:{name}" for name in ("steady", "moody")]
    words = ("emulate", "--port", "0", "--json", "--handler", "handlers.py:caption", "--workers", "16", "--seed", "1")
    endpoints = (word for handler in handlers for word in ("--endpoint", handler))
    with started([*words, *endpoints], folder, clean_environment(), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], SECONDS_MAX)
        assert ready, "the emulator does not start"
        told = json.loads(process.stdout.readline())
        yield {**clean_environment(), **told["environment"]}


@contextmanager
def started(
    words: Sequence[str], folder: Path, environment: Mapping[str, str], *, stdout: int, stderr: int | None = None
) -> "Iterator[subprocess.Popen[bytes]]":
    """A process of the program until the block ends. What it says stands in `COMMAND.log`."""
    with (folder / f"{words[0]}.log").open("ab") as log:
        process = subprocess.Popen(
            [*ORCHESTRATOR, *words],
            cwd=folder,
            env=dict(environment),
            stdout=stdout,
            stderr=log if stderr is None else stderr,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(SECONDS_MAX / 6)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for stream in filter(None, (process.stdout, process.stderr)):
            stream.close()


def _call(folder: Path, environment: Mapping[str, str], words: Sequence[str]) -> str:
    done = subprocess.run(
        [*ORCHESTRATOR, *words, "--ledger", LEDGER], cwd=folder, env=dict(environment), capture_output=True, text=True,
        timeout=SECONDS_MAX, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stderr}"
    return done.stdout


def until(folder: Path, query: str, enough: int) -> None:
    """Until the query counts so many, looked at ten times a second."""
    deadline, found = time.perf_counter() + WAIT_S_MAX, None
    while True:
        if (folder / LEDGER).exists():
            with closing(sqlite3.connect(f"file:{folder / LEDGER}?mode=ro", uri=True)) as connection:
                try:
                    [[found]] = connection.execute(query).fetchall()
                except sqlite3.OperationalError:
                    found = None
            if found is not None and found >= enough:
                return
        assert time.perf_counter() < deadline, f"{query}: {found} of {enough}"
        time.sleep(0.1)


def main() -> None:
    """Makes one in the folder that is named, and says how to look at it."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True)
    with at_work(folder) as showcase, suppress(KeyboardInterrupt):
        print(f"at work; look: orchestrator dashboard --ledger {showcase.ledger}")
        showcase.engine.wait()


if __name__ == "__main__":
    main()
