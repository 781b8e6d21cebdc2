"""Carries one flow out: has its input taken in as a run, follows that run to its end, and has its results written.

Whatever a crash cuts short is begun again by the next process, and comes to the same: a run whose input was taken in
is not taken in again, files are written whole or not at all, and the flow ends once.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol

import anyio

from orchestrator.core.jobs.lifecycle import State, unfinished
from orchestrator.core.pipelines.flow_lifecycle import FlowEvent, FlowState, flow_end
from orchestrator.core.pipelines.flow_paths import awaited_folder
from orchestrator.core.pipelines.pipeline import Pipeline, Stage
from orchestrator.core.pipelines.stage_graph import is_barrier, is_enough, on_the_way
from orchestrator.core.text.next_step import NextStep, Suggestion, Wording
from orchestrator.core.text.wording import counted
from orchestrator.engine.flows.command_output import PrintedLine
from orchestrator.engine.flows.command_stage import CommandStage
from orchestrator.engine.flows.flow_notifier import FlowNotifier, NotificationSender
from orchestrator.engine.flows.row_handover import AWAY_S, MakesRows, RowHandover
from orchestrator.engine.flows.stage_executor import ServedStage, StageExecutor
from orchestrator.engine.flows.stage_runs import StageRuns
from orchestrator.errors import UsageError, leading
from orchestrator.ledger import Ledger
from orchestrator.ledger.flows.flow_rows import Flow, StageRow
from orchestrator.ledger.runs.runs import Run


class FlowFiles(MakesRows, Protocol):
    """Brings flows their inputs, and takes their results and what is told of them: the engine knows no files."""

    @property
    def sender(self) -> NotificationSender:
        """What tells people of them."""
        ...

    async def is_here(self, pipeline: Pipeline) -> bool:
        """Whether what the pipeline has in its folder may be looked for on this machine; False where that folder is on
        other machines that may carry out its flows.
        """
        ...

    async def begin(self, flow: Flow, pipeline: Pipeline, stage: Stage) -> Run:
        """The run of a stage, taken in: once its input is there. Raises `UsageError` where that cannot be, or does not
        come in time.
        """
        ...

    async def follow(self, flow: Flow, pipeline: Pipeline, stage: Stage, before: Mapping[str, Run]) -> Run:
        """The run of a stage that is handed the rows of others, from now on; `before` are the runs of all stages that
        stand before it, by their names.
        """
        ...

    async def print_rows(
        self, flow: Flow, pipeline: Pipeline, stage: Stage, before: Mapping[str, Run]
    ) -> Sequence[PrintedLine]:
        """Runs the command of a stage once, with the files of what the stages before have come to. Raises
        `CommandFailed`.
        """
        ...

    async def finish(self, flow: Flow, pipeline: Pipeline, stage: Stage, run: Run) -> None:
        """Writes what the stage is to leave, now that its run has ended. Raises `UsageError`."""
        ...


@dataclass(kw_only=True, eq=False)
class FlowExecutor:
    """One flow that has begun."""

    flow: Flow
    pipeline: Pipeline
    ledger: Ledger
    files: FlowFiles
    runs: StageRuns
    relay: RowHandover
    notifier: FlowNotifier
    say: Callable[[str], None]
    warn: Callable[[str], None]
    word: Wording
    """Words what people can do."""

    changed: Callable[[], None]
    """Is called when it stands otherwise."""

    scope: anyio.CancelScope = field(init=False, default_factory=anyio.CancelScope)
    stages: list[StageExecutor] = field(init=False, default_factory=list)
    """Those that have begun: all of them, once the input was taken in."""

    _away: str | None = field(init=False, default=None)
    """Why it waits for another machine; None where it does not."""

    @property
    def is_stuck(self) -> bool:
        """Whether nothing comes of it before somebody does something."""
        left = [stage for stage in self.stages if not stage.is_over]
        is_away = self._away is not None and self.flow.state is FlowState.ON_HOLD
        return (is_away or any(stage.is_stuck for stage in left)) and all(
            stage.is_stuck or stage.is_waiting for stage in left
        )

    @property
    def why_stuck(self) -> str:
        """Why, in a few words."""
        return self._away or self.flow.why or next((stage.why_stuck for stage in self.stages if stage.is_stuck), "")

    @property
    def _is_paused(self) -> bool:
        """Whether it is held until people have it go on."""
        return self.flow.state is FlowState.ON_HOLD and not self.flow.is_braked

    async def carry_out(self) -> None:
        """From wherever it stands to its end. What makes it fail is said with the flow."""
        with self.scope:
            try:
                event, why = await self._carried_out()
            except UsageError as error:
                event, why = FlowEvent.FAILED, error.message
            await self.end(event, why)

    async def _carried_out(self) -> tuple[FlowEvent, str]:
        for stage in self.pipeline.stages:
            if not await self._is_here():
                return FlowEvent.CANCELLED, self.flow.why
            self.stages.append(await self._begun(stage))
        self.relay.wake()  # rows that had ended before are owed since then
        while await self._has_more():
            for work in self.stages:
                work.begin()
                if is_barrier(work.stage):
                    self.relay.tell_once_complete(work.run.id, work.nudge)
            try:
                async with anyio.create_task_group() as group:
                    for work in self.stages:
                        group.start_soon(work.until_over, self._look)
            except BaseExceptionGroup as error:
                raise leading(error) from None
        for work in self.stages:
            if await self._is_here():
                await self.files.finish(self.flow, self.pipeline, work.stage, work.run)
        return await self._ended()

    async def _is_here(self) -> bool:
        """Whether it can go on with what is in the folder of its pipeline: it is held until it can; False where it was
        cancelled meanwhile.
        """
        while not await self.files.is_here(self.pipeline):
            if self.flow.is_cancelled:
                return False
            self._away = awaited_folder(self.pipeline.folder)
            await self._look_at_brakes()
            self.changed()
            await anyio.sleep(AWAY_S)
        if self._away is not None:
            self._away = None
            await self._look_at_brakes()
        return True

    async def _has_more(self) -> bool:
        """Whether there is something to do: at first, and where jobs were queued again while others went on."""
        if not all(work.is_over for work in self.stages):
            return True
        runs = [work.run.id for work in self.stages]
        counts = (await self.ledger.runs.counts_by_run(runs)).values()
        return any(map(unfinished, counts)) or any([await self.ledger.flows.handovers.is_owed(run) for run in runs])

    async def _begun(self, stage: Stage) -> StageExecutor:
        sources = [work for work in self.stages if work.stage.name in stage.from_]
        if sources:
            before = {work.stage.name: work.run for work in self.stages}
            run = await self.files.follow(self.flow, self.pipeline, stage, before)
        else:
            run = await self.files.begin(self.flow, self.pipeline, stage)
        work = self._work(stage, run, sources)
        for source in sources:
            source.followers.append(work)
        return work

    def _work(self, stage: Stage, run: Run, sources: Sequence[StageExecutor]) -> StageExecutor:
        if not stage.command:
            return ServedStage(
                stage=stage,
                run=run,
                sources=sources,
                ledger=self.ledger,
                runs=self.runs,
                relay=self.relay,
                changed=self.changed,
            )
        before = {work.stage.name: work.run for work in self.stages}
        return CommandStage(
            stage=stage,
            run=run,
            sources=sources,
            ledger=self.ledger,
            relay=self.relay,
            changed=self.changed,
            run_command=partial(self.files.print_rows, self.flow, self.pipeline, stage, before),
            until_here=self._is_here,
            warn=self.warn,
        )

    async def _ended(self) -> tuple[FlowEvent, str]:
        """How it ended: with all results of the last stage, with some, or with none."""
        counts = [await self.ledger.runs.counts(work.run.id) for work in self.stages]
        succeeded = counts[-1].get(State.SUCCEEDED, 0)
        others = sum(each.get(state, 0) for each in counts for state in (State.FAILED, State.CANCELLED))
        now = await self.ledger.flows.named(self.flow.name)
        if now is not None and now.is_cancelled:
            return FlowEvent.CANCELLED, now.why
        why = f"{counted(others, 'job')} of {succeeded + others:,} without a result" if others else ""
        return flow_end(succeeded=succeeded, others=others), why

    async def _look(self, work: StageExecutor) -> None:
        """Holds the flow once too many rows of a stage have failed, or too few have succeeded for another one, and
        while a brake of a run holds that.
        """
        if is_barrier(work.stage) and not work.is_let_through:
            await self._let_through(work)
        await self._look_at_brakes()
        if self.flow.is_overruled or self._is_paused or (why := work.failed_too_many()) is None:
            return
        await self._hold(why)

    async def _look_at_brakes(self) -> None:
        """A brake pauses nothing, and may let the flow go on by itself: who is told is told once."""
        why = self._away or next((why for stage in self.stages if (why := stage.why_blocked) is not None), None)
        is_news = self.flow.state is FlowState.RUNNING or (self.flow.is_braked and why != self.flow.why)
        if why is not None and is_news and not self.flow.is_cancelled:
            if await self.ledger.flows.brake(self.flow.id, why):
                self.notifier.on_change()
                self.warn(f"{self.flow.name} is held: {why}")
            await self.look_again()
        elif why is None and self.flow.is_braked:
            if await self.ledger.flows.release(self.flow.id):
                self.say(f"{self.flow.name} goes on")
            await self.look_again()

    async def _let_through(self, work: StageExecutor) -> None:
        """Lets a stage begin that waits for all of those before it, once these are over, and with enough rows."""
        if not await work.is_reached():
            work.is_short = False
            return
        await self.look_again()
        why = await self._too_few(work)
        if self.flow.is_cancelled:
            work.let_through()
        elif self._is_paused:
            work.is_short = True
        elif why is None:
            work.let_through()
        elif any(row.is_short for row in await self._rows_of(work)):
            work.let_through()  # somebody went on with it
        else:
            work.is_short = True
            await self._hold(why, short=work.run.id)

    async def _rows_of(self, work: StageExecutor) -> list[StageRow]:
        return [row for row in await self.ledger.flows.stages([self.flow.id]) if row.run == work.run.id]

    async def _too_few(self, work: StageExecutor) -> str | None:
        """Why a stage cannot begin with the rows that there are."""
        stage = work.stage
        way = on_the_way(self.pipeline.stages, stage.name)
        of_way = {each.stage.name: each.run.id for each in self.stages if each.stage.name in way}
        counts = await self.ledger.runs.counts_by_run(list(of_way.values()))
        succeeded = sum(counts.get(of_way[name], {}).get(State.SUCCEEDED, 0) for name in stage.from_)
        failed = sum(each.get(state, 0) for each in counts.values() for state in (State.FAILED, State.CANCELLED))
        if is_enough(stage.needs, succeeded=succeeded, failed=failed):
            return None
        return f"{failed:,} of the {succeeded + failed:,} rows for {stage.name} have failed, more than needs allows"

    async def _hold(self, why: str, *, short: int | None = None) -> None:
        if await self.ledger.flows.pause(self.flow.id, why, short=short):
            self.runs.asked()
            self.notifier.on_change()
            step = self.word(Suggestion(NextStep.CONTINUE_FLOW, self.flow.name))
            self.warn(f"{self.flow.name} is held: {why}; go on with: {step}")
        await self.look_again()

    async def look_again(self) -> None:
        """Somebody may have held, continued or cancelled it."""
        if (now := await self.ledger.flows.named(self.flow.name)) is not None:
            self.flow = now

    def stands(self, flow: Flow) -> None:
        """How it stands in the ledger: somebody may have gone on with it."""
        is_news, self.flow = flow.state is not self.flow.state, flow
        if is_news:
            for stage in self.stages:
                stage.nudge()

    async def cancel(self) -> None:
        """Ends it, as was asked: at once where nothing was taken in, else once its run has ended."""
        if not self.stages:
            self.scope.cancel()
            await self.end(FlowEvent.CANCELLED, self.flow.why)
        else:
            await self.ledger.flows.cancel_runs(self.flow.id)
            for stage in self.stages:
                stage.cancel()
            self.runs.asked()

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
                f"{self.pipeline.name} is paused after {failed} in a row; once that is mended:"
                f" {self.word(Suggestion(NextStep.CONTINUE_SCHEDULE, self.pipeline.name))}"
            )
        self.changed()


_ENDED: Final = {
    FlowEvent.SUCCEEDED: "succeeded",
    FlowEvent.PARTIAL: "succeeded in part",
    FlowEvent.FAILED: "failed",
    FlowEvent.CANCELLED: "been cancelled",
}
