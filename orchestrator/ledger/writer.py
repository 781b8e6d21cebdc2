"""Group commit: all writes go through one task, a batch to a transaction.

Whoever hands something over waits shielded until its transaction has ended, bounded by the busy timeout, so that
nobody is left in doubt whether a step was written. A batch holds at most one step for each job (in one set-based
UPDATE two steps of one job would apply once); the next waits for the next batch. A batch that fails is replayed
entry by entry, so that a bad one fails alone.
"""

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, Generic, NamedTuple, TypeVar

import anyio
from anyio.abc import TaskStatus
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.job import Job, Step
from orchestrator.core.notice import Notice
from orchestrator.errors import StorageError
from orchestrator.ledger import store
from orchestrator.ledger.database import BUSY_TIMEOUT_MS, Database

log = logging.getLogger(__name__)

BATCH_STEPS_MAX: Final = 2_000
BATCH_ENTRIES_MAX: Final = 2_000
GATHER_S: Final = 0.015
"""After a commit, the next one waits this long for company. A lone write after a pause goes at once."""

ANSWER_S_MAX: Final = BUSY_TIMEOUT_MS / 1000 + 20
"""How long a caller waits for its transaction before the ledger counts as unusable."""

Result = TypeVar("Result")
Subscriber = Callable[[Sequence[Step]], None]


class Settled(NamedTuple):
    """A notice that needs no more attention: at once, or only if `job`'s step in the same batch was not stale."""

    notice: Notice
    job: int | None = None


class Transaction:
    """What a block sees: the connection, and the way to take steps that the feed will tell of."""

    def __init__(self, connection: AsyncConnection) -> None:
        self.connection = connection
        self.applied: list[Step] = []

    async def apply(self, steps: Sequence[Step]) -> list[Step]:
        """Writes the steps that are not stale, and returns those."""
        done = await store.steps_apply(self.connection, steps)
        self.applied += done
        return done


Block = Callable[[Transaction], Awaitable[Result]]


class _Entry(Generic[Result]):
    """Something handed over, and the one who waits for it."""

    __slots__ = ("block", "done", "error", "notes", "result", "seen", "settled", "steps")

    def __init__(
        self,
        *,
        steps: Sequence[Step] = (),
        settled: Sequence[Settled] = (),
        notes: Sequence[Notice] = (),
        seen: Sequence[Job] = (),
        block: Block[Result] | None = None,
    ) -> None:
        self.steps = steps
        self.settled = settled
        self.notes = notes
        self.seen = seen
        self.block = block
        self.done = anyio.Event()
        self.error: BaseException | None = None
        self.result: Result | None = None


