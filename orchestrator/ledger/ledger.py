"""The ledger as the rest of the program holds it: doors, writer and verbs under one roof."""

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

import anyio
import msgspec
from anyio.abc import TaskStatus
from sqlalchemy import false, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.clock import Clock
from orchestrator.core import job as transitions
from orchestrator.core.job import Job, Transition
from orchestrator.core.notice import Notice
from orchestrator.core.pacing import Limit, Operation
from orchestrator.ledger import clocks, intakes, limits, reports, store
from orchestrator.ledger.heartbeats import Heartbeats
from orchestrator.ledger.line import HEAD, IsLate, Passed, TtlOf, line_walk, nobody_is_late
from orchestrator.ledger.reports import Run
from orchestrator.ledger.sqlite.database import Database
from orchestrator.ledger.sqlite.marks import Boot, Marks, marks_of, this_boot
from orchestrator.ledger.sqlite.place import Place
from orchestrator.ledger.sqlite.statements import insert_new
from orchestrator.ledger.store import Payload
from orchestrator.ledger.tables import endpoints, runs
from orchestrator.ledger.writer import Settled, Subscriber, Then, Transaction, Writer
from orchestrator.settings import RunSettings
from orchestrator.units import MIB

Result = TypeVar("Result")
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
        self.heartbeats = Heartbeats(database, self._writer, clock)
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
        self._marks, self.unmarked = await marks_of(self._database, boot(), latest=self._latest_submission)
        self.place = Place(self.path)

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
            await connection.execute(insert_new(endpoints), of)
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

    async def damage(self) -> list[str]:
        """What is wrong with the ledger itself, whatever it says."""
        return await self._database.damage()

    async def file_bytes(self) -> int:
        """The size of the ledger."""
        return await self._database.file_bytes()

    async def copy_to(self, path: Path) -> None:
        """Writes all that is committed into the empty file at `path`, also where the ledger's own is gone.

        Raises `StorageError`.
        """
        await self._database.copy_to(path)

    async def aclose(self) -> None:
        """Closes the file."""
        await self._database.aclose()
