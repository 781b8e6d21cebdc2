"""A stage of a flow: until every row of it has its outcome, and none can come any more."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import anyio

from orchestrator.core.gates.brake_gates import MaxFailures
from orchestrator.core.jobs.lifecycle import State, unfinished
from orchestrator.core.pipelines.pipeline import Stage
from orchestrator.core.text.wording import counted
from orchestrator.engine.flows.row_handover import RowHandover
from orchestrator.engine.flows.stage_runs import StageRuns
from orchestrator.engine.observers.served_run import ServedRun
from orchestrator.errors import UsageError
from orchestrator.ledger import Ledger
from orchestrator.ledger.runs.runs import Run

AGAIN_S: Final = 5.0
"""How often it is looked again whether a run that nobody can serve is served."""


@dataclass(kw_only=True, eq=False)
class StageExecutor(ABC):
    """One stage of a flow that has begun."""

    stage: Stage
    run: Run
    sources: Sequence["StageExecutor"]
    """The stages that hand over to it."""

    ledger: Ledger
    relay: RowHandover
    changed: Callable[[], None]
    """Is called when it stands otherwise."""

    followers: list["StageExecutor"] = field(init=False, default_factory=list)
    is_over: bool = field(init=False, default=False)
    """Whether it has been found that no row is left and none can come."""

    is_short: bool = field(init=False, default=False)
    """Whether the flow is held before it, since too few rows have succeeded."""

    is_let_through: bool = field(init=False, default=False)
    """Whether it may begin: of a stage that waits for all of those before it."""

    @property
    @abstractmethod
    def is_waiting(self) -> bool:
        """Whether it has nothing to do before other stages have."""

    @property
    @abstractmethod
    def is_stuck(self) -> bool:
        """Whether nothing comes of it before somebody does something."""

    @property
    @abstractmethod
    def why_stuck(self) -> str:
        """Why, in a few words."""

    @property
    def why_blocked(self) -> str | None:
        """Why nothing of it, or single jobs at most, are sent though nobody asked for that; None where they are."""
        return None

    @abstractmethod
    def failed_too_many(self) -> str | None:
        """In words, where more rows have failed than may."""

    @abstractmethod
    async def until_over(self, look: "Look") -> None:
        """Until no row of it is left and none can come. `look` is called after each change."""

    @abstractmethod
    def nudge(self) -> None:
        """Has it look again: a stage before stands otherwise."""

    @abstractmethod
    def cancel(self) -> None:
        """Its flow is to end."""

    def has_ended(self) -> bool:
        """Whether every row that is there has its outcome, here and before."""
        return self.is_waiting and all(source.has_ended() for source in self.sources)

    async def is_reached(self) -> bool:
        """Whether nothing of what it is handed at once is open any more."""
        return not any(group.open for group in await self.ledger.flows.groups.all_of(self.run.id))

    def let_through(self) -> None:
        """It may begin."""
        self.is_let_through, self.is_short = True, False

    def begin(self) -> None:
        """It is not over, as far as is known."""
        self.is_over = self.is_let_through = False

    def end(self) -> None:
        """It is over."""
        self.is_over = True
        self.relay.forget(self.run.id)
        for each in self.followers:
            each.nudge()

    async def _is_over(self) -> bool:
        """Asked in this order: what is no longer owed is on its way, or counted."""
        if not self.has_ended() or not all(source.is_over for source in self.sources):
            return False
        if self.sources and (await self.ledger.flows.handovers.is_owed(self.run.id) or await self._has_unfinished()):
            return False
        return self.has_ended() and not self.relay.is_handing_over_to(self.run.id)

    async def _has_unfinished(self) -> bool:
        """Whether rows were handed over that its session may not have counted: it may have been begun meanwhile."""
        return unfinished(await self.ledger.runs.counts(self.run.id)) > 0


Look = Callable[[StageExecutor], Awaitable[None]]


@dataclass(kw_only=True, eq=False)
class ServedStage(StageExecutor):
    """One whose rows are jobs at an endpoint."""

    runs: StageRuns
    session: ServedRun | None = field(init=False, default=None)
    """While somebody can serve it."""

    @property
    def is_waiting(self) -> bool:
        """Whether it has nothing to do before other stages have."""
        return self.session is not None and self.session.progress.unfinished == 0

    @property
    def is_stuck(self) -> bool:
        """Whether nothing comes of it before somebody does something."""
        if (session := self.session) is None:
            return self.runs.why_unservable(self.run.id) is not None
        if self.is_short:
            return True
        if session.progress.unfinished == 0:
            return self.relay.why_away(self.run.id) is not None
        is_collected = session.progress.to_collect(adoptable=session.is_adoptable) == 0
        return session.is_over or (session.controls.pause and not session.controls.cancel and is_collected)

    @property
    def why_stuck(self) -> str:
        """Why, in a few words."""
        if (why := self.relay.why_away(self.run.id) or self.runs.why_unservable(self.run.id)) is not None:
            return why
        if self.session is None:
            return ""
        hold = self.session.blocked_by
        return self.session.why_stopped or ("" if hold is None else hold.sentence)

    @property
    def why_blocked(self) -> str | None:
        """Which of the brakes of its run, or what else, keeps it from being sent."""
        if (why := self.relay.why_away(self.run.id)) is not None:
            return why
        if self.session is not None:
            return self.session.why_blocked
        return self.runs.why_unservable(self.run.id)

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

    async def until_over(self, look: Look) -> None:
        """Until no row of it is left and none can come. `look` is called after each change."""
        while True:
            session = await self._served(look)
            while self.runs.of(self.run.id) is session:
                seen = session.progress.changes
                await look(self)
                if await self._is_over():
                    self.runs.leave(self.run.id)
                    self.end()
                    return
                if session.progress.changes == seen:
                    await session.progress.change()
                self.changed()

    def nudge(self) -> None:
        """Has it look again: a stage before stands otherwise."""
        if self.session is not None:
            self.session.progress.nudge()

    def cancel(self) -> None:
        """Its flow is to end: its run hears of it by itself."""
        self.relay.leave(self.run.id)

    def let_through(self) -> None:
        """It may begin."""
        super().let_through()
        self.relay.let_through(self.run.id)

    async def _served(self, look: "Look") -> ServedRun:
        """Once somebody can: the engine, too, tries again what it holds. Raises `UsageError` where it was deleted."""
        while True:
            if not (now := await self.ledger.runs.all([self.run.id])) or not now[0].accepted:
                raise UsageError(f"its run {self.run.name} was deleted")
            self.session = await self.runs.served(now[0])
            self.changed()
            if self.session is not None:
                return self.session
            await look(self)
            await anyio.sleep(AGAIN_S)
