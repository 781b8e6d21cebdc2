"""Inputs of flows and their results, as files: what the engine is given by whoever has files.

An input is renamed into place by whoever makes it, so it is read once it is there. What was read is told by its
SHA-256, which is written down before any of its rows is taken in. Results are written beside and renamed.
"""

import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio

from orchestrator.api.flows import command_rows
from orchestrator.api.flows.flow_input import FlowInput, flow_source, has_folder
from orchestrator.api.flows.stage_rows import stage_batches, stage_endpoint, stage_row_mapper
from orchestrator.api.flows.stage_settings import (
    stage_gathering,
    stage_include,
    stage_outputs,
    stage_run_settings,
    stage_writing,
)
from orchestrator.api.messages.message_senders import MessageSender
from orchestrator.api.outcomes.result_files import write_files
from orchestrator.api.runs import start_and_stop_texts
from orchestrator.core.pipelines.pipeline import Pipeline, Stage, run_name
from orchestrator.engine.flows.command_output import CommandFailed, PrintedLine
from orchestrator.engine.flows.row_mapper import RowMapper
from orchestrator.engine.intake.intake import Intake, right_kept, turn_to_take_in, until_taken_in
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.runtime.console import Console
from orchestrator.errors import StorageError, UsageError
from orchestrator.ledger import Ledger
from orchestrator.ledger.flows.flow_rows import Flow, StageRow
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings import connection_settings, run_settings


