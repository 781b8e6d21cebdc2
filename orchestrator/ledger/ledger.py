"""The ledger as the rest of the program holds it: doors, writer and verbs under one roof."""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, TypeVar

import anyio
import msgspec
from anyio import to_thread
from anyio.abc import TaskStatus
from sqlalchemy import false, insert, select, update
from sqlalchemy.dialects.sqlite import insert as upsert
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.clock import Clock
from orchestrator.core import job as transitions
from orchestrator.core.job import Job, Transition
from orchestrator.core.notice import Notice
from orchestrator.core.pacing import Limit, Operation
from orchestrator.errors import UsageError, leading
from orchestrator.ledger import clocks, intakes, limits, migrations, reports, store
from orchestrator.ledger.database import Connect, Database
from orchestrator.ledger.line import HEAD, IsLate, Passed, TtlOf, line_walk, nobody_is_late
from orchestrator.ledger.lock import dispatcher_lock
from orchestrator.ledger.marks import Marks, Seal, new_number, this_boot
from orchestrator.ledger.place import Place
from orchestrator.ledger.reports import Run
from orchestrator.ledger.store import Payload
from orchestrator.ledger.tables import SCHEMA_VERSION, endpoints, runs
from orchestrator.ledger.writer import Settled, Subscriber, Then, Transaction, Writer
from orchestrator.settings import RunSettings
from orchestrator.units import MIB

Result = TypeVar("Result")
Boot = Callable[[], str | None]
"""What tells this boot of the machine from every other one, as `marks.this_boot` does."""

CLAIM_BYTES_MAX: Final = 64 * MIB
"""The inputs of one claim come to no more, unless it is a single one."""

_WRITE_NOTHING: Final = update(runs).values(name=runs.c.name).where(false())
"""Needs a ledger that can be written; `BEGIN IMMEDIATE` alone is content with a read-only one, and only reads it."""


class Claim(msgspec.Struct, frozen=True):
    """A job that is ours to send, and what to send."""

    job: Job
    payload: Payload


class Claimed(msgspec.Struct, frozen=True):
    """What was claimed along the line, and how far that has come."""

    claims: list[Claim]
    passed: Passed
    is_at_end: bool
    """Whether nobody stands behind those who were met."""


