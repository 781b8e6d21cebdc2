"""Group commit: all writes go through one task, a batch to a transaction, so that many share one fsync.

Whoever hands over steps waits shielded until their transaction has ended, so that nobody is left in doubt whether a
step was written, or posts one and is called back then. Both are bounded: a ledger in which no transaction ends for
long counts as unusable, unless it is waited for (`Patience`). A batch holds at most one step for each job (in one
set-based UPDATE two steps of one job would apply once); the next waits for the next batch. Its blocks come after all
its steps. A batch that fails is replayed entry by entry, so that a bad one fails alone.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Final

import anyio
from anyio.abc import TaskStatus

from orchestrator.clock import Clock
from orchestrator.core.jobs.job import Job
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.core.samples.buckets import COMMIT_BOUNDS_S, GrowingHistogram
from orchestrator.core.service.webhook_token import Notice
from orchestrator.errors import DeposedError, LedgerUnavailableError, StorageError
from orchestrator.ledger.database import BUSY_TIMEOUT_MS, Company, LedgerDatabase
from orchestrator.ledger.transactions.batch_write import WAITING_BYTES_MAX, batch_write, leave_to_successor
from orchestrator.ledger.transactions.patience import Patience
from orchestrator.ledger.transactions.transaction import Block, OnCommit, QueuedWrite, Result, Settled
from orchestrator.units import MIB, SECOND_US

log = logging.getLogger(__name__)

BATCH_STEPS_MAX: Final = 2_000
BATCH_ENTRIES_MAX: Final = 2_000
BATCH_BRIEF_MAX: Final = 8
"""So many brief blocks share a transaction."""

BATCH_BYTES_MAX: Final = 4 * MIB
"""Outputs in one transaction: they are packed, and held once more, until it has ended. A larger one goes alone."""

SHRINK_BYTES_MIN: Final = MIB
"""After so many bytes of outputs in one transaction its pages are let go: they would fill the whole cache."""

PENDING_BYTES_MAX: Final = 4 * MIB
"""So many bytes of outputs may wait; whoever could bring more waits for room first."""

URGENT_BYTES: Final = PENDING_BYTES_MAX // 2
"""While there are more than that at the end of a commit, nothing waits for company."""

GATHER_S: Final = 0.015
"""After a commit, the next one waits this long for company. A lone write after a pause goes at once."""

UNFINISHED_S: Final = 2.0
"""So long what nobody waits for may wait for the transaction of somebody else's: that jobs were found unfinished. A
process that dies before knows a little less of how long their results are safe, and asks a little sooner."""

ANSWER_S_MAX: Final = BUSY_TIMEOUT_MS / 1000 + 20
"""The ledger counts as unusable once no transaction has ended for this long while somebody waits. It is looked at as
often, so that a caller learns of it within twice this time; a timer for each caller would cost more than its wait."""

Subscriber = Callable[[Sequence[Transition]], None]


class GroupCommitWriter:
    """The one task that writes."""

    def __init__(
        self, database: LedgerDatabase, clock: Clock, patience: Patience | None = None, *, gather_s: float = GATHER_S
    ) -> None:
        self._database = database
        self._clock = clock
        self.patience = patience or Patience(clock)
        """What is tried again as long as nobody can use the ledger."""

        self.commits = GrowingHistogram(COMMIT_BOUNDS_S)
        """How long transactions took that were committed, from their first statement on."""

        self._gather_s = gather_s
        self._pending: deque[QueuedWrite[object]] = deque()
        self._under_way: Sequence[QueuedWrite[object]] = ()
        self._unfinished: dict[int, Job] = {}
        self._transactions = 0
        self._bytes = 0
        self._has_room = anyio.Event()
        self._wakeup = anyio.Event()
        self.subscribers: list[Subscriber] = []
        """Who is told of the steps of each transaction, in this order."""

        self._failure: StorageError | None = None
        self._has_ended = False

    @property
    def failure(self) -> StorageError | None:
        """Why the ledger could not be written the last time it was tried, or None."""
        return self._failure

    def subscribe(self, subscriber: Subscriber) -> None:
        """Calls `subscriber` with the steps of each transaction, after its commit, in order. It must not raise."""
        self.subscribers.append(subscriber)

    async def apply(self, steps: Sequence[Transition], *, settled: Sequence[Settled] = ()) -> frozenset[int]:
        """Takes `steps`, at most one for each job; returns the ids of the jobs whose step was not stale.

        `settled` notices are forgotten in the same transaction, those that belong to a step only if it was not stale.
        Raises `StorageError` when nothing could be written.
        """
        entry: QueuedWrite[frozenset[int]] = QueuedWrite(steps=steps, settled=settled)
        return await self._hand_over(entry) or frozenset()

    async def step(self, step: Transition) -> bool:
        """Takes one step; False when it was stale."""
        return bool(await self.apply((step,)))

    async def flush(self) -> None:
        """Returns when everything that was handed over before has been written, or could not be."""
        await self.apply(())

    def submit(self, step: Transition, then: OnCommit) -> None:
        """Takes `step`, stale or not, with the next batch, and calls `then` afterwards with what went wrong, if so.

        For those whose task has nothing left to do: a task that waits costs more than its step (measured).
        """
        self._put(QueuedWrite(steps=(step,), then=then))

    async def room(self) -> None:
        """Returns once so few bytes of outputs wait to be written that more may come."""
        while self._bytes > PENDING_BYTES_MAX and not self._has_ended:
            await self._has_room.wait()

    async def record_notice(self, notice: Notice) -> None:
        """Keeps a notice. Whoever is cancelled meanwhile does not learn whether it was kept. Raises `StorageError`, at
        once where the ledger is waited for, or much else waits: whoever brings it comes again, or it is asked for.
        """
        self.patience.check()
        if self._bytes > WAITING_BYTES_MAX:  # that it answers nothing is found out after half a minute only
            waits = f"{self._bytes // MIB} MiB wait to be written"
            raise LedgerUnavailableError(f"{self._database.name}: cannot use the ledger ({waits})")
        entry: QueuedWrite[None] = QueuedWrite(notes=(notice,))
        self._put(entry)
        await entry.wait()

    def record_unfinished(self, job: Job) -> None:
        """Writes `job.unfinished_at` with the next batch of others, or soon; nobody waits for it."""
        if not self._unfinished:
            asyncio.get_running_loop().call_later(UNFINISHED_S, self._wake)
        self._unfinished[job.id] = job

    async def run(
        self,
        block: Block[Result],
        then: OnCommit | None = None,
        *,
        company: Company = Company.ALONE,
        is_signalled: bool = True,
    ) -> Result:
        """Runs `block` inside a transaction, with what else waits, in that company. It may be run twice, so it must
        build whatever it returns inside itself. `then` is called once subscribers know of it, and of no later one.
        Where it `is_signalled`, engines of other processes look afterwards.
        """
        entry = QueuedWrite(block=block, then=then, company=company, is_signalled=is_signalled)
        return await self._hand_over(entry)  # type: ignore[return-value]  # unless it raised

    async def run_briefly(self, block: Block[Result]) -> Result:
        """The same for a block that takes a few milliseconds at most: others like it share its transaction, and steps
        that are handed over after it may be written before it.
        """
        return await self._hand_over(QueuedWrite(block=block, is_brief=True))  # type: ignore[return-value]

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Writes batches until cancelled; what was handed over before is written all the same."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._watch)
            task_status.started()
            try:
                while True:
                    await self._wakeup.wait()
                    self._wakeup = anyio.Event()
                    if not await self._drain():
                        await anyio.sleep(self._gather_s)
            finally:
                with anyio.CancelScope(shield=True):
                    while self._pending or self._unfinished:
                        await self._drain()
                self._has_ended = True

    async def _watch(self) -> None:
        """Gives up on everything when somebody waits, no transaction ends, and none is tried again."""
        while True:
            longest = next(chain(self._under_way, self._pending), None)
            if longest is None:
                await self._wakeup.wait()
                continue
            before = self._transactions, self.patience.tries
            await anyio.sleep(ANSWER_S_MAX)
            if (self._transactions, self.patience.tries) == before and not longest.has_ended:
                self._give_up()

    def _give_up(self) -> None:
        """Whoever waits is told that the ledger does not answer; nothing of it is written after we said so.

        Only the transaction under way may still be: then its caller was told too much, and finds its step taken.
        """
        waiting = [*self._under_way, *self._pending]
        self._make_room(self._pending)
        self._pending.clear()
        for entry in waiting:
            entry.end(StorageError(f"{self._database.name}: the ledger did not answer for {ANSWER_S_MAX:.0f} s"))

    async def _hand_over(self, entry: QueuedWrite[Result]) -> Result | None:
        self._put(entry)
        with anyio.CancelScope(shield=True):
            await entry.wait()
        return entry.result

    def _put(self, entry: QueuedWrite[Result]) -> None:
        if self._has_ended:  # a webhook that comes while the listener stops must not wait for nobody
            raise StorageError(f"{self._database.name}: the ledger is closed")
        if isinstance(self._failure, DeposedError) and self._bytes + entry.bytes > WAITING_BYTES_MAX:
            entry.end(self._failure)
            return
        self._bytes += entry.bytes
        self._pending.append(entry)  # type: ignore[arg-type]  # each entry keeps its own result's type
        self._wake()

    def _wake(self) -> None:
        self._wakeup.set()

    async def _drain(self) -> bool:
        """Writes all that waits; what comes meanwhile waits for company, unless it takes much memory.

        Returns whether that was a block alone: whoever hands over one after the other, as at the start, has no company
        to wait for.
        """
        is_alone = len(self._pending) == 1 and self._pending[0].block is not None
        if self._unfinished:  # ahead of a block, with which a batch may end
            self._pending.appendleft(QueuedWrite(unfinished=tuple(self._unfinished.values())))
            self._unfinished = {}
        left = len(self._pending)
        while self._pending and (left > 0 or self._bytes > URGENT_BYTES):
            batch = self._under_way = self._take_batch()
            left -= len(batch)
            try:
                applied = await self._commit(batch)
            except DeposedError as error:
                self._failure = error
                await leave_to_successor(self._database, batch, self.patience, error)
            except Exception as error:  # noqa: BLE001  whoever waits gets it
                await self._replay(batch, error)
            else:
                self._tell(batch, applied)
            self._under_way = ()
            if self._make_room(batch) >= SHRINK_BYTES_MIN:
                with suppress(StorageError):  # the next transaction will tell
                    await self._database.shrink()
            is_alone = is_alone and not self._pending
        return is_alone

    def _make_room(self, batch: Iterable["QueuedWrite[object]"]) -> int:
        """These entries are dealt with; returns how many bytes of outputs that frees."""
        held = sum(entry.bytes for entry in batch)
        self._bytes -= held
        self._has_room.set()
        self._has_room = anyio.Event()
        return held

    def _take_batch(self) -> list["QueuedWrite[object]"]:
        """The next entries, as long as no job has a second step among them, up to a block that is not brief.

        All steps are written before all blocks: one that was handed over after a brief block, too. If both are about
        the same job, the block meets it as the step has left it.
        """
        batch: list[QueuedWrite[object]] = []
        jobs: set[int] = set()
        held = briefs = 0
        while self._pending and len(jobs) < BATCH_STEPS_MAX and len(batch) < BATCH_ENTRIES_MAX:
            entry = self._pending[0]
            ids = {each.before.id for step in entry.steps for each in (step, *step.riders)}
            held += entry.bytes
            if ids & jobs or (batch and held > BATCH_BYTES_MAX):
                break
            jobs |= ids
            batch.append(self._pending.popleft())
            briefs += entry.is_brief
            if briefs == BATCH_BRIEF_MAX or (entry.block is not None and not entry.is_brief):
                break  # a block sees the steps before it, and its own steps must not meet later ones of this batch
        return batch

    async def _replay(self, batch: Sequence["QueuedWrite[object]"], error: Exception) -> None:
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
                self._tell([entry], applied)

    def _fail(self, entry: "QueuedWrite[object]", error: Exception) -> None:
        if isinstance(error, StorageError):
            self._failure = error
        entry.end(error)

    async def _commit(self, batch: Sequence["QueuedWrite[object]"]) -> Sequence[Transition]:
        """One transaction, which sets the results. Returns every step that was written. Where the ledger cannot be used
        just now the same batch is tried again: it holds up all that come after it.
        """
        begun_at = self._clock.now()
        write = partial(batch_write, self._database, batch, self.patience)
        try:
            written = await write()
        except LedgerUnavailableError as error:
            with anyio.CancelScope(shield=True):
                written = await self.patience.again(error, write)
            begun_at = self._clock.now()
        finally:
            self._transactions += 1
        self._failure = None
        self.commits.add((self._clock.now() - begun_at) / SECOND_US)
        for entry, result in zip(batch, written.results, strict=True):
            if entry.block is not None:
                entry.result = result
            elif entry.steps and entry.then is None:
                entry.result = written.taken & {step.before.id for step in entry.steps}
        return written.steps

    def _tell(self, batch: Sequence["QueuedWrite[object]"], applied: Sequence[Transition]) -> None:
        """Tells the feed, then whoever handed something over.

        Outside of every `try` that replays: what is committed must not be replayed for a subscriber's sake.
        """
        try:
            if applied:
                for subscriber in tuple(self.subscribers):
                    subscriber(applied)
        finally:
            for entry in batch:
                entry.end()
