"""Inputs of flows and their results, as files: what the engine is given by whoever has files.

An input is renamed into place by whoever makes it, so it is read once it is there. What was read is told by its
SHA-256, which is written down before any of its rows is taken in. Results are written beside and renamed.
"""

import hashlib
import shlex
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import anyio
from anyio import to_thread
from msgspec.structs import replace

from orchestrator.api.flows import command_rows
from orchestrator.api.flows.notification_senders import told_of_run, told_to
from orchestrator.api.flows.subprocesses import carry_out
from orchestrator.api.outcomes.result_files import row_batches, write_files
from orchestrator.api.outcomes.row_input import row_variables
from orchestrator.api.runs import messages
from orchestrator.api.runs.file_owners import check_flow_owns
from orchestrator.api.runs.ledger_words import ledger_words
from orchestrator.core.jobs.result_reuse import Reuse
from orchestrator.core.pipelines import pipeline as pipelines
from orchestrator.core.pipelines.flow_paths import moment, path
from orchestrator.core.pipelines.pipeline import INPUT, Pipeline, Stage, run_name
from orchestrator.core.pipelines.placeholders import Moment, Word, expanded, placeholders, variables
from orchestrator.core.pipelines.stage_graph import on_the_way
from orchestrator.core.service.profiles import address_of, place, profile_of
from orchestrator.core.service.row_variables import RowVariables
from orchestrator.core.text.durations import format_duration
from orchestrator.engine.engine import Engine
from orchestrator.engine.flows.command_stage import CommandFailed, PrintedLine
from orchestrator.engine.flows.row_mapper import RowMapper
from orchestrator.engine.intake.intake import InputBatch, Intake, turn_to_take_in
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.ports.local_endpoints import is_local
from orchestrator.engine.runtime.view import View
from orchestrator.errors import StorageError, UsageError
from orchestrator.formats.input.readers import Places, Reading
from orchestrator.formats.input.rows import Problem
from orchestrator.formats.output.atomic_file import check_writable, errors_for
from orchestrator.formats.output.writers import forms_of, part_of
from orchestrator.ledger import Ledger
from orchestrator.ledger.flows.flows import Flow, StageRow
from orchestrator.ledger.flows.handovers import Gathering
from orchestrator.ledger.flows.outbox import Notification
from orchestrator.ledger.flows.run_outbox import RunMessage
from orchestrator.ledger.runs.runs import Run
from orchestrator.ledger.schema.handover_tables import By
from orchestrator.settings import run_flags
from orchestrator.settings.command_names import message_with_commands
from orchestrator.settings.pipeline_keys import run_settings
from orchestrator.settings.profiles import PROFILE, own_keys, whose
from orchestrator.settings.sources import Choices
from orchestrator.settings.structs import (
    BODY_BYTES_MAX_DEFAULT,
    LEDGER_DEFAULT,
    LOCAL,
    ConnectionSettings,
    InputSettings,
    OutputSettings,
    RunSettings,
)
from orchestrator.units import MIB, SECOND_US

LOOK_S: Final = 5.0
"""How often it is looked whether an input is there."""


class Source(NamedTuple):
    """An input that is there."""

    path: Path
    told: str
    """What it is called: its path, or the command that printed it."""

    fingerprint: tuple[int, ...]
    """What of the file is another once it is changed."""

    sha256: str

    @classmethod
    async def at(cls, path: Path, told: str) -> "Source":
        """What is there now. Raises `UsageError` where it cannot be read."""
        return cls(path, told, _fingerprint(path), await to_thread.run_sync(_sha256, path))

    def watched(self, batches: Iterator[InputBatch]) -> Iterator[InputBatch]:
        """`batches` of the file, which is refused at its end if it is not what it was before."""
        line = 0
        for batch in batches:
            line += len(batch.rows) + len(batch.faults)
            yield batch
        if _fingerprint(self.path) != self.fingerprint:
            yield InputBatch([], [Problem(line=line, text="the file was changed meanwhile; rename it into place")])


