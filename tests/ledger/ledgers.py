"""Real ledgers for tests, and everything that is in their files."""

import math
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import anyio

from orchestrator.clock import Clock, SystemClock
from orchestrator.core.jobs.job import Job
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.formats.input.rows import Row
from orchestrator.ledger import Boot, Ledger, open_ledger
from orchestrator.ledger.commands.command_types import Argument, Command
from orchestrator.ledger.runs.input_rows import Clash, OpenIntake, packed_rows
from orchestrator.ledger.runs.intake_pace import Pace
from orchestrator.ledger.runs.runs import Run
from orchestrator.ledger.sites.sent_marks import this_boot
from orchestrator.settings.run_settings import RunSettings
from tests.engine.rows import empty_ledger
from tests.factories import SETTINGS, STEPS, a_row
from tests.simulation.clock import VirtualClock
from tests.simulation.database import CommitWatch, async_creator

Dump = dict[str, list[tuple[Any, ...]]]

PATHS: dict[State, tuple[str, ...]] = {
    State.QUEUED: (),
    State.SUBMITTING: ("claimed",),
    State.UNCERTAIN: ("claimed", "unanswered"),
    State.OUTSTANDING: ("claimed", "accepted"),
    State.SUCCEEDED: ("claimed", "accepted", "completed"),
    State.FAILED: ("claimed", "accepted", "abandoned"),
    State.CANCELLED: ("cancelled",),
}
"""How a job comes into each state."""


class OpenLedger(Protocol):
    """Opens a ledger, the same one each time."""

    def __call__(self, *, clock: Clock | None = None) -> AbstractAsyncContextManager[Ledger]: ...


def write_ledger(path: Path, write: Callable[[Ledger], Awaitable[object]], *, clock: Clock | None = None) -> None:
    """Has `write` do something to the ledger at `path`, which is made if there is none, in an event loop of its own."""

    async def whole() -> None:
        async with open_ledger(path, clock=clock or SystemClock()) as ledger, anyio.create_task_group() as tasks:
            await tasks.start(ledger.writer.serve)
            await write(ledger)
            tasks.cancel_scope.cancel()

    anyio.run(whole)


@asynccontextmanager
async def opened(
    path: Path,
    *,
    clock: Clock | None = None,
    boot: Boot = this_boot,
    commits: CommitWatch | None = None,
    sent: set[str] | None = None,
) -> AsyncIterator[Ledger]:
    """The ledger at `path` on virtual time, its writer at work; `sent` gets the statements that it executes."""
    clock = clock or VirtualClock()
    connect = async_creator(path, commits=commits, sent=sent)
    async with (
        open_ledger(empty_ledger(path), clock=clock, connect=connect, boot=boot) as ledger,
        anyio.create_task_group() as group,
    ):
        await group.start(ledger.writer.serve)
        await ledger.runs.intakes.clear_dead(Dependencies(clock=clock).holding_intakes(path))
        yield ledger
        group.cancel_scope.cancel()


@asynccontextmanager
async def interrupted(path: Path, *, clock: Clock | None = None) -> AsyncIterator[Ledger]:
    """The same, where no transaction is committed the first time: each is written once more, blocks and all."""
    commits = EachFailsFirst()
    async with opened(path, clock=clock, commits=commits) as ledger:
        ledger.patience.seconds = math.inf
        commits.is_at_work = True
        yield ledger
        commits.is_at_work = False


class CutOff(Pace):
    """Pages of two rows, beside whoever does what `meanwhile` does after the `last` one."""

    def __init__(self, last: int, meanwhile: Callable[[], Awaitable[object]]) -> None:
        super().__init__()
        self._last, self._meanwhile = last, meanwhile
        self.pages = 0

    @property
    def rows(self) -> int:
        return 2

    async def rest(self, rows: int, took_us: int) -> None:
        self.pages += 1
        if self.pages == self._last:
            await self._meanwhile()


