"""One stage of a flow: follows its run until every row has its outcome, and none can come any more."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Self

import anyio

from orchestrator.core.brakes import MaxFailures
from orchestrator.core.lifecycle import State
from orchestrator.core.pipelines import Stage
from orchestrator.core.wording import counted
from orchestrator.engine.runs import RunSession
from orchestrator.engine.serving import Serving
from orchestrator.engine.upkeep.stage_relay import StageRelay
from orchestrator.errors import UsageError
from orchestrator.ledger import Ledger
from orchestrator.ledger.runs import Run

AGAIN_S: Final = 5.0
"""How often it is looked again whether a run that nobody can serve is served."""


@dataclass(kw_only=True, eq=False)
class StageWork:
    """One stage of a flow that has begun."""

    stage: Stage
    run: Run
    sources: Sequence[Self]
    """The stages that hand over to it."""

    ledger: Ledger
    serving: Serving
    relay: StageRelay
    changed: Callable[[], None]
    """Is called when it stands otherwise."""

    session: RunSession | None = field(init=False, default=None)
    """While somebody can serve it."""

    followers: list[Self] = field(init=False, default_factory=list)

    @property
    def is_waiting(self) -> bool:
        """Whether it has nothing to do before other stages have."""
        return self.session is not None and self.session.progress.unfinished == 0

    @property
    def is_stuck(self) -> bool:
        """Whether nothing comes of it before somebody does something."""
        if (session := self.session) is None:
            return self.run.id in self.serving.runs.held
        if session.progress.unfinished == 0:
            return False
        is_collected = session.progress.to_collect(adoptable=session.is_adoptable) == 0
        return session.is_over or (session.wishes.pause and not session.wishes.cancel and is_collected)

    @property
    def why_stuck(self) -> str:
        """Why, in a few words."""
        if (held := self.serving.runs.held.get(self.run.id)) is not None:
            return held.why
        return "" if self.session is None else self.session.why_stopped or self.session.held_up or ""

    def has_ended(self) -> bool:
        """Whether every row that is there has its outcome, here and before."""
        return self.is_waiting and all(source.has_ended() for source in self.sources)

    def failed_too_many(self) -> str | None:
        """In words, where more rows have failed than may."""
        if self.stage.max_failed is None or self.session is None:
            return None
        progress = self.session.progress
        failed, ended = progress.count(State.FAILED), progress.total - progress.unfinished
        if not MaxFailures(share=self.stage.max_failed).are_exceeded(failed, ended):
            return None
        of = f"the first {counted(ended, 'row')} of {self.stage.name}"
        return f"{failed:,} of {of} have failed, more than max-failed allows"

    async def until_over(self, look: Callable[[Self], Awaitable[None]]) -> None:
        """Until no row of it is left and none can come. `look` is called after each change."""
        while True:
            session = await self._served()
            while self.serving.runs.sessions.get(self.run.id) is session:
                seen = session.progress.changes
                await look(self)
                if await self._is_over():
                    for each in self.followers:
                        each.nudge()
                    return
                if session.progress.changes == seen:
                    await session.progress.change()
                self.changed()

    def nudge(self) -> None:
        """Has it look again: a stage before stands otherwise."""
        if self.session is not None:
            self.session.progress.nudge()

    async def _is_over(self) -> bool:
        """Asked in this order: what is no longer owed is on its way, or counted."""
        if not self.has_ended() or (self.sources and await self.ledger.handovers.is_owed(self.run.id)):
            return False
        return self.has_ended() and not self.relay.is_handing_over_to(self.run.id)

    async def _served(self) -> RunSession:
        """Once somebody can: the engine, too, tries again what it holds. Raises `UsageError` where it was deleted."""
        while True:
            if not (now := await self.ledger.runs.all([self.run.id])) or not now[0].accepted:
                raise UsageError(f"its run {self.run.name} was deleted")
            self.session = await self.serving.serve_own(now[0])
            self.changed()
            if self.session is not None:
                return self.session
            await anyio.sleep(AGAIN_S)