class Writer:
    """The one task that writes."""

    def __init__(self, database: Database, *, gather_s: float = GATHER_S) -> None:
        self._database = database
        self._gather_s = gather_s
        self._pending: deque[_Entry[object]] = deque()
        self._bell = anyio.Event()
        self._subscribers: list[Subscriber] = []
        self._failure: StorageError | None = None
        self._has_ended = False

    @property
    def failure(self) -> StorageError | None:
        """Why the ledger could not be written the last time it was tried, or None."""
        return self._failure

    def subscribe(self, subscriber: Subscriber) -> None:
        """Calls `subscriber` with the steps of each transaction, after its commit, in order. It must not raise."""
        self._subscribers.append(subscriber)

    async def steps(self, steps: Sequence[Step], *, settled: Sequence[Settled] = ()) -> frozenset[int]:
        """Takes `steps`, at most one for each job; returns the ids of the jobs whose step was not stale.

        `settled` notices are forgotten in the same transaction.
        """
        entry: _Entry[frozenset[int]] = _Entry(steps=steps, settled=settled)
        return await self._hand_over(entry) or frozenset()

    async def note(self, notice: Notice) -> None:
        """Keeps a notice."""
        await self._hand_over(_Entry(notes=(notice,)))

    def seen(self, job: Job) -> None:
        """Writes `job.unfinished_at` with the next batch; nobody waits for it."""
        self._put(_Entry(seen=(job,)))

    async def run(self, block: Block[Result]) -> Result:
        """Runs `block` inside a transaction, shared with others or alone. It may be run twice, so it must build
        whatever it returns inside itself.
        """
        return await self._hand_over(_Entry(block=block))  # type: ignore[return-value]  # set unless it raised

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Writes batches until cancelled; what was handed over before is written all the same."""
        task_status.started()
        try:
            while True:
                await self._bell.wait()
                self._bell = anyio.Event()
                await self._drain()
                await anyio.sleep(self._gather_s)
        finally:
            with anyio.CancelScope(shield=True):
                await self._drain()
            self._has_ended = True

    async def _hand_over(self, entry: _Entry[Result]) -> Result | None:
        if self._has_ended:  # a webhook that comes while the listener stops must not wait for nobody
            raise StorageError(f"{self._database.path}: the ledger is closed")
        self._put(entry)
        with anyio.move_on_after(ANSWER_S_MAX, shield=True):
            await entry.done.wait()
            if entry.error is not None:
                raise entry.error
            return entry.result
        with suppress(ValueError):  # not in the transaction under way: it must not be written after we said it failed
            self._pending.remove(entry)  # type: ignore[arg-type]
        raise StorageError(f"{self._database.path}: the ledger did not answer for {ANSWER_S_MAX:.0f} s")

    def _put(self, entry: _Entry[Result]) -> None:
        self._pending.append(entry)  # type: ignore[arg-type]  # each entry keeps its own result's type
        self._bell.set()

    async def _drain(self) -> None:
        while self._pending:
            batch = self._take_batch()
            try:
                applied = await self._commit(batch)
            except Exception as error:  # noqa: BLE001  whoever waits gets it
                await self._replay(batch, error)
            else:
                self._tell(applied)

    def _take_batch(self) -> list["_Entry[object]"]:
        """The next entries, as long as no job has a second step among them."""
        batch: list[_Entry[object]] = []
        jobs: set[int] = set()
        while self._pending and len(jobs) < BATCH_STEPS_MAX and len(batch) < BATCH_ENTRIES_MAX:
            entry = self._pending[0]
            ids = {step.before.id for step in entry.steps}
            if ids & jobs:
                break
            jobs |= ids
            batch.append(self._pending.popleft())
            if entry.block is not None:
                break  # a block sees the steps before it, and its own steps must not meet later ones of this batch
        return batch

    async def _replay(self, batch: Sequence["_Entry[object]"], error: Exception) -> None:
        """Each entry of a failed batch in a transaction of its own."""
        if len(batch) == 1:
            self._fail(batch[0], error)
            return
        if isinstance(error, StorageError):
            for entry in batch:  # the file is to blame, not one of them; each alone would only wait as long again
                self._fail(entry, error)
            return
        log.debug("a batch of %d failed (%s): replaying it one by one", len(batch), error)
        for entry in batch:
            try:
                applied = await self._commit([entry])
            except Exception as own_error:  # noqa: BLE001
                self._fail(entry, own_error)
            else:
                self._tell(applied)

    def _fail(self, entry: "_Entry[object]", error: Exception) -> None:
        if isinstance(error, StorageError):
            self._failure = error
        entry.error = error
        entry.done.set()

    async def _commit(self, batch: Sequence["_Entry[object]"]) -> list[Step]:
        """One transaction; afterwards everybody who waits is told. Returns every step that was written."""
        results: list[object] = [None] * len(batch)
        async with self._database.writing() as connection:
            transaction = Transaction(connection)
            applied = await transaction.apply([step for entry in batch for step in entry.steps])
            await _write_rest(connection, batch, frozenset(step.before.id for step in applied))
            for position, entry in enumerate(batch):
                if entry.block is not None:
                    results[position] = await entry.block(transaction)
        self._failure = None
        ids = frozenset(step.before.id for step in applied)
        for entry, result in zip(batch, results, strict=True):
            entry.result = result if entry.block is not None else ids & {step.before.id for step in entry.steps}
            entry.done.set()
        return transaction.applied

    def _tell(self, applied: Sequence[Step]) -> None:
        """Tells the feed. Outside of every `try`: what is committed must not be replayed for a subscriber's sake."""
        if applied:
            for subscriber in self._subscribers:
                subscriber(applied)


async def _write_rest(connection: AsyncConnection, batch: Sequence["_Entry[object]"], applied: frozenset[int]) -> None:
    """Notices and news of a batch in which the steps of the jobs `applied` were not stale."""
    notes = [notice for entry in batch for notice in entry.notes]
    settled = [
        settled.notice for entry in batch for settled in entry.settled if settled.job is None or settled.job in applied
    ]
    seen = {job.id: job for entry in batch for job in entry.seen}
    if notes:
        await store.notices_add(connection, notes)
    if settled:
        await store.notices_delete(connection, settled)
    if seen:
        await store.jobs_seen(connection, list(seen.values()))
