"""Takes a file of inputs into the ledger: the whole of it or nothing.

Rows land in bounded batches that cannot be dispatched until the last line was checked. All errors are found, with
their lines, before anything is refused. For each run one process at a time takes in.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from typing import Final, NamedTuple, Protocol, TypeVar

import anyio
import msgspec
from anyio import to_thread
from anyio.abc import ObjectSendStream

from orchestrator.errors import (
    IntakeBusyError,
    IntakeLostError,
    Problems,
    StorageError,
    leading,
)
from orchestrator.ledger import IntakeRight, Ledger
from orchestrator.ledger.runs.input_corrections import RemovedRows
from orchestrator.ledger.runs.input_rows import InputRow, PackedRow, packed_rows
from orchestrator.ledger.runs.intake_writes import IntakeResult
from orchestrator.ledger.runs.intakes import Hold
from orchestrator.ledger.runs.runs import Run

READ_AHEAD: Final = 1
"""Batches that are read while one is written: the reader is a thread of its own, and SQLite lets it run."""

ASK_AGAIN_S: Final = 0.25
"""How often to see whether the process that takes in for the same run is done."""

CLEAR_S_MAX: Final = 2.0
"""How long a process that ends may remove what it took in for nothing; the next one removes the rest."""

PlaceOf = Callable[[int], str]

Drops = Callable[[RemovedRows], Awaitable[bool]]
"""Whether jobs that are no longer in the input are dropped, of those that have not succeeded."""

Taken = TypeVar("Taken")

Advice = Callable[[], str]
"""What to know when an input was refused; ends the message."""


class Fault(Protocol):
    """A line that cannot be taken, as `formats` reports it."""

    @property
    def line(self) -> int: ...
    @property
    def text(self) -> str: ...


class InputBatch(NamedTuple):
    """Some lines of an input: those that can be taken, and those that cannot."""

    rows: Sequence[InputRow]
    faults: Sequence[Fault]


@asynccontextmanager
async def turn_to_take_in(
    ledger: Ledger, name: str, *, hold: Hold, say: Callable[[str], None], stop: anyio.Event
) -> AsyncIterator[IntakeRight]:
    """The turn to look the run called `name` up, or make it, and to take in for it: once no other process does, of
    which the person is told. Who takes in for long keeps the right to beside (`IntakeRight.keep`).

    What was begun for it and not ended, before or inside of the block, is cleared. Raises `IntakeBusyError` if `stop`
    comes first.
    """
    async with AsyncExitStack() as turn:
        right = await _until_held(turn, ledger, lambda: hold(name), say, stop)
        await ledger.runs.intakes.clear(name)
        try:
            yield right
        finally:
            with anyio.move_on_after(CLEAR_S_MAX, shield=True), suppress(StorageError):
                if not right.is_lost:  # else what there is now may be another process's
                    await ledger.runs.intakes.clear(name)


@asynccontextmanager
async def right_kept(right: IntakeRight) -> AsyncIterator[None]:
    """Keeps `right` while the block runs, of which what it raises comes as it is."""
    try:
        async with anyio.create_task_group() as beside:
            beside.start_soon(right.keep)
            yield
            beside.cancel_scope.cancel()
    except BaseExceptionGroup as error:
        raise leading(error) from None


async def until_taken_in(take: Callable[[], Awaitable[Taken]], what: str, say: Callable[[str], None]) -> Taken:
    """What `take` returns, which begins anew as often as another process has taken over what it had read of `what`."""
    while True:
        try:
            return await take()
        except IntakeLostError:
            say(f"another process has taken over what was read of {what}: it is read again")


async def _until_held(
    turn: AsyncExitStack,
    ledger: Ledger,
    hold: Callable[[], AbstractAsyncContextManager[IntakeRight]],
    say: Callable[[str], None],
    stop: anyio.Event,
) -> IntakeRight:
    async def enter() -> IntakeRight:
        return await turn.enter_async_context(hold())

    tries = 0
    while True:
        tries += 1
        try:
            return await ledger.patience.outlast(enter)
        except IntakeBusyError as busy:
            if stop.is_set():
                raise
            if tries == 2:  # noqa: PLR2004  who only clears what others left has it for a moment
                say(f"{busy}: this one waits for it")
            with anyio.move_on_after(ASK_AGAIN_S):
                await stop.wait()


class Intake:
    """One intake for `run`. `rows_read` may be watched while it runs; `place_of` says where a line is."""

    def __init__(self, ledger: Ledger, run: Run, *, source: str, place_of: PlaceOf = "line {}".format) -> None:
        self._ledger = ledger
        self._run = run
        self._source = source
        self._place_of = place_of
        self._problems = Problems()
        self.rows_read = 0

    async def take(self, batches: Iterator[InputBatch], *, advice: Advice, drops: Drops | None = None) -> IntakeResult:
        """Takes in every batch and accepts the intake; what is no longer in the input goes where `drops` says so.
        Raises `InputError` with all the bad lines, and nothing is taken; what `advice` says then ends its message.
        """
        intake = await self._ledger.runs.intakes.start(self._run)
        ahead, read = anyio.create_memory_object_stream[_Read](READ_AHEAD)
        async with anyio.create_task_group() as group, read:
            group.start_soon(_read_ahead, batches, ahead)
            async for rows, faults in read:
                clashes = await self._ledger.runs.intakes.add(intake, rows)
                for fault in faults:
                    self._problems.add(fault.line, fault.text)
                for clash in clashes:
                    self._problems.add(clash.line, clash.text(self._place_of))
                self.rows_read += len(rows) + len(faults)
        if not self.rows_read:
            self._problems.add(1, "the input is empty")
        if self._problems.total:
            raise self._problems.error(self._source, self._place_of, advice())
        gone = RemovedRows() if drops is None else await self._ledger.runs.intakes.gone(intake)
        drop = drops is not None and gone.unsuccessful > 0 and await drops(gone)
        taken = await self._ledger.runs.intakes.accept(intake, drop=drop)
        return taken if drop else msgspec.structs.replace(taken, unsuccessful=gone.unsuccessful)


_Read = tuple[list[PackedRow], Sequence[Fault]]


async def _read_ahead(batches: Iterator[InputBatch], ahead: ObjectSendStream[_Read]) -> None:
    """Reads in a thread that nobody waits for when we are cancelled: it may sit on a silent standard input."""
    async with ahead:
        while (batch := await to_thread.run_sync(_next, batches, abandon_on_cancel=True)) is not None:
            await ahead.send(batch)


def _next(batches: Iterator[InputBatch]) -> _Read | None:
    batch = next(batches, None)
    return None if batch is None else (packed_rows(batch.rows), batch.faults)