class Ledger:
    """One ledger file, open. Made by `open_ledger` (to work on it) or `read_ledger` (to look at it)."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._writer = Writer(database)
        self._latest_submission = 0
        self.was_ahead_us = 0
        """By how much the clock of an earlier process was ahead of ours, at the least."""

        self.unmarked: str | None = None
        """Why what leaves is not marked; None where it is."""

        self._marks: Marks  # once prepared
        self.place: Place  # likewise
        self._secret_names: frozenset[str] = frozenset()

    @property
    def path(self) -> Path:
        """Where the file is."""
        return self._database.path

    def now(self) -> int:
        """The time by the ledger's clock, microseconds UTC."""
        return self._clock.now()

    @property
    def secret_names(self) -> frozenset[str]:
        """The environment variables whose values have left with a submission, or are about to."""
        return self._secret_names

    async def prepare(self, boot: Boot = this_boot) -> None:
        """Learns what is needed before the first claim. Raises `StorageError` for a ledger that cannot be written."""
        # Before anybody else wants the writer's one connection: those who wait for it while it cannot be made are not
        # told, and would wait for half a minute.
        async with self._database.writing() as connection:
            await connection.execute(_WRITE_NOTHING)
            self.was_ahead_us = await clocks.bring_back(connection, now=self._clock.now())
        await self._database.open_readers()
        self._latest_submission = await self.read(reports.submissions_latest_id)
        self._secret_names = await self.read(reports.secret_names)
        await self._open_marks(boot())
        self.place = Place(self.path)

    async def _open_marks(self, boot: str | None) -> None:
        """Takes up the marks of earlier processes, or begins new ones where those cannot be believed.

        The ledger notes the number of the new ones before anything is claimed; 0 where they cannot be kept, so that no
        later process believes an older file.
        """
        ledger, latest = self.path.resolve(), self._latest_submission
        path = ledger.with_name(ledger.name + ".sent")
        number = await self._database.number()
        kept = None if boot is None else Marks.kept(path, Seal.of(ledger, boot=boot, number=number), latest=latest)
        if kept is not None:
            self._marks = kept
            return
        number = 0
        self._marks = Marks.unkept(floor=latest)
        if boot is not None:
            try:
                number = new_number()
                self._marks = Marks.made(path, Seal.of(ledger, boot=boot, number=number), floor=latest)
            except OSError as error:
                number, self.unmarked = 0, f"{path} cannot be kept ({error.strerror})"
        await self._database.set_number(number)

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Writes until cancelled. Nothing can be written before it has started."""
        await self._writer.serve(task_status=task_status)

    def subscribe(self, subscriber: Subscriber) -> None:
        """Calls `subscriber` with the steps of each transaction after its commit. It must neither raise nor wait."""
        self._writer.subscribe(subscriber)

    async def read(self, question: Callable[[AsyncConnection], Awaitable[Result]]) -> Result:
        """The answer to one question of `reports`."""
        async with self._database.reading() as connection:
            return await question(connection)

    async def write(self, block: Callable[[Transaction], Awaitable[Result]]) -> Result:
        """Runs `block` inside a transaction of the writer's. It may run twice: it builds what it returns inside."""
        return await self._writer.run(block)

    async def data_version(self) -> int:
        """A number that is another one once another process has committed something."""
        return await self._database.data_version()

    # --- steps

    async def apply(self, taken: Sequence[Transition], *, settled: Sequence[Settled] = ()) -> frozenset[int]:
        """Takes steps, at most one for each job; returns the jobs whose step was not stale.

        `settled` notices are forgotten in the same transaction, those that belong to a step only if it was not stale.
        Raises `StorageError` when nothing could be written.
        """
        return await self._writer.apply(taken, settled=settled)

    async def step(self, step: Transition) -> bool:
        """Takes one step; False when it was stale."""
        return bool(await self._writer.apply((step,)))

    def post(self, step: Transition, then: Then) -> None:
        """Takes `step` soon, stale or not, and calls `then` with what went wrong (None: nothing) once that is known.

        `flush` waits for it.
        """
        self._writer.post(step, then)

    async def room(self) -> None:
        """Returns once there is room for more outputs: they wait in memory until they are written."""
        await self._writer.room()

    async def flush(self) -> None:
        """Returns when everything that was handed over before has been written, or could not be."""
        await self._writer.apply(())

    async def note(self, notice: Notice) -> None:
        """Makes a notice durable; raises `StorageError` when it could not be."""
        await self._writer.note(notice)

    def seen(self, job: Job) -> None:
        """Writes down, soon, that `job` was not finished at `job.unfinished_at`."""
        self._writer.seen(job)

    async def tally(self, run: int, name: str) -> None:
        """One more in a cumulative counter of `run` that no step raises."""
        await self._writer.run(lambda transaction: store.counts_add(transaction.connection, Counter({(run, name): 1})))

    def mark(self, submission: int) -> None:
        """The request of `submission` is about to leave: a crash of the process leaves no doubt about the others."""
        self._marks.mark(submission)

    def never_left(self, claimed: Iterable[Job]) -> frozenset[int]:
        """The submissions of `claimed` jobs whose requests provably never left; a `/retry` is not among them."""
        return self._marks.never_left(job.submission or 0 for job in claimed if not job.by_retry)

    async def claim(
        self, run: int, *, by_retry: bool, most: int, ttl_of: TtlOf, bytes_max: int = CLAIM_BYTES_MAX
    ) -> list[Claim]:
        """Claims up to `most` due jobs of `run`, for `/retry` or for `/run`; the intent is durable on return.

        Their inputs come to no more than `bytes_max`, unless it is only one.
        """
        return (await self.claim_along(run, by_retry=by_retry, most=most, ttl_of=ttl_of, bytes_max=bytes_max)).claims

    async def claim_along(
        self,
        run: int,
        *,
        by_retry: bool,
        most: int,
        ttl_of: TtlOf,
        bytes_max: int,
        is_late: IsLate = nobody_is_late,
        behind: Passed = HEAD,
    ) -> Claimed:
        """The same along the line behind `behind`; jobs whose TTL `is_late` are passed over, and nothing is written."""

        async def block(transaction: Transaction) -> tuple[Claimed, frozenset[str]]:
            now = self._clock.now()
            seen = await line_walk(
                transaction.connection, run, by_retry=by_retry, now=now, most=most, bytes_max=bytes_max, ttl_of=ttl_of,
                is_late=is_late, behind=behind,
            )  # fmt: skip
            if not seen.found:
                return Claimed([], seen.passed, seen.is_at_end), frozenset()
            payloads = {found.job.id: found.payload for found in seen.found}
            if fresh := store.references_of(payloads.values()) - self._secret_names:
                await store.secret_names_add(transaction.connection, fresh)
            if by_retry:
                taken = [transitions.claimed_for_retry(found.job, at=now) for found in seen.found]
            else:
                taken = [self._claimed_for_run(found.job, found.ttl_us, now) for found in seen.found]
            claims = [Claim(step.after, payloads[step.after.id]) for step in await transaction.apply(taken)]
            return Claimed(claims, seen.passed, seen.is_at_end), fresh

        claimed, fresh = await self._writer.run(block)
        self._secret_names |= fresh
        return claimed

    def _claimed_for_run(self, job: Job, ttl_us: int, now: int) -> Transition:
        self._latest_submission = max(self._latest_submission + 1, now)
        return transitions.claimed(job, submission=self._latest_submission, ttl_us=ttl_us, at=now)

    # --- runs

    async def run_named(self, name: str) -> Run | None:
        """The run called `name`, or None."""
        return next((run for run in await self.read(reports.runs_all) if run.name == name), None)

    async def run_create(
        self, *, name: str, service_url: str, endpoint: str, source: str, settings: RunSettings
    ) -> Run:
        """A new run; it vanishes on the next open unless an intake of it is accepted."""

        async def block(transaction: Transaction) -> None:
            connection = transaction.connection
            of = {"service_url": service_url, "endpoint": endpoint}
            await connection.execute(upsert(endpoints).on_conflict_do_nothing(), of)
            query = select(endpoints.c.id).filter_by(**of)
            row = {
                "name": name,
                "endpoint_id": (await connection.execute(query)).scalar_one(),
                "source": source,
                "settings": msgspec.json.encode(settings),
                "created_at": self._clock.now(),
            }
            await connection.execute(insert(runs), row)

        await self._writer.run(block)
        run = await self.run_named(name)
        assert run is not None
        return run

    async def run_configure(self, run: int, settings: RunSettings) -> None:
        """Stores the settings of `run`; they apply from the next submission."""

        async def block(transaction: Transaction) -> None:
            change = update(runs).where(runs.c.id == run).values(settings=msgspec.json.encode(settings))
            await transaction.connection.execute(change)

        await self._writer.run(block)

    # --- limits

    async def limits_set(self, endpoint_id: int, chosen: Mapping[Operation, Limit]) -> None:
        """Sets limits of an endpoint, whatever they were."""

        async def block(transaction: Transaction) -> None:
            await limits.limits_set(transaction.connection, endpoint_id, chosen, at=self._clock.now())

        await self._writer.run(block)

    async def limits_reset(self, endpoint_id: int, operations: Collection[Operation]) -> None:
        """Forgets what was set for these operations of an endpoint."""

        async def block(transaction: Transaction) -> None:
            await limits.limits_reset(transaction.connection, endpoint_id, operations)

        await self._writer.run(block)

    # --- intake

    async def intake_start(self, run: Run) -> intakes.Intake:
        """Begins an intake for `run`."""

        async def block(transaction: Transaction) -> intakes.Intake:
            return await intakes.intake_start(transaction.connection, run.id, run.endpoint_id, now=self._clock.now())

        return await self._writer.run(block)

    async def intake_add(self, intake: intakes.Intake, rows: Sequence[intakes.InputRow]) -> list[intakes.Clash]:
        """Takes in one batch of rows; returns those that cannot be taken."""

        async def block(transaction: Transaction) -> list[intakes.Clash]:
            return await intakes.intake_add(transaction.connection, intake, rows)

        return await self._writer.run(block)

    async def intake_accept(self, intake: intakes.Intake) -> intakes.Taken:
        """The whole input was checked: its jobs exist from now on."""

        async def block(transaction: Transaction) -> intakes.Taken:
            return await intakes.intake_accept(transaction.connection, intake, now=self._clock.now())

        return await self._writer.run(block)

    async def intake_remove_unfinished(self) -> None:
        """Removes what an intake that was refused or cut off has left."""
        if not await self.read(reports.unfinished_intake):
            return

        async def block(transaction: Transaction) -> bool:
            return await intakes.intake_remove_some(transaction.connection)

        while await self._writer.run(block):
            pass

    async def copy_to(self, path: Path) -> None:
        """Writes all that is committed into the empty file at `path`, also where the ledger's own is gone.

        Raises `StorageError`.
        """
        await self._database.copy_to(path)

    async def aclose(self) -> None:
        """Closes the file."""
        await self._database.aclose()


