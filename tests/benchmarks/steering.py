"""Steering from a second process: how soon the one that serves sees what is asked, and what becomes of 50,000 jobs.

The service is `orchestrator emulate` with the contract's limits; its jobs never end by themselves. What is asked goes
through the same functions as the commands of the command line; when it was asked and seen stands in the ledger.
"""

import json
import sqlite3
import subprocess
import time
import urllib.request
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import anyio

from orchestrator.api.admin.limits import limits_set
from orchestrator.api.runs.process_commands import cancel_jobs, control, prioritize, retry
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.limits.rate_pacer import CONTRACT_LIMITS, Limit, Operation
from orchestrator.settings.command_requests import ControlAction, RetryChoice
from tests.benchmarks.figures import Figure
from tests.benchmarks.processes import ORCHESTRATOR, clean_environment, running
from tests.benchmarks.runs import write_input

JOBS: Final = 50_000
AT_SERVICE: Final = 200
"""So many of them are at the service: by the contract's limit twenty seconds' worth of `/cancel`."""

SEEN_S_MAX: Final = 1.0
DONE_S_MAX: Final = 60.0
SECONDS_MAX: Final = 300.0
LOOK_S: Final = 0.02

RUN: Final = "night"
HANDLER: Final = "import asyncio\n\nasync def wait(job):\n    await asyncio.sleep(86_400)\n"


class Asked(NamedTuple):
    """A command as the ledger has it. Times are seconds since it was asked."""

    seen_s: float
    done_s: float
    jobs: int


