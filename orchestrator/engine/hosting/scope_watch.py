"""Follows what others say of the runs in an engine's scope, where the ledger is not its own alone: which there are by
now, with which jobs, which of them are to be sent, and what they are called; their priorities and brakes.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from orchestrator.engine.hosting.run_registry import RunRegistry
from orchestrator.engine.runtime.poll_loop import POLL_S_MAX, SELDOM_S, Wakeup, keep_polling
from orchestrator.errors import StorageError

log = logging.getLogger(__name__)


@dataclass(kw_only=True, eq=False)
class ScopeWatch:
    """Of one engine, whose `runs` it follows. Whoever takes rows in, and whoever obeys what people ask of a run, may be
    another process. `look_again` is called with each run that is another by now, and `serve_all` serves what is to be.
    """

    runs: RunRegistry
    look_again: Callable[[int], Awaitable[None]]
    serve_all: Callable[[], Awaitable[None]]
    _wakeup: Wakeup = field(init=False, default_factory=Wakeup)

    def on_change(self) -> None:
        """Another process may have committed something."""
        self._wakeup.wake()

    async def serve(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Follows until cancelled."""
        task_status.started()
        await keep_polling(self._poll, self._wakeup, at_least_every_s=SELDOM_S)

    async def _poll(self) -> float:
        try:
            for run in await self.runs.changed_elsewhere():
                await self.look_again(run)
            await self.serve_all()
            await self.runs.count_what_came()
        except StorageError as error:
            log.warning("what others say of runs could not be read: %s", error)
            return POLL_S_MAX
        return SELDOM_S
