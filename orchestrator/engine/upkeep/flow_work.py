"""Carries one flow out: has its input taken in as a run, follows that run to its end, and has its results written.

Whatever a crash cuts short is begun again by the next process, and comes to the same: a run whose input was taken in
is not taken in again, files are written whole or not at all, and the flow ends once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import anyio

from orchestrator.core.flows import FlowEvent, FlowState, end_of
from orchestrator.core.lifecycle import State
from orchestrator.core.pipelines import Pipeline, Stage
from orchestrator.core.wording import counted
from orchestrator.engine.serving import Serving
from orchestrator.engine.upkeep.notifier import Notifier, Tells
from orchestrator.engine.upkeep.stage_relay import MakesRows, StageRelay
from orchestrator.engine.upkeep.stage_work import StageWork
from orchestrator.errors import UsageError, leading
from orchestrator.ledger import Ledger
from orchestrator.ledger.flows import Flow
from orchestrator.ledger.runs import Run


class FlowFiles(MakesRows, Tells, Protocol):
    """Brings flows their inputs, and takes their results and what is told of them: the engine knows no files."""

    async def begin(self, flow: Flow, pipeline: Pipeline, stage: Stage) -> Run:
        """The run of a stage, taken in: once its input is there. Raises `UsageError` where that cannot be, or does not
        come in time.
        """
        ...

    async def follow(self, flow: Flow, pipeline: Pipeline, stage: Stage, sources: Sequence[Run]) -> Run:
        """The run of a stage that is handed the rows of others, from now on."""
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
    relay: StageRelay
    notifier: Notifier
    say: Callable[[str], None]
    warn: Callable[[str], None]
    asked: Callable[[], None]
    """Is called once something is asked of its runs."""

    changed: Callable[[], None]
    """Is called when it stands otherwise."""

    scope: anyio.CancelScope = field(init=False, default_factory=anyio.CancelScope)
    stages: list[StageWork] = field(init=False, default_factory=list)
    """Those that have begun: all of them, once the input was taken in."""

    @property
    def is_stuck(self) -> bool:
        """Whether nothing comes of it before somebody does something."""
        left = [stage for stage in self.stages if not stage.has_ended()]
        return any(stage.is_stuck for stage in left) and all(stage.is_stuck or stage.is_waiting for stage in left)

    @property
    def why_stuck(self) -> str:
        """Why, in a few words."""
        return self.flow.why or next((stage.why_stuck for stage in self.stages if stage.is_stuck), "")

    async def carry_out(self) -> None:
        """From wherever it stands to its end. What makes it fail is said with the flow."""
        with self.scope:
            try:
                event, why = await self._carried_out()
            except UsageError as error:
                event, why = FlowEvent.FAILED, str(error)
            await self.end(event, why)

    async def _carried_out(self) -> tuple[FlowEvent, str]:
        for stage in self.pipeline.stages:
            self.stages.append(await self._begun(stage))
        try:
            async with anyio.create_task_group() as group:
                for work in self.stages:
                    group.start_soon(work.until_over, self._look)
        except BaseExceptionGroup as error:
            raise leading(error) from None
        for work in self.stages:
            await self.files.finish(self.flow, self.pipeline, work.stage, work.run)
        return await self._ended()

    async def _begun(self, stage: Stage) -> StageWork:
        sources = [work for work in self.stages if work.stage.name in stage.from_]
        if sources:
            run = await self.files.follow(self.flow, self.pipeline, stage, [source.run for source in sources])
        else:
            run = await self.files.begin(self.flow, self.pipeline, stage)
        work = StageWork(
            stage=stage,
            run=run,
            sources=sources,
            ledger=self.ledger,
            serving=self.serving,
            relay=self.relay,
            changed=self.changed,
        )
        for source in sources:
            source.followers.append(work)
        return work

    async def _ended(self) -> tuple[FlowEvent, str]:
        """How it ended: with all results of the last stage, with some, or with none."""
        counts = [await self.ledger.runs.counts(work.run.id) for work in self.stages]
        succeeded = counts[-1].get(State.SUCCEEDED, 0)
        others = sum(each.get(state, 0) for each in counts for state in (State.FAILED, State.CANCELLED))
        now = await self.ledger.flows.named(self.flow.name)
        if now is not None and now.is_cancelled:
            return FlowEvent.CANCELLED, now.why
        why = f"{counted(others, 'job')} of {succeeded + others:,} without a result" if others else ""
        return end_of(succeeded=succeeded, others=others), why

    async def _look(self, work: StageWork) -> None:
        """Holds the flow once too many rows of a stage have failed."""
        if self.flow.is_overruled or self.flow.state is FlowState.HELD or (why := work.failed_too_many()) is None:
            return
        if await self.ledger.flows.pause(self.flow.id, why):
            self.asked()
            self.notifier.on_change()
            self.warn(f"{self.flow.name} is held: {why}; go on with: orchestrator continue {self.flow.name}")
        await self.look_again()

    async def look_again(self) -> None:
        """Somebody may have held, continued or cancelled it."""
        if (now := await self.ledger.flows.named(self.flow.name)) is not None:
            self.flow = now

    async def cancel(self) -> None:
        """Ends it, as was asked: at once where nothing was taken in, else once its run has ended."""
        if not self.stages:
            self.scope.cancel()
            await self.end(FlowEvent.CANCELLED, self.flow.why)
        else:
            await self.ledger.flows.cancel_runs(self.flow.id)
            self.asked()

    async def end(self, event: FlowEvent, why: str) -> None:
        """It has ended like that."""
        schedule = self.pipeline.schedule
        pause_after = None if schedule is None else schedule.pause_after_failures
        is_paused = await self.ledger.flows.end(self.flow.id, event, why, pause_after=pause_after)
        self.notifier.on_change()
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