def steering(jobs: int = JOBS, *, at_service: int = AT_SERVICE) -> list[Figure]:
    """A run of `jobs`, and as many as fit there besides, is paused, weighed, limited, cancelled and tried again."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "handler.py").write_text(HANDLER)
        write_input(folder / "input.jsonl", jobs + at_service)
        flags = ["--endpoint", "ep", "--name", RUN, "--ledger", "ledger.db", "--queue-depth", str(at_service)]
        flags += ["--breaker", "off"]  # with it no more than a few go before one has succeeded, and here none does
        with emulated("--handler", "handler.py:wait", folder=folder) as url:
            command = ["run", "input.jsonl", *flags, "--serverless-url", url, "--output", "results.jsonl"]
            with running(command, folder=folder):
                return anyio.run(partial(_measured, folder / "ledger.db", url, jobs, at_service))


@contextmanager
def emulated(*options: str, folder: Path) -> Iterator[str]:
    """The URL of an emulator in a process of its own."""
    command = [*ORCHESTRATOR, "emulate", "--port", "0", "--json", *options]
    with subprocess.Popen(
        command, cwd=folder, env=clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["urls"]["serverless_url"]
        finally:
            process.kill()


async def _measured(ledger: Path, url: str, jobs: int, at_service: int) -> list[Figure]:
    ask = _Asking(ledger)
    await ask.until(lambda: ask.counts().get(State.OUTSTANDING, 0) >= at_service)
    single = [
        await ask.one(partial(control, ledger, RUN, ControlAction.PAUSE)),
        await ask.one(partial(control, ledger, RUN, ControlAction.CONTINUE)),
        await ask.one(partial(prioritize, ledger, RUN, 3)),
        await ask.one(partial(limits_set, ledger, RUN, {Operation.RUN: Limit(500, 10.0, 100)})),
    ]
    cancelled, beside_cancel = await ask.many(partial(cancel_jobs, ledger, RUN, f"line<={jobs}"))
    await ask.until(lambda: ask.counts().get(State.CANCELLED, 0) == jobs)
    again = RetryChoice(where="state=cancelled", max_attempts=1)
    retried, beside_retry = await ask.many(partial(retry, ledger, RUN, chosen=again))
    single.append(await ask.one(partial(control, ledger, RUN, ControlAction.CANCEL)))
    started = time.perf_counter()
    await ask.until(lambda: ask.counts().get(State.CANCELLED, 0) == jobs + at_service)
    whole_s = time.perf_counter() - started
    assert (cancelled.jobs, retried.jobs) == (jobs, jobs)
    cancel = _operations(url)[Operation.CANCEL.value]
    limit = CONTRACT_LIMITS[Operation.CANCEL]
    many = f"{jobs:,} jobs"
    return [
        _seen("pause, unpause, priority, limits, cancel", single),
        _seen(f"pause and unpause while {many} are cancelled", beside_cancel),
        _seen(f"pause and unpause while {many} are queued again", beside_retry),
        _seen(f"jobs cancel and runs retry of {many}", [cancelled, retried]),
        _figure(f"{many} cancelled, as acknowledged", cancelled.done_s, "s", DONE_S_MAX),
        _figure(f"{many} queued again, as acknowledged", retried.done_s, "s", DONE_S_MAX),
        _figure(f"all cancelled, {at_service} of them at the service", whole_s, "s"),
        _figure(f"most /cancel in any {limit.window_s:.0f} s", cancel["window_max"], "requests", limit.requests),
        _figure("/cancel answered 429", cancel["refused"], "requests", 0),
    ]


def _seen(what: str, asked: list[Asked]) -> Figure:
    return _figure(f"{what}: seen", max(each.seen_s for each in asked), "s", SEEN_S_MAX)


def _figure(name: str, value: float, unit: str, at_most: float | None = None) -> Figure:
    return Figure(benchmark="steering", name=name, value=value, unit=unit, at_most=at_most)


class _Asking:
    """Asks, and looks into the ledger what came of it."""

    def __init__(self, ledger: Path) -> None:
        self._ledger = ledger

    async def one(self, ask: Callable[[], Coroutine[Any, Any, object]]) -> Asked:
        """What became of one command."""
        number = self._latest() + 1
        await ask()
        return await self._done(number)

    async def many(self, ask: Callable[[], Coroutine[Any, Any, object]]) -> tuple[Asked, list[Asked]]:
        """The same of a command about many jobs, and of a pause that is asked, and lifted, as soon as it was begun."""
        number = self._latest() + 1
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await self.until(lambda: self._is_begun(number))
            controls = (ControlAction.PAUSE, ControlAction.CONTINUE)
            beside = [await self.one(partial(control, self._ledger, RUN, action)) for action in controls]
        return await self._done(number), beside

    async def _done(self, number: int) -> Asked:
        await self.until(lambda: self._row(number)[2] is not None)
        asked_at, taken_at, done_at, progress = self._row(number)
        return Asked((taken_at - asked_at) / 1e6, (done_at - asked_at) / 1e6, progress)

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Waits until the ledger says so. Raises `TimeoutError`."""
        with anyio.fail_after(SECONDS_MAX):
            while not is_so():  # noqa: ASYNC110  another process makes it so
                await anyio.sleep(LOOK_S)

    def counts(self) -> dict[str, int]:
        """How many jobs are in each state; none before the ledger is made."""
        try:
            return dict(self._rows("SELECT name, n FROM counts"))
        except sqlite3.OperationalError:
            return {}

    def _latest(self) -> int:
        return int(self._rows("SELECT coalesce(max(id), 0) FROM commands")[0][0])

    def _is_begun(self, number: int) -> bool:
        return any(row[0] is not None for row in self._rows("SELECT taken_at FROM commands WHERE id = ?", number))

    def _row(self, number: int) -> Any:
        return self._rows("SELECT asked_at, taken_at, done_at, progress FROM commands WHERE id = ?", number)[0]

    def _rows(self, sql: str, *parameters: object) -> list[Any]:
        with closing(sqlite3.connect(f"file:{self._ledger}?mode=ro", uri=True)) as connection:
            return connection.execute(sql, parameters).fetchall()


def _operations(url: str) -> Any:
    """What the emulator has counted of the requests to the endpoint, by operation."""
    with urllib.request.urlopen(f"{url}/emulator/stats?jobs=0") as answer:
        return json.load(answer)["endpoints"]["ep"]["operations"]
