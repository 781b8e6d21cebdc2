"""Takes a file of inputs into the ledger: the whole of it or nothing.

Rows land in bounded batches that cannot be dispatched until the last line was checked. All errors are found, with
their lines, before anything is refused.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

import anyio
from anyio import to_thread
from anyio.abc import ObjectSendStream

from orchestrator.errors import PROBLEMS_SHOWN_MAX, InputError
from orchestrator.ledger import Ledger
from orchestrator.ledger.intakes import InputRow, Taken
from orchestrator.ledger.runs import Run

READ_AHEAD: Final = 1
"""Batches that are read while one is written: the reader is a thread of its own, and SQLite lets it run."""


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


class Intake:
    """One intake for `run`. `rows_read` may be watched while it runs."""

    def __init__(self, ledger: Ledger, run: Run, *, source: str) -> None:
        self._ledger = ledger
        self._run = run
        self._source = source
        self._problems: list[tuple[int, str]] = []
        self._problems_total = 0
        self.rows_read = 0

    async def take(self, batches: Iterator[InputBatch], *, advice: Advice) -> Taken:
        """Takes in every batch and accepts the intake. Raises `InputError` with all the bad lines, and nothing is
        taken; what `advice` says then ends its message.
        """
        intake = await self._ledger.intakes.start(self._run)
        ahead, read = anyio.create_memory_object_stream[InputBatch](READ_AHEAD)
        async with anyio.create_task_group() as group, read:
            group.start_soon(_read_ahead, batches, ahead)
            async for batch in read:
                clashes = await self._ledger.intakes.add(intake, batch.rows) if batch.rows else ()
                for problem in (*batch.faults, *clashes):
                    self._refuse(problem.line, problem.text)
                self.rows_read += len(batch.rows) + len(batch.faults)
        if not self.rows_read:
            self._refuse(1, "the input is empty")
        if self._problems_total:
            problems = [f"line {line}: {text}" for line, text in sorted(self._problems)]
            raise InputError(self._source, problems, self._problems_total, advice())
        return await self._ledger.intakes.accept(intake)

    def _refuse(self, line: int, text: str) -> None:
        self._problems_total += 1
        if len(self._problems) < PROBLEMS_SHOWN_MAX:
            self._problems.append((line, text))


async def _read_ahead(batches: Iterator[InputBatch], ahead: ObjectSendStream[InputBatch]) -> None:
    """Reads in a thread that nobody waits for when we are cancelled: it may sit on a silent standard input."""
    async with ahead:
        while (batch := await to_thread.run_sync(next, batches, None, abandon_on_cancel=True)) is not None:
            await ahead.send(batch)