@asynccontextmanager
async def open_ledger(
    path: Path, *, clock: Clock, connect: Connect | None = None, boot: Boot = this_boot
) -> AsyncIterator[Ledger]:
    """The ledger at `path`, brought to this program's schema, created if need be. The caller holds its lock.

    Raises `LedgerVersionError` for a newer one and `StorageError` where the file cannot be used.
    """
    if connect is None:
        await to_thread.run_sync(migrations.migrate, path)
    else:
        migrations.migrate(path)
    ledger = Ledger(Database(path, connect=connect), clock)
    try:
        await ledger.prepare(boot)
        yield ledger
    finally:
        await ledger.aclose()


def no_ledger(path: Path) -> UsageError:
    """There is none at `path`."""
    return UsageError(f"{path}: there is no ledger here; name it with --ledger")


@asynccontextmanager
async def read_ledger(path: Path, *, clock: Clock) -> AsyncIterator[Ledger]:
    """The ledger at `path` to look at, beside whoever works on it.

    One that an older program left is brought to this program's schema first. Raises `UsageError` if there is none,
    `LedgerVersionError` for a newer one, `LedgerBusyError` for an older one that somebody works on.
    """
    found = migrations.version_of(path)
    if found is None:
        raise no_ledger(path)
    migrations.refuse_unknown(path, found)
    if found != SCHEMA_VERSION:
        with dispatcher_lock(path, now=clock.now()):
            await to_thread.run_sync(migrations.migrate, path)
    ledger = Ledger(Database(path), clock)
    try:
        yield ledger
    finally:
        await ledger.aclose()


@asynccontextmanager
async def command_ledger(path: Path, *, clock: Clock) -> AsyncIterator[Ledger]:
    """The ledger at `path` to leave a word in, beside whoever works on it; that process notices the commit.

    For few and small writes, and for nothing that is a step of a job. Raises like `read_ledger`.
    """
    try:
        async with read_ledger(path, clock=clock) as ledger, anyio.create_task_group() as tasks:
            await tasks.start(ledger.serve)
            yield ledger
            tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        raise leading(group) from group