@dataclass(kw_only=True, eq=False)
class LocalFiles:
    """The files of flows on this machine, for the engine of one ledger."""

    ledger: Ledger
    connection: connection_settings.ConnectionSettings
    dependencies: Dependencies
    console: Console
    webhook_bytes: Callable[[], int]
    """How many bytes a webhook URL adds to a request, at most."""

    scrub: Callable[[bytes], bytes]
    """Takes secrets out of what commands print and say: they are given our environment."""

    async def is_here(self, pipeline: Pipeline) -> bool:
        """Whether what the pipeline has in its folder may be looked for here, as `FlowFiles` has it. No other machine
        has a ledger in a file: what is not there is told as ever.
        """
        return self.ledger.server is None or await has_folder(pipeline, self.dependencies)

    # --- what it begins with

    async def begin(self, flow: Flow, pipeline: Pipeline, stage: Stage) -> Run:
        """The run of a stage, taken in, as `FlowFiles` has it."""
        begin = partial(self._begin, flow, pipeline, stage)
        return await until_taken_in(begin, f"{flow.name}/{stage.name}", self.console.info)

    async def _begin(self, flow: Flow, pipeline: Pipeline, stage: Stage) -> Run:
        """The same, once: what another process takes over on the way is to be read again."""
        known, row = await self._known(flow, stage)
        if known is not None:
            return known
        again = 1 if row is None else row.again
        name = run_name(flow.name, stage.name, again)
        settings = await stage_run_settings(self.ledger, flow, pipeline, stage, row)
        async with (
            flow_source(
                flow, pipeline, self.ledger, self.dependencies, self.console.info, scrubbed=self._scrubbed
            ) as source,
            self._turn(name),
        ):
            run = await self._made(name, stage, source.name, settings)
            await self.ledger.flows.begin_stage(
                flow.id, stage.name, run=run.id, source=source.as_recorded, sha256=source.sha256, again=again
            )
            await self._take_in(run, stage, source, settings)
        taken = await self.ledger.runs.named(name)
        assert taken is not None
        return taken

    async def follow(self, flow: Flow, pipeline: Pipeline, stage: Stage, before: Mapping[str, Run]) -> Run:
        """The run of a stage that is handed the rows of others, as `FlowFiles` has it."""
        known, row = await self._known(flow, stage)
        sources = [before[name] for name in stage.from_]
        hand_over = partial(
            self.ledger.flows.handovers.follow,
            flow.id,
            stage.name,
            sources=sources,
            gathering=stage_gathering(pipeline, stage, before),
        )
        if known is not None:
            await hand_over(to_run=known)
            return known
        told = " and ".join(source.name for source in sources)
        again = 1 if row is None else row.again
        name = run_name(flow.name, stage.name, again)
        settings = await stage_run_settings(self.ledger, flow, pipeline, stage, row)
        async with self._turn(name):  # until rows are handed over to it, it is what a dead intake would have left
            run = await self._made(name, stage, told, settings)
            await self.ledger.flows.begin_stage(flow.id, stage.name, run=run.id, source=told, sha256="", again=again)
            await hand_over(to_run=run)
        return run

    def row_maker(self, pipeline: Pipeline, stage: Stage) -> RowMapper:
        """What makes the rows of a stage, as `MakesRows` has it."""
        webhook_bytes, now = self.webhook_bytes(), self.ledger.now
        return stage_row_mapper(
            pipeline, stage, self.connection, self.dependencies, webhook_bytes=webhook_bytes, now=now
        )

    async def _known(self, flow: Flow, stage: Stage) -> tuple[Run | None, StageRow | None]:
        """The run of a stage that a process before has begun, which may have ended since and may have another name;
        and its row, which may be there without one.
        """
        rows = [each for each in await self.ledger.flows.stages([flow.id]) if each.stage == stage.name]
        if not rows:
            return None, None
        row = max(rows, key=lambda each: each.again)
        found = await self.ledger.runs.all([row.run]) if row.run is not None else []
        return (found[0] if found and found[0].accepted else None), row

    @asynccontextmanager
    async def _turn(self, name: str) -> AsyncIterator[None]:
        hold, never = self.dependencies.holding_intakes(self.ledger.address), anyio.Event()
        async with (
            turn_to_take_in(self.ledger, name, hold=hold, say=self.console.info, stop=never) as right,
            right_kept(right),
        ):
            yield

    async def _made(self, name: str, stage: Stage, source: str, settings: run_settings.RunSettings) -> Run:
        known = await self.ledger.runs.named(name)
        if known is not None:
            return known
        url, endpoint = stage_endpoint(stage, self.connection)
        return await self.ledger.runs.create(
            name=name, service_url=url, endpoint=endpoint, source=source, settings=settings
        )

    async def _take_in(self, run: Run, stage: Stage, source: FlowInput, settings: run_settings.RunSettings) -> None:
        batches, place_of = await stage_batches(
            source,
            stage,
            settings,
            self.ledger,
            self.connection,
            self.dependencies.environ,
            webhook_bytes=self.webhook_bytes(),
        )
        intake = Intake(self.ledger, run, source=source.name, place_of=place_of)
        taken = await intake.take(batches, advice=str)
        start_and_stop_texts.say_taken(self.console, run.name, taken)

    # --- commands

    async def print_rows(
        self, flow: Flow, pipeline: Pipeline, stage: Stage, before: Mapping[str, Run]
    ) -> Sequence[PrintedLine]:
        """Runs the command of a stage once, as `FlowFiles` has it."""

        def say(line: str) -> None:
            self.console.info(self._scrubbed(line))

        with tempfile.TemporaryDirectory(prefix="orchestrator-") as beside:
            files = {
                name: await self._results(flow, pipeline, pipeline.stage(name), before[name], Path(beside))
                for name in command_rows.files_given(stage)
            }
            try:
                lines = await command_rows.print_rows(flow, pipeline, stage, files, self.dependencies.environ, say)
            except CommandFailed as failed:
                raise CommandFailed(self._scrubbed(str(failed))) from None
            return [line._replace(output=self.scrub(line.output)) for line in lines]

    def _scrubbed(self, text: str) -> str:
        return self.scrub(text.encode()).decode()

    async def _results(self, flow: Flow, pipeline: Pipeline, stage: Stage, run: Run, beside: Path) -> str:
        """The path of the results of a stage that is over, which are written anew."""
        if (files := stage_outputs(flow, pipeline, stage)) is not None:
            await self.finish(flow, pipeline, stage, run)
            return str(files[0])
        there = beside / f"{stage.name}.jsonl"
        await write_files(self.ledger, run.id, there, there.with_suffix(".errors.jsonl"), include=())
        return str(there)

    # --- results

    async def finish(self, flow: Flow, pipeline: Pipeline, stage: Stage, run: Run) -> None:
        """Writes the stage's results and errors, where it has an output."""
        if (files := stage_outputs(flow, pipeline, stage)) is None:
            return
        output, errors = files
        include = stage_include(stage)
        try:
            await write_files(
                self.ledger,
                run.id,
                output,
                errors,
                include=include,
                writing=stage_writing(stage),
            )
        except StorageError as error:  # a full disk there is no reason to end the process that serves
            raise UsageError(str(error)) from error

    # --- what people are told

    @property
    def sender(self) -> MessageSender:
        """What brings messages to whom they are for, as `FlowFiles` has it."""
        return MessageSender(self.ledger.address, self.connection, self.dependencies)
