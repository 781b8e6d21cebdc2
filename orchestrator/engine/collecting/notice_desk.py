"""What a listener is told: noted durably, answered at once, and handed to the engine that works at its endpoint."""

import asyncio
from typing import Final

from orchestrator.core.service.webhook_token import Notice
from orchestrator.engine.collecting.webhook_inbox import WebhookInbox
from orchestrator.ledger import Ledger

GATHER_S: Final = 0.1
"""Where several engines may be meant, so much is noted before each looks for its own."""


class NoticeDesk:
    """The `NoticeSink` of a process, in front of the inboxes of its engines.

    One of them is handed what comes, as long as it is the only one; several look into the ledger, as those of other
    processes do, which notice the commit.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._inboxes: list[WebhookInbox] = []
        self._is_look_due = False

    def add(self, inbox: WebhookInbox) -> None:
        """`inbox` is told from now on."""
        self._inboxes.append(inbox)

    def remove(self, inbox: WebhookInbox) -> None:
        """`inbox` is not told any more."""
        self._inboxes.remove(inbox)

    async def note(self, notice: Notice) -> None:
        """Makes `notice` durable; raises `StorageError` when it could not be."""
        await self._ledger.writer.record_notice(notice)
        if len(self._inboxes) == 1:
            self._inboxes[0].came(notice)
        elif not self._is_look_due:
            self._is_look_due = True
            asyncio.get_running_loop().call_later(GATHER_S, self._look)

    def _look(self) -> None:
        self._is_look_due = False
        for inbox in self._inboxes:
            inbox.look()
