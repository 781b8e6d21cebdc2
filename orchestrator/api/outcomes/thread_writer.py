"""Outcomes on their way to something that may take its time: they are handed to a thread, some at once, and once a stop
was asked for nobody waits long.
"""

import logging
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

import anyio
from anyio import lowlevel, to_thread

from orchestrator.errors import leading
from orchestrator.formats.output.outcome_lines import WrittenOutcome

log = logging.getLogger(__name__)

STREAM_BYTES: Final = 256 * 1024
"""So much is handed over at once."""

ROW_BYTES: Final = 256
"""So much a row takes besides its output."""

STOP_S: Final = 30.0
"""So much longer is waited for a store once a stop was asked for."""


class ThreadWriter:
    """Has `write` called in a thread for outcomes in their order: meanwhile signals are obeyed, and others answered."""

    def __init__(self, write: Callable[[Sequence[WrittenOutcome]], None]) -> None:
        self._write = write
        self._waiting: list[WrittenOutcome] = []
        self._bytes = 0

    async def add(self, outcome: WrittenOutcome) -> None:
        """One more. Raises what `write` raises."""
        self._waiting.append(outcome)
        self._bytes += ROW_BYTES + outcome.size
        if self._bytes >= STREAM_BYTES:
            await self.finish()

    async def finish(self) -> None:
        """All that were added are written. Raises what `write` raises."""
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        await to_thread.run_sync(self._write, waiting)


@asynccontextmanager
async def until_given_up(place: str, stop: anyio.Event | None) -> AsyncIterator[threading.Event]:
    """Gives what is set once nobody waits any longer for what is written to `place`: a while after a `stop`, which is
    told, or as soon as the block is cancelled.
    """
    given_up = threading.Event()
    try:
        async with anyio.create_task_group() as watching:
            watching.start_soon(_watch, place, stop or anyio.Event(), given_up)
            try:
                yield given_up
            except Exception:
                await lowlevel.checkpoint_if_cancelled()  # then that is why it came to nothing
                raise
            watching.cancel_scope.cancel()
    except BaseExceptionGroup as errors:
        raise leading(errors) from errors


async def _watch(place: str, stop: anyio.Event, given_up: threading.Event) -> None:
    try:
        await stop.wait()
        log.warning("%s: it has %d s to be there, as a stop was asked for", place, STOP_S)
        await anyio.sleep(STOP_S)
    finally:
        given_up.set()
