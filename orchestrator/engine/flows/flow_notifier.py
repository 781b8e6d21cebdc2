"""Sends the notifications of flows and schedules that are owed, where this process carries out flows."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

import anyio
from anyio.abc import TaskStatus

from orchestrator.client.notify.delivery import Delivery
from orchestrator.clock import Clock
from orchestrator.core.pipelines.pipeline import Pipeline
from orchestrator.engine.flows.outbox_sender import OutboxSender
from orchestrator.engine.runtime.poll_loop import SELDOM_S, Wakeup, keep_polling
from orchestrator.errors import StorageError
from orchestrator.ledger import Ledger
from orchestrator.ledger.flows.outbox import Notification
from orchestrator.ledger.flows.run_outbox import RunMessage

log = logging.getLogger(__name__)

FINISH_S_MAX: Final = 60.0
"""So long a process that has nothing else to do goes on sending what is due."""


class NotificationSender(Protocol):
    """Brings notifications to whom they are for."""

    async def tell(self, told: Notification, pipeline: Pipeline) -> Delivery:
        """Sends one."""
        ...

    async def tell_of_run(self, message: RunMessage) -> Delivery:
        """The same of a single run."""
        ...

    @property
    def heartbeats(self) -> Mapping[str, int]:
        """The targets that are to hear again and again that this process works: how often (microseconds), by name."""
        ...

    async def beat(self, target: str) -> Delivery:
        """Has one of these hear it now."""
        ...


@dataclass(kw_only=True, eq=False)
class FlowNotifier:
    """Of one ledger."""

    ledger: Ledger
    clock: Clock
    sender: NotificationSender
    scrub: Callable[[bytes], bytes]
    warn: Callable[[str], None]
    is_at_work: bool
    """Whether this process carries out flows; else it sends nothing."""

    _wakeup: Wakeup = field(init=False, default_factory=Wakeup)
    _outbox_sender: OutboxSender[Notification] = field(init=False)

    def __post_init__(self) -> None:
        self._outbox_sender = OutboxSender(
            outbox=self.ledger.flows.outbox,
            send=self._send,
            name_of=lambda told: f"{told.flow or told.pipeline_name}: nobody could be told that it is {told.news}",
            clock=self.clock,
            scrub=self.scrub,
            warn=self.warn,
            on_sent=self.on_change,
        )

    def on_change(self) -> None:
        """Something may be owed."""
        self._wakeup.wake()

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Sends until cancelled."""
        async with self._outbox_sender.working():
            task_status.started()
            await keep_polling(self._poll, self._wakeup, at_least_every_s=SELDOM_S)

    async def until_idle(self) -> None:
        """Waits until nothing is to be sent now, for a while at most."""
        if not self.is_at_work:
            return
        try:
            with anyio.move_on_after(FINISH_S_MAX):
                await self._outbox_sender.until_idle()
        except StorageError as error:
            log.warning("which notifications are owed is unknown: %s", error)

    async def _poll(self) -> float:
        if not self.is_at_work:
            return SELDOM_S
        try:
            return await self._outbox_sender.send_due()
        except StorageError as error:
            log.warning("which notifications are owed is unknown: %s", error)
            return SELDOM_S

    async def _send(self, told: Notification) -> Delivery:
        [pipeline] = (await self.ledger.flows.pipelines.definitions([told.definition])).values()
        return await self.sender.tell(told, pipeline)
