"""The groups of tasks in which an engine works.

Stopping is nesting: the innermost group takes new work; the one around it holds requests in flight and gets a deadline;
around both is the process, which writes and listens, and ends last.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import anyio
from anyio.abc import TaskGroup, TaskStatus

from orchestrator.engine.runtime.task_pool import Request, TaskPool
from orchestrator.errors import DeposedError
from orchestrator.ledger import Ledger
from orchestrator.settings.words_and_defaults import IN_FLIGHT_S_MAX

FINISHED_S_MAX: Final = 1.0
"""How long requests in flight may go on when every job of the runs that are served has its outcome: no answer matters
any more."""


class WorkGroups:
    """Of one engine; they are there inside of `working`."""

    def __init__(self) -> None:
        self.in_flight: TaskGroup
        """Where requests in flight live, which `task_pool` launches."""

        self.task_pool: TaskPool
        self.taking: TaskGroup
        """Where whatever takes new work lives."""

        self._is_working = self._is_stopped = False
        self.are_succeeded = False
        """Whether those of another engine go on where these end."""

    @asynccontextmanager
    async def working(self, has_unfinished: Callable[[], bool], say: Callable[[str], None]) -> AsyncIterator[None]:
        """Works inside of the block, which `stop` cuts short; requests in flight get a while to end, of which
        people hear where the run is over that they have begun.
        """
        async with anyio.create_task_group() as self.in_flight:
            self.task_pool = TaskPool(self.in_flight)
            try:
                async with anyio.create_task_group() as self.taking:
                    self._is_working = True
                    if self._is_stopped:
                        self.taking.cancel_scope.cancel()
                    yield
                    if has_unfinished() and (flying := self.task_pool.flying):
                        say(f"in flight for other runs: {flying:,}; they have up to {IN_FLIGHT_S_MAX:.0f} s to end")
                    self.taking.cancel_scope.cancel()
            except* DeposedError as errors:
                self.task_pool.fail(errors)
            finally:
                self.task_pool.close()  # also where an error ends it: what could not be written may be told later
            grace_s = IN_FLIGHT_S_MAX if has_unfinished() else FINISHED_S_MAX
            self.in_flight.cancel_scope.deadline = anyio.current_time() + grace_s

    def launch(self, request: Request) -> None:
        """Runs `request` beside everything else that is in flight."""
        self.task_pool.launch(request)

    def stop(self) -> None:
        """Ends `working`, also if that is still to begin."""
        self._is_stopped = True
        if self._is_working:
            self.taking.cancel_scope.cancel()


@asynccontextmanager
async def writing_until_left(ledger: Ledger) -> AsyncIterator[None]:
    """What is handed over inside of the block is written, also where that is cancelled: the writer ends last."""

    async def serve(*, task_status: TaskStatus[None]) -> None:
        with writing:
            await ledger.writer.serve(task_status=task_status)

    writing = anyio.CancelScope()
    async with anyio.create_task_group() as group:
        await group.start(serve)
        writing.shield = True  # not before: who is cancelled while it begins waits for its end
        try:
            yield
        finally:
            ledger.patience.hurry()
            writing.cancel()
