"""Does what people have asked of runs: pause, continue, cancel. What is asked stands with each run in the ledger.

Cancelling stops the sending first. Then what waits here ends at once, and so does what is uncertain: should a webhook
tell what the service calls that, it is cancelled then. What is at the service is cancelled there, within the limit for
`/cancel`. Results that arrive all the same still count. Whether the run is still to be cancelled is asked again by each
transaction, since `continue` may come between two of them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import anyio
from anyio.abc import TaskStatus

from orchestrator.engine.runtime.poll_loop import SELDOM_S, Wakeup, keep_polling
from orchestrator.engine.runtime.subscribers import Subscribers
from orchestrator.engine.sending.served_brakes import ServedBrakes
from orchestrator.ledger import Ledger
from orchestrator.ledger.transactions.run_controls import ControlledRun, RunControls

PAGE: Final = 1_000
AGAIN_S: Final = 1.0
"""While a run is being cancelled, executions that failed come back into the queue: so often they are looked for."""


@dataclass(kw_only=True, eq=False)
class RunController:
    """Of every run whose endpoint this process serves, those that it only collects for included.

    `brakes` hear of those that people had go on. `warn` tells the person what is asked of one,
    `changed` is called when that is something else, `owed` is woken when something is to be cancelled.
    """

    ledger: Ledger
    brakes: ServedBrakes
    is_served: Callable[[int], bool]
    warn: Callable[[str], None]
    changed: Callable[[], None]
    owed: Subscribers
    _wakeup: Wakeup = field(init=False, default_factory=Wakeup)
    _asked: dict[int, ControlledRun] = field(init=False, default_factory=dict)
    _following: anyio.Lock = field(init=False, default_factory=anyio.Lock)

    def controls(self, run: int) -> RunControls:
        """What is asked of `run`."""
        asked = self._asked.get(run)
        return RunControls() if asked is None else asked.controls

    def on_change(self) -> None:
        """Somebody may have asked for something."""
        self._wakeup.wake()

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Listens until cancelled. It has looked once before anything is sent."""
        await self.follow()
        task_status.started()
        await keep_polling(self._poll, self._wakeup, at_least_every_s=SELDOM_S)

    async def follow(self) -> None:
        """Looks what is asked now."""
        async with self._following:
            asked = await self.ledger.runs.asked()
            await self.brakes.follow()
            before = self._asked
            others = [run for run in sorted(before.keys() | asked) if before.get(run) != asked.get(run)]
            ended = await self.ledger.runs.ended(others) if others else ()
            self._asked = asked
            for run in others:
                if self.is_served(run) and run not in ended:  # else another process tells, or it is no news
                    self._tell(run, (asked.get(run) or before[run]).name)
            if others:
                self.changed()

    def _tell(self, run: int, name: str) -> None:
        controls = self.controls(run)
        if controls.cancel:
            self.warn(f"{name} is cancelled: nothing more is sent, and what is at the service is cancelled there")
        elif controls.pause:
            self.warn(f"{name} is paused: nothing more is sent; what is at the service is collected")
        else:
            self.warn(f"{name} continues")

    async def _poll(self) -> float:
        await self.follow()
        if not any(asked.controls.cancel for asked in self._asked.values()):
            return SELDOM_S  # whoever asks for something commits it, and `on_change` is called
        to_cancel = [run for run in await self.ledger.runs.to_cancel() if self.is_served(run)]
        for run in to_cancel:
            await self._cancel(run)
        return AGAIN_S if to_cancel else SELDOM_S

    async def _cancel(self, run: int) -> None:
        while await self.ledger.jobs.cancels.end(run, most=PAGE):
            pass
        now = self.ledger.now()
        while await self.ledger.jobs.cancels.owe_run(run, most=PAGE, now=now):
            self.owed.wake()
