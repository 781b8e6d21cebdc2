"""Rows on their way from whoever makes them to the ledger: one reads, in a thread or a task, while the other writes.

Between the two is a buffer with a bound: an input of any length takes the same memory, and who reads waits for who
writes. Whoever makes rows slowly does not hold up those that are there.
"""

import asyncio
import threading
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Sequence,
)
from contextlib import aclosing, suppress
from contextvars import copy_context
from typing import Final

import anyio
import anyio.lowlevel

from orchestrator.errors import OrchestratorError, leading
from orchestrator.formats.input.rows import Row, RowProblem
from orchestrator.ledger.runs.input_rows import PackedRow, packed_rows
from orchestrator.units import MIB
from orchestrator.user_code import UserCodeError, awaited, call, each, each_awaited

ROWS_MAX: Final = 10_000
BYTES_MAX: Final = 16 * MIB
"""What the buffer holds, but for one row that may be larger; it is written in one go."""

LINGER_S: Final = 0.05
"""How long rows wait for company: a transaction costs as much as a hundred of them."""

TURN_ROWS: Final = 200
"""So many are read before others have their turn, where there is no thread: some milliseconds."""

Read = Callable[[int, object], Row | RowProblem]
"""The row that the value of this number is, or why it is none."""


class RowPump:
    """Reads `values` with `read`, counting from after `first`.

    At a value that is no row it ends, or, with `to_the_end`, goes on, so that all of them are known.
    """

    def __init__(
        self,
        values: Iterable[object] | AsyncIterable[object],
        read: Read,
        *,
        first: int = 0,
        to_the_end: bool = False,
    ) -> None:
        self._values = values
        self._read = read
        self._number = first
        self._to_the_end = to_the_end
        self._changed = threading.Condition()
        self._rows: list[PackedRow] = []
        self._bytes = 0
        self._filled = anyio.Event()
        self._emptied = anyio.Event()
        self._is_left = False
        self._has_ended = False
        self._error: Exception | None = None
        self.problems: list[RowProblem] = []
        """The values that are no rows."""

    async def into(self, write: Callable[[Sequence[PackedRow]], Awaitable[None]]) -> None:
        """Hands all rows to `write`, in order, some at a time. Raises `UserCodeError` for what the values raise, once
        all rows before that are written, and what `write` raises.
        """
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._read_all)
                try:
                    while (rows := await self._taken()) is not None:
                        if rows:
                            await write(rows)
                finally:
                    self._leave()
        except BaseExceptionGroup as error:
            raise leading(error) from None
        if self._error is not None:
            raise self._error

    # --- who writes

    async def _taken(self) -> list[PackedRow] | None:
        """What is there, once there is something; None at the end."""
        await self._filled.wait()
        if not self._has_ended and len(self._rows) < ROWS_MAX:
            await anyio.sleep(LINGER_S)
        with self._changed:
            rows, self._rows, self._bytes = self._rows, [], 0
            if not self._has_ended:
                self._filled = anyio.Event()
            self._changed.notify_all()
        self._emptied.set()
        self._emptied = anyio.Event()
        return rows if rows or not self._has_ended else None

    def _leave(self) -> None:
        with self._changed:
            self._is_left = True
            self._changed.notify_all()

    # --- who reads

    async def _read_all(self) -> None:
        match self._values:
            case AsyncIterable():
                await self._read_here(self._values)
            case Sequence():  # which is there already, so that nothing can stand still
                await self._read_here(_by_turns(self._values))
            case _:
                await self._read_apart(self._values)
        self._has_ended = True
        self._filled.set()

    async def _read_here(self, values: AsyncIterable[object]) -> None:
        try:
            async with aclosing(each_awaited(values)) as coming:
                async for value in coming:
                    while self._is_full:
                        await self._emptied.wait()
                    if not self._add(value):
                        break
                    self._filled.set()
        except UserCodeError as error:
            self._went_wrong(error)
        finally:
            if isinstance(values, AsyncGenerator):
                await self._closed_here(values)

    async def _closed_here(self, values: AsyncGenerator[object, None]) -> None:
        try:
            await awaited(values.aclose())
        except UserCodeError as error:
            self._went_wrong(error)

    async def _read_apart(self, values: Iterable[object]) -> None:
        """Reads in a thread for which nobody waits when we are cancelled, nor at the program's end: it may stand still
        for as long as it likes.
        """
        loop, ended = asyncio.get_running_loop(), anyio.Event()

        def tell(what: Callable[[], object]) -> None:
            with suppress(RuntimeError):  # the loop has ended, and nobody wants the rows any more
                loop.call_soon_threadsafe(what)

        def read() -> None:
            try:
                self._read_in_thread(values, lambda: tell(self._wake))
            except Exception as error:  # noqa: BLE001  a defect of ours, which is told where the others are waited for
                self._error = error
            finally:
                tell(ended.set)

        threading.Thread(target=copy_context().run, args=(read,), name="orchestrator-inputs", daemon=True).start()
        await ended.wait()

    def _read_in_thread(self, values: Iterable[object], wake: Callable[[], object]) -> None:
        try:
            for value in each(values):
                with self._changed:
                    self._changed.wait_for(lambda: self._is_left or not self._is_full)
                if self._is_left or not self._add(value):
                    return
                if len(self._rows) == 1:
                    wake()
        except UserCodeError as error:
            self._went_wrong(error)
        finally:
            if isinstance(values, Generator):
                self._closed(values)  # where it has come to no end, what it holds is let go now

    def _closed(self, values: Generator[object, None, None]) -> None:
        try:
            call(values.close)
        except UserCodeError as error:
            self._went_wrong(error)

    def _went_wrong(self, error: UserCodeError) -> None:
        """Keeps what ended the values first. Where they were read from a file, it is ours."""
        mine = error.error if isinstance(error.error, OrchestratorError) else error
        self._error = self._error or mine

    def _wake(self) -> None:
        self._filled.set()

    @property
    def _is_full(self) -> bool:
        return len(self._rows) >= ROWS_MAX or self._bytes >= BYTES_MAX

    def _add(self, value: object) -> bool:
        """Reads the next value; whether to go on."""
        self._number += 1
        row = call(self._read, self._number, value)
        if isinstance(row, RowProblem):
            self.problems.append(row)
            return self._to_the_end
        [packed] = packed_rows((row,))
        with self._changed:
            self._rows.append(packed)
            self._bytes += packed.size
        return True


async def _by_turns(values: Sequence[object]) -> AsyncIterator[object]:
    for number, value in enumerate(each(values), start=1):
        yield value
        if number % TURN_ROWS == 0:
            await anyio.lowlevel.checkpoint()
