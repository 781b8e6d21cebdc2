"""Asks for the URLs by which services learn that this process works, again and again: they raise the alarm once it does
not. Nothing of it is kept, and nothing that did not arrive is sent later: the next one says the same.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import anyio
from anyio.abc import TaskStatus

from orchestrator.clock import Clock
from orchestrator.engine.flows.flow_notifier import NotificationSender
from orchestrator.ledger.runs.heartbeats import STALE_US
from orchestrator.units import SECOND_US

LOOK_S: Final = 1.0
"""How soon a process that cannot write its ledger is found to do so again."""


@dataclass(kw_only=True, eq=False)
class LivenessPings:
    """Of one process. `written_at` says when it last wrote down that it works: one that cannot write does not."""

    sender: NotificationSender
    clock: Clock
    written_at: Callable[[], int]
    warn: Callable[[str], None]

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Goes on until cancelled."""
        task_status.started()
        async with anyio.create_task_group() as tasks:
            for target, every_us in self.sender.heartbeats.items():
                tasks.start_soon(self._ping, target, every_us)

    async def _ping(self, target: str, every_us: int) -> None:
        problem: str | None = None
        while True:
            wait_s = LOOK_S
            if self.clock.now() - self.written_at() <= STALE_US:
                came = await self.sender.beat(target)
                if came.problem is not None and problem is None:
                    self.warn(f"{target}: its heartbeat does not arrive: {came.problem}; it is tried again")
                problem, wait_s = came.problem, max(every_us, came.wait_us) / SECOND_US
            await anyio.sleep(wait_s)
