"""Hands rows from stage to stage: what has ended becomes rows of the next stage, while upstream goes on.

What is owed stands in the ledger, and is handed over and no longer owed in one transaction. So a process that dies in
between has called functions for nothing, and no more.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import anyio
from anyio import to_thread
from anyio.abc import TaskStatus

from orchestrator.core.job import Transition, is_terminal
from orchestrator.core.lifecycle import Event
from orchestrator.core.pipelines import Pipeline, Stage
from orchestrator.engine.row_maker import RowMaker
from orchestrator.engine.runs import RunSession
from orchestrator.engine.wakeup import POLL_S_MAX, SELDOM_S, Wakeup, keep_polling
from orchestrator.errors import StorageError
from orchestrator.ledger import Ledger
from orchestrator.ledger.handovers import HandedOver, Owed, Relay

log = logging.getLogger(__name__)

ROWS_MAX: Final = 500
"""So many rows are handed over by one transaction."""


class MakesRows(Protocol):
    """Knows what makes the rows of a stage."""

    def row_maker(self, pipeline: Pipeline, stage: Stage) -> RowMaker:
        """What makes the rows of this stage."""
        ...


@dataclass(kw_only=True, eq=False)
class StageRelay:
    """Of one ledger."""

    ledger: Ledger
    files: MakesRows
    session_of: Callable[[int], RunSession | None]
    _makers: dict[tuple[int, str], RowMaker] = field(init=False, default_factory=dict)
    """By version of a pipeline, and stage."""

    _under_way: set[int] = field(init=False, default_factory=set)
    _wakeup: Wakeup = field(init=False, default_factory=Wakeup)

    def __post_init__(self) -> None:
        self.ledger.subscribe(self._on_steps)

    def is_handing_over_to(self, run: int) -> bool:
        """Whether rows are on their way to `run` that its session may not have counted yet."""
        return run in self._under_way

    def wake(self) -> None:
        """Something may be owed."""
        self._wakeup.wake()

    def _on_steps(self, taken: Sequence[Transition]) -> None:
        if any(is_terminal(step.after) or step.event is Event.REOPENED for step in taken):
            self.wake()

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Hands over until cancelled."""
        task_status.started()
        await keep_polling(self._poll, self._wakeup, at_least_every_s=SELDOM_S)

    async def _poll(self) -> float:
        try:
            await self.run_once()
        except StorageError as error:
            log.warning("rows could not be handed over: %s", error)
            return POLL_S_MAX
        return SELDOM_S

    async def run_once(self) -> None:
        """Hands over all that is owed."""
        while relays := await self.ledger.handovers.relays_owed():
            for relay in relays:
                await self._hand_over(relay)

    async def _hand_over(self, relay: Relay) -> None:
        """A page of rows."""
        page = await self.ledger.handovers.owed(relay.to_run, ROWS_MAX)
        done = await self._made(relay, page)
        self._under_way.add(relay.to_run)
        try:
            await self.ledger.handovers.hand_over(relay, done)
            if (session := self.session_of(relay.to_run)) is not None:
                await session.count_anew()
        finally:
            self._under_way.discard(relay.to_run)
        if session is not None:
            session.progress.nudge()

    async def _made(self, relay: Relay, page: Sequence[Owed]) -> list[HandedOver]:
        session = self.session_of(relay.to_run)
        if session is not None and session.wishes.cancel:
            return [HandedOver(each) for each in page]
        key = (relay.definition, relay.stage)
        if key not in self._makers:
            [pipeline] = (await self.ledger.pipelines.definitions([relay.definition])).values()
            self._makers[key] = self.files.row_maker(pipeline, pipeline.stage(relay.stage))
        return await to_thread.run_sync(self._makers[key].made, page)
