"""Outcomes on their way to something that may take its time: they are handed to a thread, some at once."""

from collections.abc import Callable, Sequence
from typing import Final

from anyio import to_thread

from orchestrator.formats.output.outcome_lines import WrittenOutcome

STREAM_BYTES: Final = 256 * 1024
"""So much is handed over at once."""

ROW_BYTES: Final = 256
"""So much a row takes besides its output."""


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
