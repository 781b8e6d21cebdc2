"""Sends the notifications that are owed: each until somebody has taken it, with growing pauses, for a day.

They stand in the ledger, so whoever carries out flows next sends what a process before could not. One that was taken
just before a crash is sent once more, under the same id.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

import anyio
from anyio.abc import TaskGroup, TaskStatus
from msgspec.structs import replace

from orchestrator.clock import Clock
from orchestrator.core.pipelines.notifications import next_try
from orchestrator.core.pipelines.pipeline import Pipeline
from orchestrator.engine.runtime.poll_loop import SELDOM_S, Wakeup, keep_polling
from orchestrator.errors import StorageError
from orchestrator.ledger import Ledger
from orchestrator.ledger.flows.outbox import Notification
from orchestrator.ledger.flows.run_outbox import RunMessage
from orchestrator.units import SECOND_US

log = logging.getLogger(__name__)

AT_ONCE_MAX: Final = 8
"""So many pipelines tell at the same time: one whose receiver hangs keeps no other one waiting."""

FINISH_S_MAX: Final = 60.0
"""So long a process that has nothing else to do goes on sending what is due."""


class NotificationSender(Protocol):
    """Brings notifications to whom they are for."""

    async def tell(self, told: Notification, pipeline: Pipeline) -> str | None:
        """Sends one; returns why nobody has taken it, None where somebody has."""
        ...

    async def tell_of_run(self, message: RunMessage) -> str | None:
        """The same of a single run."""
        ...


@dataclass(kw_only=True, eq=False)
class Notifier:
    """Of one ledger."""

    ledger: Ledger
    clock: Clock
    files: NotificationSender
    scrub: Callable[[bytes], bytes]
    warn: Callable[[str], None]
    is_at_work: bool
    """Whether this process carries out flows; else it sends nothing."""

    _busy: set[int] = field(init=False, default_factory=set)
    """The pipelines of which something is being sent."""

    _tasks: TaskGroup = field(init=False)
    _places: anyio.CapacityLimiter = field(init=False)
    _wakeup: Wakeup = field(init=False, default_factory=Wakeup)
    _settled: anyio.Event = field(init=False, default_factory=anyio.Event)

    def on_change(self) -> None:
        """Something may be owed."""
        self._wakeup.wake()

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Sends until cancelled."""
        self._places = anyio.CapacityLimiter(AT_ONCE_MAX)
        async with anyio.create_task_group() as self._tasks:
            task_status.started()
            await keep_polling(self._poll, self._wakeup, at_least_every_s=SELDOM_S)

    async def until_idle(self) -> None:
        """Waits until nothing is to be sent now, for a while at most."""
        with anyio.move_on_after(FINISH_S_MAX):
            while self.is_at_work:
                self._settled = anyio.Event()  # before it is asked, so that no news is missed
                if not self._busy and not await self.ledger.flows.outbox.pipelines_due(self.clock.now()):
                    return
                if not self._busy:
                    self.on_change()
                await self._settled.wait()

    async def _poll(self) -> float:
        if not self.is_at_work:
            return SELDOM_S
        try:
            return await self._run_once()
        except StorageError as error:
            log.warning("which notifications are owed is unknown: %s", error)
            return SELDOM_S
        finally:
            if not self._busy:
                self._settled.set()

    async def _run_once(self) -> float:
        now = self.clock.now()
        for pipeline in await self.ledger.flows.outbox.pipelines_due(now):
            if pipeline not in self._busy:
                self._busy.add(pipeline)
                self._tasks.start_soon(self._tell_all, pipeline)
        due_at = await self.ledger.flows.outbox.next_due(now)
        return SELDOM_S if due_at is None else max(0.0, (due_at - self.clock.now()) / SECOND_US)

    async def _tell_all(self, pipeline: int) -> None:
        """One after the other, in the order in which they are owed."""
        try:
            async with self._places:
                while (told := await self.ledger.flows.outbox.first_due(pipeline, self.clock.now())) is not None:
                    await self._tell(told)
        except StorageError as error:
            log.warning("what became of a notification could not be written down: %s", error)
        else:
            self.on_change()  # more may have come since it was asked
        finally:
            self._busy.discard(pipeline)
            self._settled.set()

    async def _tell(self, told: Notification) -> None:
        [pipeline] = (await self.ledger.flows.pipelines.definitions([told.definition])).values()
        problem = await self.files.tell(replace(told, body=self.scrub(told.body)), pipeline)
        if problem is None:
            await self.ledger.flows.outbox.delivered(told.id)
            return
        problem = self.scrub(problem.encode()).decode()
        due_at = next_try(tries=told.tries + 1, owed_at=told.owed_at, now=self.clock.now())
        if pipeline.notify is None:
            due_at = None
        await self.ledger.flows.outbox.undelivered(told.id, problem, due_at=due_at)
        of = told.flow or pipeline.name
        if due_at is None:
            self.warn(f"{of}: nobody could be told that it is {told.news}, and it is given up: {problem}")
        elif not told.tries:
            self.warn(f"{of}: nobody could be told that it is {told.news}: {problem}; it is tried again")