@dataclass(kw_only=True, eq=False)
class LocalFiles:
    """The files of flows on this machine, for the engine of one ledger."""

    ledger: Ledger
    connection: ConnectionSettings
    dependencies: Dependencies
    view: View
    webhook_bytes: Callable[[], int]
    """How many bytes a webhook URL adds to a request, at most."""

    # --- what it begins with

    async def begin(self, flow: Flow, pipeline: Pipeline, stage: Stage) -> Run:
        """The run of a stage, taken in, as `FlowFiles` has it."""
        known, row = await self._known(flow, stage)
        if known is not None:
            return known
        again = 1 if row is None else row.again
        name = run_name(flow.name, stage.name, again)
        settings = await self._settings(flow, pipeline, stage, row)
        async with self._source(flow, pipeline) as source:
            hold = self.dependencies.holding_intakes(self.ledger.path)
            never = anyio.Event()
            async with turn_to_take_in(self.ledger, name, hold=hold, say=self.view.say, stop=never):
                run = await self._made(name, stage, source.told, settings)
                await self.ledger.flows.begin_stage(
                    flow.id, stage.name, run=run.id, source=source.told, sha256=source.sha256, again=again
                )
                await self._take_in(run, stage, source, settings)
        taken = await self.ledger.runs.named(name)
        assert taken is not None
        return taken

    async def follow(self, flow: Flow, pipeline: Pipeline, stage: Stage, before: Mapping[str, Run]) -> Run:
        """The run of a stage that is handed the rows of others, as `FlowFiles` has it."""
        known, row = await self._known(flow, stage)
        sources = [before[name] for name in stage.from_]
        if known is None:
            told = " and ".join(source.name for source in sources)
            again = 1 if row is None else row.again
            settings = await self._settings(flow, pipeline, stage, row)
            known = await self._made(run_name(flow.name, stage.name, again), stage, told, settings)
            await self.ledger.flows.begin_stage(flow.id, stage.name, run=known.id, source=told, sha256="", again=again)
        gathering = _gathering(pipeline, stage, before)
        await self.ledger.handovers.follow(flow.id, stage.name, sources=sources, to_run=known, gathering=gathering)
        return known

    def row_maker(self, pipeline: Pipeline, stage: Stage) -> RowMapper:
        """What makes the rows of a stage, as `MakesRows` has it."""
        settings = run_settings(stage.settings)
        return RowMapper(
            stage=stage,
            folder=Path(pipeline.folder),
            variables=RowVariables(
                self.dependencies.environ,
                settings.allow_env,
                own_keys(self.connection, self.dependencies.environ, pipeline.secret_variables),
            ),
            policy=settings.policy,
            is_resumable=settings.resumable,
            webhook_bytes=self.webhook_bytes(),
            body_bytes_max=_choices(stage)[run_flags.BODY_BYTES_MAX] or BODY_BYTES_MAX_DEFAULT,
            now=self.ledger.now,
            code=self.dependencies.user_code(),
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

    async def _taken_over(self, flow: Flow, row: StageRow | None) -> int | None:
        """The run that carried out a stage the time before, where what has succeeded there is taken over."""
        if row is None or not row.only_failed:
            return None
        rows = await self.ledger.flows.stages([flow.id])
        return next((each.run for each in rows if (each.stage, each.again) == (row.stage, row.again - 1)), None)

    async def _settings(self, flow: Flow, pipeline: Pipeline, stage: Stage, row: StageRow | None) -> RunSettings:
        """The settings of the stage's run, with the files that it writes in the end."""
        taken_over = await self._taken_over(flow, row)
        settings = replace(run_settings(stage.settings), reuse=_reuse(stage), takes_over=taken_over)
        output, errors = self._outputs(flow, pipeline, stage)
        if output is None:
            return settings
        errors = errors or errors_for(output)
        writing = _writing(stage)
        include = _choices(stage)[run_flags.INCLUDE]
        forms_of(output, errors, writing, include or ())
        files = (output if writing.split is None else part_of(output, 1), errors)
        for each in files:
            _make_folder(each)
            check_writable(each)
        named = " ".join(stage.settings.get(setting.key, ("",))[-1] for setting in (run_flags.OUTPUT, run_flags.ERRORS))
        await check_flow_owns(self.ledger, flow, dict.fromkeys(files, named))
        return replace(settings, output=str(output), errors=str(errors), files_at=self.ledger.now())

    async def _made(self, name: str, stage: Stage, told: str, settings: RunSettings) -> Run:
        known = await self.ledger.runs.named(name)
        if known is not None:
            return known
        choices = _choices(stage)
        endpoint = shlex.join(stage.command) if stage.command else stage.settings[run_flags.ENDPOINT.key][-1]
        return await self.ledger.runs.create(
            name=name,
            service_url=LOCAL if stage.command or is_local(endpoint) else self._place(stage, choices),
            endpoint=endpoint,
            source=told,
            settings=settings,
        )

    def _place(self, stage: Stage, choices: Choices) -> str:
        """Where the endpoint of `stage` is. Raises `UsageError` where its profile is not ours, or is elsewhere."""
        ours = self.connection.serverless_url.rstrip("/")
        profile = choices[PROFILE]
        if profile is not None and profile != profile_of(ours):
            raise UsageError(f"the stage {stage.name} {whose(place(address_of(ours), profile))}; nothing was sent")
        url = (choices[run_flags.SERVERLESS_URL] or ours).rstrip("/")
        if url in (ours, address_of(ours)):
            return ours
        if profile is not None:
            raise UsageError(f"the stage {stage.name} is at {url}, and its profile {profile} at {address_of(ours)}")
        return url

    async def _take_in(self, run: Run, stage: Stage, source: Source, settings: RunSettings) -> None:
        choices, places = _choices(stage), Places()
        reading = Reading(
            settings=InputSettings(**choices.fields(InputSettings)),
            variables=await row_variables(self.ledger, self.connection, settings, self.dependencies.environ),
            run_policy=settings.policy,
            webhook_bytes=self.webhook_bytes(),
            body_bytes_max=choices[run_flags.BODY_BYTES_MAX] or BODY_BYTES_MAX_DEFAULT,
            is_resumable=settings.resumable,
            via=settings.via,
        )
        batches = row_batches(str(source.path), reading, places)
        intake = Intake(self.ledger, run, source=source.told, place_of=places.of)
        taken = await intake.take(source.watched(batches), advice=str)
        messages.say_taken(self.view, run.name, taken)

    # --- inputs

    @asynccontextmanager
    async def _source(self, flow: Flow, pipeline: Pipeline) -> AsyncIterator[Source]:
        """The input of a flow, for as long as it is read."""
        at = moment(pipeline, flow.fire_at, flow.again)
        if pipeline.input is not None:
            there = Path(path(pipeline, pipeline.input, at))
            await self._until_there(there, flow, pipeline)
            yield await Source.at(there, str(there))
            return
        command = [expanded(each, at, {}) for each in pipeline.input_command]
        with tempfile.NamedTemporaryFile(prefix="orchestrator-", suffix=".jsonl") as file:
            printed = Path(file.name)
            await self._print(command, printed, pipeline, at)
            yield await Source.at(printed, shlex.join(command))

    async def _until_there(self, there: Path, flow: Flow, pipeline: Pipeline) -> None:
        until = (flow.started_at or flow.recorded_at) + pipeline.wait_for_input_us
        while not await to_thread.run_sync(there.is_file):
            left = until - self.ledger.now()
            if left <= 0:
                wait = pipeline.wait_for_input_us
                after = f" after {format_duration(wait)} (wait-for-input)" if wait else ""
                raise UsageError(f"{there}: the input is not there{after}")
            await anyio.sleep(min(LOOK_S, left / SECOND_US))

    async def _print(self, command: list[str], printed: Path, pipeline: Pipeline, at: Moment) -> None:
        """Has a command print the input, which is then read like any other."""
        environ = {**self.dependencies.environ, **variables(at)}
        told, folder = f"the input-command {command[0]}", Path(pipeline.folder)
        with printed.open("wb") as file:
            try:
                await carry_out(command, told=told, folder=folder, environ=environ, printed=file)
            except CommandFailed as failed:
                raise UsageError(str(failed)) from None

    # --- commands

    async def print_rows(
        self, flow: Flow, pipeline: Pipeline, stage: Stage, before: Mapping[str, Run]
    ) -> Sequence[PrintedLine]:
        """Runs the command of a stage once, as `FlowFiles` has it."""
        at = moment(pipeline, flow.fire_at, flow.again)
        given = {each.argument for text in stage.command for each in placeholders(text) if each.word is Word.FILE}
        with tempfile.TemporaryDirectory(prefix="orchestrator-") as beside:
            files = {
                name: await self._results(flow, pipeline, pipeline.stage(name), before[name], Path(beside))
                for name in given
            }
            command = [expanded(each, at, files) for each in stage.command]
            environ = {**self.dependencies.environ, **variables(at)}
            name = run_name(flow.name, stage.name)
            self.view.say(f"{name} runs {shlex.join(command)}")
            return await command_rows.print_rows(
                command, Path(pipeline.folder), environ, lambda line: self.view.say(f"{name}: {line}")
            )

    async def _results(self, flow: Flow, pipeline: Pipeline, stage: Stage, run: Run, beside: Path) -> str:
        """The path of the results of a stage that is over, which are written anew."""
        if (output := self._outputs(flow, pipeline, stage)[0]) is not None:
            await self.finish(flow, pipeline, stage, run)
            return str(output)
        there = beside / f"{stage.name}.jsonl"
        await write_files(self.ledger, run.id, there, errors_for(there), include=())
        return str(there)

    # --- results

    async def finish(self, flow: Flow, pipeline: Pipeline, stage: Stage, run: Run) -> None:
        """Writes the stage's results and errors, where it has an output."""
        output, errors = self._outputs(flow, pipeline, stage)
        if output is None:
            return
        include = _choices(stage)[run_flags.INCLUDE] or ()
        try:
            await write_files(
                self.ledger,
                run.id,
                output,
                errors or errors_for(output),
                include=include,
                writing=_writing(stage),
            )
        except StorageError as error:  # a full disk there is no reason to end the process that serves
            raise UsageError(str(error)) from error

    def _outputs(self, flow: Flow, pipeline: Pipeline, stage: Stage) -> tuple[Path | None, Path | None]:
        at = moment(pipeline, flow.fire_at, flow.again)
        texts = [stage.settings.get(setting.key) for setting in (run_flags.OUTPUT, run_flags.ERRORS)]
        output, errors = (Path(path(pipeline, each[-1], at)) if each else None for each in texts)
        return output, errors

    # --- what people are told

    async def tell(self, told: Notification, pipeline: Pipeline) -> str | None:
        """Sends a notification, as `NotificationSender` has it."""
        return await told_to(replace(told, body=self._with_commands(told.body)), pipeline, self.dependencies)

    async def tell_of_run(self, message: RunMessage) -> str | None:
        """Sends one of a single run, whose command runs in the folder of the ledger."""
        message = replace(message, body=self._with_commands(message.body))
        return await told_of_run(message, self.ledger.path.parent.absolute(), self.dependencies)

    def _with_commands(self, body: bytes) -> bytes:
        """A message whose commands find the ledger, wherever they are given."""
        path = self.ledger.path
        return message_with_commands(body, ledger_words(path if path == LEDGER_DEFAULT else path.absolute()))


def _reuse(stage: Stage) -> Reuse | None:
    return None if stage.reuse_us is None else Reuse(young_us=stage.reuse_us, version=stage.reuse_version)


def _gathering(pipeline: Pipeline, stage: Stage, before: Mapping[str, Run]) -> Gathering | None:
    """How the stage gathers what it is handed, of the runs of the stages before."""
    if stage.gather is None and not stage.command:
        return None
    way = [each for each in pipeline.stages if each.name in on_the_way(pipeline.stages, stage.name)]
    match stage.gather:
        case None | pipelines.ALL:
            by, begins = By.ALL, []
        case pipelines.INPUT:
            by, begins = By.INPUT, [each for each in way if each.from_ == (INPUT,)]
        case name:
            by, begins = By.STAGE, [each for each in way if each.name == name]
    return Gathering(
        by=by, runs=[before[each.name].id for each in way], begins=[before[each.name].id for each in begins]
    )


def _make_folder(output: Path) -> None:
    """A path with the time in it may name a new folder each month."""
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{output.parent}: the folder cannot be made ({error.strerror})") from None


def files_of(engine: Engine, connection: ConnectionSettings, dependencies: Dependencies, view: View) -> LocalFiles:
    """The files for the flows that `engine` carries out."""
    return LocalFiles(
        ledger=engine.ledger,
        connection=connection,
        dependencies=dependencies,
        view=view,
        webhook_bytes=lambda: engine.listener.url_bytes,
    )


def _choices(stage: Stage) -> Choices:
    """What the stage says, as if a command had said it."""
    return Choices.of({key: list(texts) for key, texts in stage.settings.items()})


def _writing(stage: Stage) -> OutputSettings:
    return OutputSettings(**_choices(stage).fields(OutputSettings))


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(MIB):
                digest.update(block)
    except OSError as error:
        raise UsageError(f"{path}: cannot read the input ({error.strerror})") from None
    return digest.hexdigest()


def _fingerprint(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError as error:
        raise UsageError(f"{path}: cannot read the input ({error.strerror})") from None
    return found.st_ino, found.st_size, found.st_mtime_ns
