"""Tells people that a ledger is waited for, and that it can be used again. Nothing of it is owed: that would be written
down first, which is what nobody can do.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import anyio
import msgspec
from msgspec.structs import replace

from orchestrator.api.messages.abandonment_watch import asking_targets
from orchestrator.api.messages.target_delivery import deliver
from orchestrator.client.notify.delivery import Outgoing
from orchestrator.core.pipelines.message_text import letter_of
from orchestrator.core.pipelines.notifications import iso, message_id
from orchestrator.core.pipelines.run_messages import RunNews
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.ledger import Ledger
from orchestrator.ledger.transactions.patience import Trouble
from orchestrator.settings.addresses.ledger_address import folder_of
from orchestrator.settings.connection_settings import ConnectionSettings

TELL_DELAY_S: Final = 60.0
"""What is over before that, nobody has to get up for."""

AGAIN_S: Final = 60.0
"""How long to wait where somebody could not be told."""

_UNAVAILABLE: Final = "unavailable"


@dataclass(kw_only=True, eq=False)
class LedgerAlarm:
    """Of one process. Those hear of it that ask to hear of results which nobody collects: that is what comes of it."""

    ledger: Ledger
    connection: ConnectionSettings
    dependencies: Dependencies
    warn: Callable[[str], None]
    _changed: anyio.Event = field(init=False, default_factory=anyio.Event)
    _told: set[str] = field(init=False, default_factory=set)

    async def serve(self) -> None:
        """Goes on until cancelled."""
        self.ledger.patience.subscribe(self._change)
        while True:
            if (trouble := self.ledger.patience.trouble) is None:
                await self._changed.wait()
                with anyio.move_on_after(TELL_DELAY_S):
                    await self._changed.wait()
            else:
                await self._while_waiting(trouble)

    async def _while_waiting(self, trouble: Trouble) -> None:
        why, since = trouble.error.while_waiting, trouble.since
        while self.ledger.patience.trouble is not None:
            asking = asking_targets(self.connection.targets) - self._told
            self._told |= {name for name in sorted(asking) if await self._tell(name, _UNAVAILABLE, why, since)}
            with anyio.move_on_after(AGAIN_S):
                await self._changed.wait()
        for name in sorted(self._told):
            await self._tell(name, RunNews.RECOVERED, "it can be used again", since)
        self._told.clear()

    def _change(self, _trouble: Trouble | None) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    async def _tell(self, name: str, news: str, why: str, since: int) -> bool:
        """Whether somebody has taken it."""
        target, given = self.connection.targets[name], self.dependencies.with_clock(self.ledger.clock)
        data = {"ledger": self.ledger.address.name, "why": why, "since": iso(since), "commands": []}
        body = msgspec.json.encode({"type": f"ledger.{news}", "timestamp": iso(given.clock.now()), "data": data})
        of = f"ledger {news} {since}"
        letter = letter_of(body, self.connection.dashboard_url)
        message = Outgoing(number=message_id(0, since, of), of=of, body=body, letter=letter, template=target.template)
        like = RunNews.ABANDONED if news == _UNAVAILABLE else RunNews.RECOVERED
        asking = replace(target, on=(like,))
        came = await deliver(asking, like, message, given, folder=folder_of(self.ledger.address))
        if came.problem is not None:
            self.warn(f"{name}: nobody could be told that the ledger is {news}: {came.problem}")
        return came.problem is None
