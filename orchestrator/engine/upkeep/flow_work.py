"""Carries one flow out: has its input taken in as a run, follows that run to its end, and has its results written.

Whatever a crash cuts short is begun again by the next process, and comes to the same: a run whose input was taken in
is not taken in again, files are written whole or not at all, and the flow ends once.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

import anyio

from orchestrator.core.flows import FlowEvent, FlowState, end_of
from orchestrator.core.lifecycle import State
from orchestrator.core.pipelines import WHOLE, Pipeline, Stage
from orchestrator.core.wording import counted
from orchestrator.engine.runs import RunSession
from orchestrator.engine.serving import Serving
from orchestrator.errors import UsageError
from orchestrator.ledger import Ledger
from orchestrator.ledger.flows import Flow
from orchestrator.ledger.runs import Run

JUDGED_FROM: Final = 20
"""From so many rows on it is looked how many of them have failed."""

AGAIN_S: Final = 5.0
"""How often it is looked again whether a run that nobody can serve is served."""


class FlowFiles(Protocol):
    """Brings flows their inputs and takes their results: the engine knows no files."""

    async def begin(self, flow: Flow, pipeline: Pipeline, stage: Stage) -> Run:
        """The run of a stage, taken in: once its input is there. Raises `UsageError` where that cannot be, or does not
        come in time.
        """
        ...

    async def finish(self, flow: Flow, pipeline: Pipeline, stage: Stage, run: Run) -> None:
        """Writes what the stage is to leave, now that its run has ended. Raises `UsageError`."""
        ...


@dataclass(kw_only=True, eq=False)
class FlowWork:
    """One flow that has begun."""

    flow: Flow
    pipeline: Pipeline
    ledger: Ledger
    files: FlowFiles
    serving: Serving
    say: Callable[[str], None]
    warn: Callable[[str], None]
    changed: Callable[[], None]
    """Is called when it stands otherwise."""

    scope: anyio.CancelScope = field(init=False, default_factory=anyio.CancelScope)
    run: Run | None = field(init=False, default=None)
    """Once its input was taken in."""

    session: RunSession | None = field(init=False, default=None)
    """The same, while somebody can serve it."""

    @property
    def is_stuck(self) -> bool:
        """Whether nothing comes of it before somebody does something."""
        if self.run is None:
            return False
        if (session := self.session) is None:
            return self.run.id in self.serving.runs.held
        if session.progress.unfinished == 0:
            return False
        is_collected = session.progress.to_collect(adoptable=session.is_adoptable) == 0
        return session.is_over or (session.wishes.pause and not session.wishes.cancel and is_collected)

    @property
    def why_stuck(self) -> str:
        """Why, in a few words."""
        held = None if self.run is None else self.serving.runs.held.get(self.run.id)
        if held is not None:
            return held.why
        if self.flow.why:
            return self.flow.why
        return "" if self.session is None else self.session.why_stopped or self.session.held_up or ""

    async def carry_out(self) -> None:
        """From wherever it stands to its end. What makes it fail is said with the flow."""
        with self.scope:
            try:
                event, why = await self._carried_out()
            except UsageError as error:
                event, why = FlowEvent.FAILED, str(error)
            await self.end(event, why)

    async def _carried_out(self) -> tuple[FlowEvent, str]:
        stage = self.pipeline.stages[0]
        self.run = await self.files.begin(self.flow, self.pipeline, stage)
        await self._until_over(self.run, stage)
        await self.files.finish(self.flow, self.pipeline, stage, self.run)
        counts = await self.ledger.runs.counts(self.run.id)
        succeeded = counts.get(State.SUCCEEDED, 0)
        others = counts.get(State.FAILED, 0) + counts.get(State.CANCELLED, 0)
        now = await self.ledger.flows.named(self.flow.name)
        if now is not None and now.is_cancelled:
            return FlowEvent.CANCELLED, now.why
        why = f"{counted(others, 'job')} of {succeeded + others:,} without a result" if others else ""
        return end_of(succeeded=succeeded, others=others), why

    async def _until_over(self, run: Run, stage: Stage) -> None:
        """Until every job of the run has its outcome, whoever holds it up meanwhile."""
        while True:
            session = await self._served(run)
            while session.progress.unfinished:
                if self._too_many_failed(stage, session):
                    await self._hold(stage, session)
                await session.progress.change()
                self.changed()
                if self.serving.runs.sessions.get(run.id) is not session:
                    break
            else:
                return

    async def _served(self, run: Run) -> RunSession:
        """Once somebody can: the engine, too, tries again what it holds. Raises `UsageError` where it was deleted."""
        while True:
            if not (now := await self.ledger.runs.all([run.id])) or not now[0].accepted:
                raise UsageError(f"its run {run.name} was deleted")
            self.session = await self.serving.serve_own(now[0])
            self.changed()
            if self.session is not None:
                return self.session
            await anyio.sleep(AGAIN_S)

    def _too_many_failed(self, stage: Stage, session: RunSession) -> bool:
        if stage.max_failed is None or self.flow.is_overruled or self.flow.state is FlowState.HELD:
            return False
        failed, ended = session.progress.count(State.FAILED), session.progress.total - session.progress.unfinished
        return ended >= JUDGED_FROM and failed * WHOLE > stage.max_failed * session.progress.total

    async def _hold(self, stage: Stage, session: RunSession) -> None:
        failed, total = session.progress.count(State.FAILED), session.progress.total
        why = f"{failed:,} of {counted(total, 'row')} of {stage.name} have failed, which is more than max-failed allows"
        if await self.ledger.flows.pause(self.flow.id, why):
            self.warn(f"{self.flow.name} is held: {why}; go on with: orchestrator continue {self.flow.name}")
        await self.look_again()

    async def look_again(self) -> None:
        """Somebody may have held, continued or cancelled it."""
        if (now := await self.ledger.flows.named(self.flow.name)) is not None:
            self.flow = now

    async def cancel(self) -> None:
        """Ends it, as was asked: at once where nothing was taken in, else once its run has ended."""
        if self.run is None:
            self.scope.cancel()
            await self.end(FlowEvent.CANCELLED, self.flow.why)
        else:
            await self.ledger.flows.cancel_runs(self.flow.id)

    async def end(self, event: FlowEvent, why: str) -> None:
        """It has ended like that."""
        schedule = self.pipeline.schedule
        pause_after = None if schedule is None else schedule.pause_after_failures
        is_paused = await self.ledger.flows.end(self.flow.id, event, why, pause_after=pause_after)
        tell = self.say if event is FlowEvent.SUCCEEDED else self.warn
        tell(f"{self.flow.name} has {_ENDED[event]}{f': {why}' if why else ''}")
        if is_paused:
            failed = counted(pause_after or 0, "failed flow")
            self.warn(
                f"{self.pipeline.name} is paused after {failed} in a row; once that is mended: orchestrator schedules"
                f" continue {self.pipeline.name}"
            )
        self.changed()


_ENDED: Final = {
    FlowEvent.SUCCEEDED: "succeeded",
    FlowEvent.PARTIAL: "succeeded in part",
    FlowEvent.FAILED: "failed",
    FlowEvent.CANCELLED: "been cancelled",
}
