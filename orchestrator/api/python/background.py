"""What goes on beside everything else in a program: inputs being read, runs being followed, lines being drawn."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup


class Background:
    """Tasks of which each may be left off alone."""

    def __init__(self) -> None:
        self._tasks: TaskGroup
        self._scopes: set[anyio.CancelScope] = set()
        self._all_ended = anyio.Event()

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Tasks can be started inside of the block, which ends once all of them have, and with an error of any."""
        async with anyio.create_task_group() as self._tasks:
            yield
            await self.ended()

    def start(self, work: Callable[[], Awaitable[None]]) -> anyio.CancelScope:
        """Does `work` beside everything else. Returns how to leave it off."""
        scope = anyio.CancelScope()
        self._scopes.add(scope)
        self._tasks.start_soon(self._do, work, scope)
        return scope

    async def _do(self, work: Callable[[], Awaitable[None]], scope: anyio.CancelScope) -> None:
        with scope:
            await work()
        self._scopes.discard(scope)
        if not self._scopes:
            self._all_ended.set()
            self._all_ended = anyio.Event()

    async def ended(self) -> None:
        """Waits until nothing is done beside any more."""
        while self._scopes:
            await self._all_ended.wait()

    def stop(self) -> None:
        """Leaves all of it off."""
        for scope in self._scopes:
            scope.cancel()
