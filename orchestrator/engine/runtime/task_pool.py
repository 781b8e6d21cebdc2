"""How many requests are in flight, and how: each has a task of its own, and a task that has ended one waits for the
next.

A task for each request costs a twentieth of everything that a job costs (measured): its scopes and its context are made
anew each time.
"""

import asyncio
from collections.abc import Awaitable, Callable

from anyio.abc import TaskGroup

from orchestrator.errors import DeposedError, leading

Request = Callable[[], Awaitable[object]]


class TaskPool:
    """Lets requests fly in `group`, which they outlast the taking of new work in. `close` lets `group` end."""

    def __init__(self, group: TaskGroup) -> None:
        self._group = group
        self._idle: list[_Kept] = []
        self._tasks = 0
        self._is_closed = False
        self._failure: Exception | None = None

    def launch(self, request: Request) -> None:
        """Runs `request` beside everything else that is in flight. What it raises ends the group."""
        if self._idle:
            self._idle.pop().go(request)
        else:
            self._tasks += 1
            self._group.start_soon(self._fly, request, name="flight")

    @property
    def flying(self) -> int:
        """How many requests are in flight. Not after `close`."""
        return self._tasks - len(self._idle)

    def fail(self, error: Exception) -> None:
        """What a request left behind went wrong: ends the group, or what comes after it (see `check`).

        Where another process has taken our place, what is in flight goes on: what it brings is for that one.
        """
        self._failure = self._failure or error
        if not self._is_closed and not isinstance(leading(error), DeposedError):
            self.launch(self._raise)

    def close(self) -> None:
        """Nothing is launched any more: the tasks end with the requests that they have."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().go(None)

    def check(self) -> None:
        """Raises what `fail` was told."""
        if self._failure is not None:
            raise self._failure

    async def _raise(self) -> None:
        self.check()

    async def _fly(self, request: Request) -> None:
        """Runs one request after the other."""
        kept = _Kept()
        following: Request | None = request
        while following is not None:
            try:
                await following()
            except DeposedError as error:
                self.fail(error)
            if self._is_closed:
                return
            self._idle.append(kept)
            following = await kept.following()


class _Kept:
    """A task without a request."""

    __slots__ = ("_next",)

    def __init__(self) -> None:
        self._next: asyncio.Future[Request | None]
        """Not an event of AnyIO's, which takes three times as long (measured)."""

    def go(self, request: Request | None) -> None:
        """Hands it its next request; None is its end."""
        if not self._next.done():  # else it was cancelled meanwhile, and its group ends
            self._next.set_result(request)

    async def following(self) -> Request | None:
        """Its next request."""
        self._next = asyncio.get_running_loop().create_future()
        return await self._next
