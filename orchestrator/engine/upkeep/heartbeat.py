"""Says in the ledger, again and again, how results are collected and until when they are safe, for those who look.

The process at work knows both at every moment; others would have to go through all outstanding jobs.
"""

from collections.abc import Callable, Mapping
from typing import Final

import anyio
from anyio.abc import TaskStatus

from orchestrator.engine.wakeup import keep_picturing
from orchestrator.ledger import Ledger
from orchestrator.ledger.heartbeat import collecting_write
from orchestrator.views import Collecting

BEAT_S: Final = 5.0
"""How often. What was said so long ago still holds, if a little too careful: results become safer with each answer."""


class Pulse:
    """Of one process. `collecting` gives what there is to say of each run."""

    def __init__(self, *, ledger: Ledger, collecting: Callable[[], Mapping[int, Collecting]]) -> None:
        self._ledger = ledger
        self._collecting = collecting

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Goes on until cancelled."""
        task_status.started()
        await keep_picturing(self.beat, every_s=BEAT_S, what="how results are collected")

    async def beat(self) -> None:
        """Says it once."""
        if said := self._collecting():
            await self._ledger.write(lambda transaction: collecting_write(transaction.connection, said))