class EachFailsFirst:
    """A disk that has no room for a transaction until it is tried again; but a ledger can be opened on it."""

    def __init__(self) -> None:
        self.is_at_work = False
        self._is_full = False

    def committing(self) -> bool:
        if self.is_at_work:
            self._is_full = not self._is_full
            if self._is_full:
                error = sqlite3.OperationalError("database or disk is full")
                error.sqlite_errorcode = sqlite3.SQLITE_FULL
                raise error
        return True

    def committed(self) -> None:
        """Nothing."""


async def a_run(
    ledger: Ledger,
    rows: Iterable[Row] | int = 1,
    *,
    name: str = "run",
    service_url: str = "https://api.example",
    endpoint: str = "ep",
    settings: RunSettings = SETTINGS,
) -> Run:
    """A new run with these rows (or so many), accepted."""
    run = await ledger.runs.create(
        name=name, service_url=service_url, endpoint=endpoint, source="/in.jsonl", settings=settings
    )
    await taken_in(ledger, run, [a_row(n) for n in range(1, rows + 1)] if isinstance(rows, int) else rows)
    return run


async def obeyed(
    ledger: Ledger,
    action: str,
    *,
    run: int | None = None,
    endpoint: int | None = None,
    argument: Argument | None = None,
) -> Command:
    """What is asked, as it stands once it was carried out."""
    number = await ledger.commands.ask(action, run=run, endpoint=endpoint, argument=argument)
    await ledger.commands.change_ledger(await ledger.commands.one(number))
    return await ledger.commands.one(number)


async def taken_in(ledger: Ledger, run: Run, *batches: Iterable[Row]) -> OpenIntake:
    """One whole intake of these batches, without a clash, accepted."""
    intake = await ledger.runs.intakes.start(run)
    for batch in batches:
        assert await added(ledger, intake, batch) == []
    await ledger.runs.intakes.accept(intake)
    return intake


async def added(ledger: Ledger, intake: OpenIntake, rows: Iterable[Row]) -> list[Clash]:
    """Hands rows to an intake; returns those that cannot be taken."""
    return await ledger.runs.intakes.add(intake, packed_rows(rows))


async def job_now(ledger: Ledger, job: int = 1) -> Job:
    """The job as it stands in the file."""
    (found,) = [each for each in await jobs_now(ledger) if each.id == job]
    return found


async def jobs_now(ledger: Ledger) -> list[Job]:
    """Every job as it stands in the file."""
    found = await ledger.jobs.of(range(1, await ledger.reports.audit.jobs_number() + 1))
    return [found[job] for job in sorted(found)]


async def brought_to(ledger: Ledger, state: State, at: int, *, job: int = 1) -> Job:
    """Job `job`, taken to `state` step by step from time `at` on."""
    return (
        (await gone(ledger, await job_now(ledger, job), *PATHS[state], at=at))[-1].after
        if PATHS[state]
        else (await job_now(ledger, job))
    )


async def gone(ledger: Ledger, job: Job, *names: str, at: int) -> list[Transition]:
    """The steps `names`, taken one after the other, a second apart from `at` on."""
    taken: list[Transition] = []
    for n, name in enumerate(names):
        step = STEPS[name][1](job, at + n * 1_000_000)
        assert await ledger.writer.step(step), name
        taken.append(step)
        job = step.after
    return taken


def dump(path: Path, *, without: Iterable[str] = ()) -> Dump:
    """Every row of every table."""
    with closing(sqlite3.connect(path)) as connection:
        names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        read = partial(_rows, connection)
        return {name: read(name) for name in names if name not in without}


def _rows(connection: sqlite3.Connection, table: str) -> list[tuple[Any, ...]]:
    return connection.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall()


def counted(path: Path) -> dict[str, int]:
    """The counts of run 1 that are not zero."""
    return {name: n for run, name, n in dump(path)["counts"] if run == 1 and n}
