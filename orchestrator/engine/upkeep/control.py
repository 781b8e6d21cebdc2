"""Does what people ask of a run from another process: pause, continue, cancel.

Cancelling stops the sending first. Then what waits here ends at once, and so does what is uncertain: should a webhook
tell what the service calls that, it is cancelled then. What is at the service is cancelled there, within the limit for
`/cancel`. Results that arrive all the same still count. Whether the run is still to be cancelled is asked again by each
transaction, since `continue` may come between two of them.
"""

from collections.abc import Callable
from typing import Final

import anyio
from anyio.abc import TaskStatus

from orchestrator.clock import Clock
from orchestrator.engine.wakeup import SELDOM_S, Wakeup, keep_polling
from orchestrator.ledger import Ledger
from orchestrator.ledger.control import Wishes

PAGE: Final = 1_000
AGAIN_S: Final = 1.0
"""While a run is being cancelled, executions that failed come back into the queue: so often they are looked for."""


class Control:
    """Of one run. `changed` is called when its wishes are others, `owed` when something is to be cancelled."""

    def __init__(
        self,
        *,
        run: int,
        ledger: Ledger,
        clock: Clock,
        say: Callable[[str], None],
        changed: Callable[[], None],
        owed: Callable[[], None],
    ) -> None:
        self._run = run
        self._ledger = ledger
        self._clock = clock
        self._say = say
        self._changed = changed
        self._owed = owed
        self._wakeup = Wakeup()
        self.wishes = Wishes()

    def on_change(self) -> None:
        """Another process may have asked for something."""
        self._wakeup.wake()

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Listens until cancelled. It has looked once before anything is sent."""
        await self._follow()
        task_status.started()
        await keep_polling(self._poll, self._wakeup, at_least_every_s=SELDOM_S)

    async def _follow(self) -> None:
        wishes = await self._ledger.runs.wishes(run=self._run)
        if wishes == self.wishes:
            return
        self.wishes = wishes
        if wishes.cancel:
            self._say("the run is cancelled: nothing more is sent, and what is at the service is cancelled there")
        elif wishes.pause:
            self._say("the run is paused: nothing more is sent; what is at the service is collected")
        else:
            self._say("the run continues")
        self._changed()

    async def _poll(self) -> float:
        await self._follow()
        if not self.wishes.cancel:
            return SELDOM_S  # whoever asks for something commits it, and `on_change` is called
        while await self._ledger.cancels.end(self._run, most=PAGE):
            pass
        now = self._clock.now()
        while await self._ledger.cancels.owe_run(self._run, most=PAGE, now=now):
            self._owed()
        return AGAIN_S
