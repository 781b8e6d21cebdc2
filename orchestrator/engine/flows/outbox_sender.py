"""Sends what an outbox owes: each message until somebody has taken it, with growing pauses (backoff), for a day.

It stands in the ledger, so whoever works on that next sends what a process before could not. One that was taken just
before a crash is sent once more, under the same id. Each receiver is told one thing after the other, in the order in
which they are owed, and all receivers at the same time: one that hangs keeps no other one waiting.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, Generic, Protocol, TypeVar

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace

from orchestrator.client.notify.delivery import Delivery
from orchestrator.clock import Clock
from orchestrator.core.pipelines.notifications import next_try
from orchestrator.engine.runtime.poll_loop import SELDOM_S
from orchestrator.errors import StorageError
from orchestrator.ledger.flows.outbox import Message
from orchestrator.units import SECOND_US

log = logging.getLogger(__name__)

M = TypeVar("M", bound=Message)
M_co = TypeVar("M_co", bound=Message, covariant=True)

AT_ONCE_MAX: Final = 32
"""So many receivers are told at the same time."""


class SendableOutbox(Protocol[M_co]):
    """An outbox, as far as sending goes."""

    async def receivers_due(self, now: int, /) -> list[tuple[int, str]]:
        """Who is to be told something now."""
        ...

    async def first_due(self, lane: int, target: str, now: int, /) -> M_co | None:
        """The oldest one for one of these that is to be sent now."""
        ...

    async def next_due(self, after: int, /) -> int | None:
        """When something is to be sent after that time."""
        ...

    async def delivered(self, number: int, /) -> None:
        """Somebody has taken it."""
        ...

    async def undelivered(self, number: int, problem: str, *, due_at: int | None) -> None:
        """Nobody has, so that it is sent again then; without a time it is given up."""
        ...

    async def unwanted(self, number: int, /) -> None:
        """Nobody wants to hear of it."""
        ...


@dataclass(kw_only=True, eq=False)
class OutboxSender(Generic[M]):
    """Of one outbox. `name_of` says of what a message is, for who reads warnings."""

    outbox: SendableOutbox[M]
    send: Callable[[M], Awaitable[Delivery]]
    name_of: Callable[[M], str]
    clock: Clock
    scrub: Callable[[bytes], bytes]
    warn: Callable[[str], None]
    on_sent: Callable[[], None] = lambda: None
    """Is called once all of a receiver was sent, and there may be more."""

    _busy: set[tuple[int, str]] = field(init=False, default_factory=set)
    _tasks: TaskGroup = field(init=False)
    _is_working: bool = field(init=False, default=False)
    _places: anyio.CapacityLimiter = field(init=False)
    _settled: anyio.Event = field(init=False, default_factory=anyio.Event)

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Sends inside the block what `send_due` begins; on leaving no more."""
        self._places = anyio.CapacityLimiter(AT_ONCE_MAX)
        async with anyio.create_task_group() as self._tasks:
            self._is_working = True
            try:
                yield
            finally:
                self._is_working = False  # who waits for the ledger meanwhile begins nothing either
                self._tasks.cancel_scope.cancel()

    async def send_due(self) -> float:
        """Begins to send what is due; returns the seconds until there is more. Raises `StorageError`."""
        now = self.clock.now()
        for receiver in await self.outbox.receivers_due(now):
            if self._is_working and receiver not in self._busy:
                self._busy.add(receiver)
                self._tasks.start_soon(self._tell_all, receiver)
        if not self._busy:
            self._settled.set()
        due_at = await self.outbox.next_due(now)
        return SELDOM_S if due_at is None else max(0.0, (due_at - self.clock.now()) / SECOND_US)

    async def until_idle(self) -> None:
        """Waits until nothing is to be sent now. Raises `StorageError`."""
        while True:
            self._settled = anyio.Event()  # before it is asked, so that no news is missed
            await self.send_due()
            if not self._busy:
                return
            await self._settled.wait()

    async def _tell_all(self, receiver: tuple[int, str]) -> None:
        try:
            async with self._places:
                while (message := await self.outbox.first_due(*receiver, self.clock.now())) is not None:
                    await self.send_once(message)
        except StorageError as error:
            log.warning("what became of a notification could not be written down: %s", error)
        else:
            self.on_sent()
        finally:
            self._busy.discard(receiver)
            self._settled.set()

    async def send_once(self, message: M) -> Delivery:
        """Sends one now, writes down what came of it, and tells that. Raises `StorageError`."""
        came = await self.send(replace(message, body=self.scrub(message.body)))
        if came.problem is None:
            await (self.outbox.delivered(message.id) if came.is_wanted else self.outbox.unwanted(message.id))
            return came
        problem, now = self.scrub(came.problem.encode()).decode(), self.clock.now()
        came = replace(came, problem=problem)
        due_at = next_try(tries=message.tries + 1, owed_at=message.owed_at, now=now, wanted_us=came.wait_us)
        if not came.is_wanted:
            due_at = None
        await self.outbox.undelivered(message.id, problem, due_at=due_at)
        of = self.name_of(message)
        if due_at is None:
            self.warn(f"{of}, and it is given up: {problem}")
        elif not message.tries:
            self.warn(f"{of}: {problem}; it is tried again")
        return came
