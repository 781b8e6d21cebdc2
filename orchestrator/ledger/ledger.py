"""The ledger as the rest of the program holds it: doors, writer and verbs under one roof."""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
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
from orchestrator.core import job as steps
from orchestrator.core.job import Job, Step
from orchestrator.core.notice import Notice
from orchestrator.core.pacing import Limit, Operation
from orchestrator.errors import UsageError, leading
from orchestrator.ledger import intakes, limits, migrations, reports, store
from orchestrator.ledger.database import Connect, Database
from orchestrator.ledger.lock import dispatcher_lock
from orchestrator.ledger.reports import Run
from orchestrator.ledger.store import Payload
from orchestrator.ledger.tables import SCHEMA_VERSION, endpoints, runs
from orchestrator.ledger.writer import Settled, Subscriber, Then, Transaction, Writer
from orchestrator.settings import RunSettings

Result = TypeVar("Result")
TtlOf = Callable[[Payload], int]
"""The TTL of a job with this payload, in microseconds."""

_WRITE_NOTHING: Final = update(runs).values(name=runs.c.name).where(false())
"""Needs a ledger that can be written; `BEGIN IMMEDIATE` alone is content with a read-only one, and only reads it."""


class Claim(msgspec.Struct, frozen=True):
    """A job that is ours to send, and what to send."""

    job: Job
    payload: Payload


class Ledger:
    """One ledger file, open. Made by `open_ledger` (to work on it) or `read_ledger` (to look at it)."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._writer = Writer(database)
        self._latest_submission = 0
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

    async def prepare(self) -> None:
        """Learns what is needed before the first claim. Raises `StorageError` for a ledger that cannot be written."""
        # Before anybody else wants the writer's one connection: those who wait for it while it cannot be made are not
        # told, and would wait for half a minute.
        async with self._database.writing() as connection:
            await connection.execute(_WRITE_NOTHING)
        self._latest_submission = await self.read(reports.submissions_latest_id)
        self._secret_names = await self.read(reports.secret_names)

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

    async def take(self, taken: Sequence[Step], *, settled: Sequence[Settled] = ()) -> frozenset[int]:
        """Takes steps, at most one for each job; returns the jobs whose step was not stale.

        `settled` notices are forgotten in the same transaction, those that belong to a step only if it was not stale.
        Raises `StorageError` when nothing could be written.
        """
        return await self._writer.steps(taken, settled=settled)

    async def step(self, step: Step) -> bool:
        """Takes one step; False when it was stale."""
        return bool(await self._writer.steps((step,)))

    def post(self, step: Step, then: Then) -> None:
        """Takes `step` soon, stale or not, and calls `then` with what went wrong (None: nothing) once that is known.

        `flush` waits for it.
        """
        self._writer.post(step, then)

    async def flush(self) -> None:
        """Returns when everything that was handed over before has been written, or could not be."""
        await self._writer.steps(())

    async def note(self, notice: Notice) -> None:
        """Makes a notice durable; raises `StorageError` when it could not be."""
        await self._writer.note(notice)

    def seen(self, job: Job) -> None:
        """Writes down, soon, that `job` was not finished at `job.unfinished_at`."""
        self._writer.seen(job)

    async def claim(self, run: int, *, by_retry: bool, most: int, ttl_of: TtlOf) -> list[Claim]:
        """Claims up to `most` due jobs of `run`, for `/retry` or for `/run`; the intent is durable on return."""
        fresh: frozenset[str] = frozenset()

        async def block(transaction: Transaction) -> list[Claim]:
            nonlocal fresh
            now = self._clock.now()
            found = await store.jobs_claimable(transaction.connection, run, by_retry=by_retry, now=now, most=most)
            if not found:
                return []
            payloads = await store.payloads_of(transaction.connection, [job.id for job in found])
            if fresh := store.references_of(payloads.values()) - self._secret_names:
                await store.secret_names_add(transaction.connection, fresh)
            if by_retry:
                taken = [steps.claimed_for_retry(job, at=now) for job in found]
            else:
                taken = [self._claimed_for_run(job, ttl_of(payloads[job.id]), now) for job in found]
            return [Claim(step.after, payloads[step.after.id]) for step in await transaction.apply(taken)]

        claims = await self._writer.run(block)
        self._secret_names |= fresh
        return claims

    def _claimed_for_run(self, job: Job, ttl_us: int, now: int) -> Step:
        self._latest_submission = max(self._latest_submission + 1, now)
        return steps.claimed(job, submission=self._latest_submission, ttl_us=ttl_us, at=now)

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

    async def aclose(self) -> None:
        """Closes the file."""
        await self._database.aclose()


@asynccontextmanager
async def open_ledger(path: Path, *, clock: Clock, connect: Connect | None = None) -> AsyncIterator[Ledger]:
    """The ledger at `path`, brought to this program's schema, created if need be. The caller holds its lock.

    Raises `LedgerVersionError` for a newer one and `StorageError` where the file cannot be used.
    """
    if connect is None:
        await to_thread.run_sync(migrations.migrate, path)
    else:
        migrations.migrate(path)
    ledger = Ledger(Database(path, connect=connect), clock)
    try:
        await ledger.prepare()
        yield ledger
    finally:
        await ledger.aclose()


@asynccontextmanager
async def read_ledger(path: Path, *, clock: Clock) -> AsyncIterator[Ledger]:
    """The ledger at `path` to look at, beside whoever works on it.

    One that an older program left is brought to this program's schema first. Raises `UsageError` if there is none,
    `LedgerVersionError` for a newer one, `LedgerBusyError` for an older one that somebody works on.
    """
    found = migrations.version_of(path)
    if found is None:
        raise UsageError(f"{path}: there is no ledger here; name it with --ledger")
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
