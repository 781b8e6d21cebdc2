"""Says in the ledger, again and again, how this process stands, for those who look from outside."""

from collections.abc import Callable
from typing import Final

import anyio
import msgspec
from anyio.abc import TaskStatus

from orchestrator.clock import Clock
from orchestrator.engine.wakeup import keep_picturing
from orchestrator.ledger import Ledger
from orchestrator.ledger.heartbeats import Said
from orchestrator.units import SECOND_US

LOOK_S: Final = 2.0
"""How soon it is said that a limit is used otherwise, a duty fails or a job is stuck."""

BEAT_S: Final = 6.0
"""How often it is said that nothing has changed, and until when results are safe. What was said so long ago still
holds, if a little too careful: results become safer with each answer."""


class Heart:
    """Of one process. `said` gives what there is to say."""

    def __init__(self, *, ledger: Ledger, clock: Clock, said: Callable[[], Said], look_every_s: float = LOOK_S) -> None:
        self._ledger = ledger
        self._clock = clock
        self._said = said
        self._look_every_s = look_every_s
        self._last: Said | None = None
        self._beaten_at = 0

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Goes on until cancelled."""
        task_status.started()
        await keep_picturing(self._look, every_s=self._look_every_s, what="how this process stands")

    async def _look(self) -> None:
        is_due = self._clock.now() - self._beaten_at >= BEAT_S * SECOND_US
        if is_due or _steady(self._said()) != self._last:
            await self.beat()

    async def beat(self) -> None:
        """Says it now."""
        said = self._said()
        await self._ledger.heartbeats.beat(said)
        self._last, self._beaten_at = _steady(said), self._clock.now()


def _steady(said: Said) -> Said:
    """Without the times, which change all along."""
    runs = {
        run: msgspec.structs.replace(
            each, collecting=each.collecting and msgspec.structs.replace(each.collecting, safe_until=None)
        )
        for run, each in said.runs.items()
    }
    janitor = said.janitor and msgspec.structs.replace(said.janitor, at=0)
    return msgspec.structs.replace(said, runs=runs, janitor=janitor)
