"""Sends messages of a ledger from a process that does not have it to itself.

Each is claimed before it is sent, and then it is looked once more whether somebody works: whoever takes the lock later
finds the claim, and whoever has it already has the message left to him. So no two of them send the same one, unless
who claimed it died: it is due again then.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import anyio

from orchestrator.api.messages.message_senders import MessageSender
from orchestrator.api.messages.outside_claims import CLAIMED_US, silent_since
from orchestrator.client.notify.delivery import Delivery
from orchestrator.engine.flows.outbox_sender import AT_ONCE_MAX, OutboxSender, SendableOutbox
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.runtime.secret_scrubber import SecretScrubber
from orchestrator.ledger import Ledger
from orchestrator.ledger.flows.outbox import Message, Messages, Notification
from orchestrator.ledger.flows.run_outbox import RunMessage
from orchestrator.settings.connection_settings import ConnectionSettings, secret_variables

M = TypeVar("M", bound=Message)


@dataclass(kw_only=True, eq=False)
class OutsideSender:
    """Of one ledger."""

    ledger: Ledger
    sender: MessageSender
    dependencies: Dependencies
    scrub: Callable[[bytes], bytes]

    @classmethod
    async def of(cls, ledger: Ledger, connection: ConnectionSettings, dependencies: Dependencies) -> "OutsideSender":
        """One that knows the targets of `connection`, and keeps what is secret out, as far as this process knows it."""
        names = await ledger.jobs.claims.secret_names_known() | secret_variables(connection)
        scrubber = SecretScrubber(lambda: names, dependencies.environ, warn=_say_nothing)
        sender = MessageSender(ledger.address, connection, dependencies.with_clock(ledger.clock))
        return cls(ledger=ledger, sender=sender, dependencies=dependencies, scrub=scrubber.scrub)

    async def of_runs(self, messages: Sequence[RunMessage], *, claimed_until: int | None = None) -> list[Delivery]:
        """Sends those that are due and nobody else has claimed, or all where this process has; returns what came of
        each that was sent.
        """
        outbox = self.ledger.flows.run_outbox
        return await self._sent(outbox, messages, self._once(outbox, self.sender.tell_of_run), claimed_until)

    async def of_pipelines(
        self, messages: Sequence[Notification], *, claimed_until: int | None = None
    ) -> list[Delivery]:
        """The same of flows and schedules."""
        outbox = self.ledger.flows.outbox
        return await self._sent(outbox, messages, self._once(outbox, self._tell), claimed_until)

    def _once(
        self, outbox: SendableOutbox[M], send: Callable[[M], Awaitable[Delivery]]
    ) -> Callable[[M], Awaitable[Delivery]]:
        """Sends a message of `outbox` by `send`, and writes down what came of it."""
        outbox_sender = OutboxSender(
            outbox=outbox,
            send=send,
            name_of=lambda _: "",  # nobody is warned
            clock=self.ledger.clock,
            scrub=self.scrub,
            warn=_say_nothing,
        )
        return outbox_sender.send_once

    async def _tell(self, told: Notification) -> Delivery:
        [pipeline] = (await self.ledger.flows.pipelines.definitions([told.definition])).values()
        return await self.sender.tell(told, pipeline)

    async def _sent(
        self,
        outbox: Messages,
        messages: Sequence[M],
        send: Callable[[M], Awaitable[Delivery]],
        claimed_until: int | None,
    ) -> list[Delivery]:
        """Each target is told one thing after the other, and all at the same time."""
        came, places = list[Delivery](), anyio.CapacityLimiter(AT_ONCE_MAX)

        async def tell(lane: Sequence[M]) -> None:
            async with places:
                for message in lane:
                    if message.due_at == claimed_until or await self._claim(outbox, message):
                        came.append(await send(message))

        lanes: dict[str | int, list[M]] = {}
        for message in messages:
            lanes.setdefault(message.target or message.id, []).append(message)
        async with anyio.create_task_group() as tasks:
            for lane in lanes.values():
                tasks.start_soon(tell, lane)
        return came

    async def _claim(self, outbox: Messages, message: Message) -> bool:
        """Whether this process is the one that sends it now."""
        now = self.ledger.now()
        until = now + CLAIMED_US
        if message.due_at > now or not await outbox.claim(message.id, message.due_at, until):
            return False
        if await silent_since(self.ledger) is None:
            await outbox.give_back(message.id, until, message.due_at)
            return False
        return True


def _say_nothing(_text: str) -> None:
    """What came of it is returned."""
