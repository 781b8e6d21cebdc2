"""The heartbeat of this process: says in the ledger, every few seconds, how it stands, for those outside."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

import anyio
import msgspec
from anyio.abc import TaskStatus

from orchestrator.clock import Clock
from orchestrator.engine.runtime.poll_intervals import LOOK_S
from orchestrator.engine.runtime.poll_loop import keep_writing
from orchestrator.errors import OrchestratorError, StorageError, leading
from orchestrator.ledger import Ledger
from orchestrator.ledger.runs.heartbeats import ProcessReport
from orchestrator.units import SECOND_US
from orchestrator.views.members import MemberStatus

BEAT_S: Final = 6.0
"""How often it is said that nothing has changed, and until when results are safe. What was said so long ago still
holds, if a little too careful: results become safer with each answer."""


GOODBYE_S_MAX: Final = 2.0
WHY_CHARS_MAX: Final = 500


ASKED_TO_STOP: Final = "it was asked to stop"
HAS_FINISHED: Final = "it had nothing more to do"


def why_stopped(error: Exception) -> str:
    """Why a process stops that `error` ends: what was told to its person, too."""
    match leading(error):
        case OrchestratorError() as cause:
            return str(cause).splitlines()[0]
        case cause:
            return f"a defect of the program: {type(cause).__name__}"


class HeartbeatWriter:
    """Of one process. `said` gives what there is to say."""

    def __init__(
        self, *, ledger: Ledger, clock: Clock, said: Callable[[], ProcessReport], look_every_s: float = LOOK_S
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._said = said
        self._look_every_s = look_every_s
        self._last: ProcessReport | None = None
        self.beaten_at = 0
        """When it was last said."""

        self._latest: ProcessReport | None = None
        self.is_asked_to_stop = False
        """Whether the process was, or has lost its ledger."""

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Goes on until cancelled."""
        task_status.started()
        await keep_writing(self._look, every_s=self._look_every_s, what="how this process stands")

    async def _look(self) -> None:
        is_due = self._clock.now() - self.beaten_at >= BEAT_S * SECOND_US
        if is_due or _steady(self._said()) != self._last:
            await self.beat()

    async def beat(self) -> None:
        """Says it now."""
        said = self._said()
        await self._ledger.runs.heartbeats.beat(said)
        self._last, self.beaten_at, self._latest = _steady(said), self._clock.now(), said

    @asynccontextmanager
    async def last_word(self) -> AsyncIterator[None]:
        """Says, when the block ends, why; but not where all is cancelled, and with it who would write that down."""
        try:
            yield
        except Exception as error:
            await self._stop(why_stopped(error))
            raise
        await self._stop(ASKED_TO_STOP if self.is_asked_to_stop else HAS_FINISHED)

    async def _stop(self, why: str) -> None:
        """Says for the last time how it stood, and why it stops, where anything was said of it."""
        if self._latest is not None:
            with anyio.move_on_after(GOODBYE_S_MAX, shield=True), suppress(StorageError):
                await self._ledger.runs.heartbeats.beat(
                    msgspec.structs.replace(self._latest, stopped=why[:WHY_CHARS_MAX])
                )


def _steady(said: ProcessReport) -> ProcessReport:
    """Without the times and the figures of members, which change all along."""
    runs = {
        run: msgspec.structs.replace(
            each,
            collecting=each.collecting and msgspec.structs.replace(each.collecting, safe_until=None),
            members=tuple(MemberStatus(endpoint=one.endpoint, state=one.state) for one in each.members),
        )
        for run, each in said.runs.items()
    }
    janitor = said.janitor and msgspec.structs.replace(said.janitor, at=0)
    return msgspec.structs.replace(said, runs=runs, janitor=janitor)
