"""What one process has used so far, and by how much its event loop is late."""

import asyncio
from collections.abc import Callable
from typing import Final

import anyio
from anyio.abc import TaskStatus

from orchestrator.core.samples.buckets import LAG_BOUNDS_S, GrowingHistogram
from orchestrator.engine.runtime.process_usage import ProcessUsage

LOOKS_A_SAMPLE: Final = 10
"""So often it is looked whether the loop is late between two samples: each time costs a few microseconds."""


class ProcessMeter:
    """Of this process. `usage` tells what it has used."""

    def __init__(self, usage: Callable[[], ProcessUsage], *, look_every_s: float) -> None:
        self.usage = usage
        self.lag = GrowingHistogram(LAG_BOUNDS_S)
        self._look_every_s = look_every_s

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Looks again and again, until cancelled."""
        task_status.started()
        loop = asyncio.get_running_loop()
        while True:
            due_s = loop.time() + self._look_every_s
            await anyio.sleep(self._look_every_s)
            self.lag.add(loop.time() - due_s)
