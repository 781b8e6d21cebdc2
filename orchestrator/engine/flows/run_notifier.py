"""Sends what is owed of single runs: each message until somebody has taken it, with growing pauses, for a day.

They stand in the ledger, so whoever works on it next sends what a process before could not. One that was taken just
before a crash is sent once more, under the same id. That a run is over is owed by the transaction that ends it; that it
has come to a standstill is found here, and owed once.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import anyio
from anyio.abc import TaskStatus
from msgspec.structs import replace

from orchestrator.clock import Clock
from orchestrator.core.jobs.job import is_terminal
from orchestrator.core.jobs.transition import Transition
from orchestrator.core.pipelines.notifications import next_try
from orchestrator.core.pipelines.run_news import RunNews
from orchestrator.engine.flows.notifier import FINISH_S_MAX
from orchestrator.engine.hosting.run_session import RunSession
from orchestrator.engine.runtime.poll_loop import SELDOM_S, Wakeup, keep_polling
from orchestrator.errors import StorageError
from orchestrator.ledger import Ledger
from orchestrator.ledger.flows.run_outbox import RunMessage
from orchestrator.settings.run_settings import RunSettings
from orchestrator.units import SECOND_US

log = logging.getLogger(__name__)

AT_ONCE_MAX: Final = 8
LOOK_S: Final = 5.0
"""How often to see whether a run has come to a standstill that somebody wants to hear of."""


class RunNotificationSender(Protocol):
    """Brings messages of runs to whom they are for."""

    async def __call__(self, message: RunMessage, /) -> str | None:
        """Sends one; returns why nobody has taken it, None where somebody has."""
        ...


@dataclass(kw_only=True, eq=False)
class RunNotifier:
    """Of one ledger."""

    ledger: Ledger
    clock: Clock
    sessions: Mapping[int, RunSession]
    settings_of: Mapping[int, RunSettings]
    tell: RunNotificationSender
    scrub: Callable[[bytes], bytes]
    warn: Callable[[str], None]

    _stopped: dict[int, str] = field(init=False, default_factory=dict)
    """Why each run stands still that does, as far as that was owed."""

    _wakeup: Wakeup = field(init=False, default_factory=Wakeup)
    _sending: anyio.Lock = field(init=False, default_factory=anyio.Lock)

    def on_steps(self, taken: Sequence[Transition]) -> None:
        """A run may be over by these."""
        if any(is_terminal(step.after) and self._is_told_of(step.after.run) for step in taken):
            self._wakeup.wake()

    def _is_told_of(self, run: int) -> bool:
        settings = self.settings_of.get(run)
        return settings is not None and settings.notify is not None

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Sends until cancelled."""
        task_status.started()
        await keep_polling(self._poll, self._wakeup, at_least_every_s=SELDOM_S)

    async def finish(self) -> None:
        """Sends what is to be sent by now, for a while at most."""
        with anyio.move_on_after(FINISH_S_MAX):
            await self._poll()

    async def _poll(self) -> float:
        try:
            await self._look()
            async with self._sending:
                while messages := await self.ledger.flows.run_outbox.due(self.clock.now(), AT_ONCE_MAX):
                    async with anyio.create_task_group() as group:
                        for message in messages:
                            group.start_soon(self._send, message)
            due_at = await self.ledger.flows.run_outbox.next_due()
        except StorageError as error:
            log.warning("what is owed of runs is unknown: %s", error)
            return SELDOM_S
        next_s = SELDOM_S if due_at is None else max(0.0, (due_at - self.clock.now()) / SECOND_US)
        return min(next_s, LOOK_S) if any(map(self._is_told_of, self.sessions)) else next_s

    async def _look(self) -> None:
        """Owes what has stopped runs that tell somebody."""
        for run, session in tuple(self.sessions.items()):
            why = session.why_stopped if session.progress.unfinished and self._is_told_of(run) else None
            if why is None:
                self._stopped.pop(run, None)
            elif self._stopped.get(run) != why:
                news = RunNews.STOPPED if session.brakes.why_stopped is None else RunNews.ON_HOLD
                await self.ledger.flows.run_outbox.owe_stop(run, news, self.scrub(why.encode()).decode())
                self._stopped[run] = why

    async def _send(self, message: RunMessage) -> None:
        problem = await self.tell(replace(message, body=self.scrub(message.body)))
        outbox = self.ledger.flows.run_outbox
        if problem is None:
            await outbox.delivered(message.id)
            return
        problem = self.scrub(problem.encode()).decode()
        due_at = next_try(tries=message.tries + 1, owed_at=message.owed_at, now=self.clock.now())
        if message.notify is None:
            due_at = None
        await outbox.undelivered(message.id, problem, due_at=due_at)
        if due_at is None:
            self.warn(f"{message.name}: nobody could be told that it is {message.news}, and it is given up: {problem}")
        elif not message.tries:
            self.warn(f"{message.name}: nobody could be told that it is {message.news}: {problem}; it is tried again")
