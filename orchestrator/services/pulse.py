"""Says in the ledger, again and again, how results are collected and until when they are safe, for those who look.

The process at work knows both at every moment; others would have to go through all outstanding jobs.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Final

import anyio
from anyio.abc import TaskStatus

from orchestrator.errors import StorageError
from orchestrator.ledger import Ledger
from orchestrator.ledger.vitals import collecting_write
from orchestrator.settings import Collecting

log = logging.getLogger(__name__)

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
        while True:
            try:
                await self.beat()
            except StorageError as error:  # a picture of the run is no reason to end it; whatever matters will
                log.info("how results are collected could not be written down: %s", error)
            await anyio.sleep(BEAT_S)

    async def beat(self) -> None:
        """Says it once."""
        if said := self._collecting():
            await self._ledger.write(lambda transaction: collecting_write(transaction.connection, said))
