"""Pipelines' files: checked, shown with what they come to, and recorded as new versions."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec

from orchestrator.api.flows.pipeline_files import check_stage, read_pipeline
from orchestrator.api.flows.stage_settings import stage_endpoints
from orchestrator.api.messages.target_checks import receiver_problems
from orchestrator.api.runs.endpoint_ids import EndpointNames
from orchestrator.api.runs.process_commands import beside
from orchestrator.core.pipelines.due_fires import GapKind, gap
from orchestrator.core.pipelines.flow_paths import filled_template, moment, templates
from orchestrator.core.pipelines.pipeline import Pipeline, when_it_fires
from orchestrator.core.pipelines.schedule_calendar import next_fires
from orchestrator.core.text.local_time import local
from orchestrator.engine.flows.schedule_evaluator import ScheduleEvaluator
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.runtime.console import Console, SilentConsole
from orchestrator.errors import UsageError
from orchestrator.ledger import Ledger, is_made, open_ledger
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.settings.connection_settings import ConnectionSettings

FIRES_SHOWN: Final = 5


class Recording(StrEnum):
    """What was done with a file."""

    CHECKED = "checked"
    RECORDED = "recorded"
    UNCHANGED = "unchanged"


class FireToCome(msgspec.Struct, frozen=True, kw_only=True):
    """One of the next fires: when, as the clock of its zone shows it, and the files of its flow by stage and key."""

    fire: str
    flow: str
    paths: Mapping[str, str]


class Applied(msgspec.Struct, frozen=True, kw_only=True):
    """What a pipeline's file came to."""

    name: str
    file: str
    outcome: Recording
    version: int | None
    """Of what is recorded; None: nothing was."""

    stages: tuple[str, ...]
    fires_at: str
    """Its schedule, in words."""

    fires: tuple[FireToCome, ...]
    """The next ones; without a schedule what a flow of now would be."""

    warnings: tuple[str, ...]
    endpoints: Mapping[str, str] = {}
    """The id of each stage's endpoint, also where it was named."""


async def apply(
    files: Sequence[Path],
    ledger: LedgerAddress,
    *,
    check: bool,
    console: Console | None = None,
    dependencies: Dependencies | None = None,
    connection: ConnectionSettings | None = None,
    config: str | None = None,
) -> list[Applied]:
    """Checks all of `files`, and, unless that is all there is to do, records each in the ledger, which is made if there
    is none. A pipeline counts from then on; flows that have begun keep what they began with. Endpoints that are named
    are looked up in the account of `connection`, or that the configuration file, which may be named by `config`, and
    the environment say.

    Raises `UsageError` where anything is wrong with any of them: then none is recorded.
    """
    dependencies = dependencies or Dependencies()
    now = dependencies.clock.now()
    names = EndpointNames(dependencies=dependencies, connection=connection, config=config)
    pipelines = {file: await _looked_up(each, names) for file, each in _all_of(files, now).items()}
    for name in dict.fromkeys(names.unknown):
        (console or SilentConsole()).warn(taken_for_id(name))
    if check:
        return [_shown(each, str(file), now, Recording.CHECKED, None, names) for file, each in pipelines.items()]
    await _make(ledger, dependencies)
    async with beside(ledger, dependencies) as opened:
        return [
            await _recorded(opened, each, str(file), console or SilentConsole(), names)
            for file, each in pipelines.items()
        ]


async def apply_in(
    ledger: Ledger,
    told: str,
    read: Callable[[int], Pipeline],
    *,
    check: bool,
    console: Console,
    names: EndpointNames,
) -> Applied:
    """The same of what `read` makes of the time now, in a ledger that is open; `told` is what that is called."""
    now = ledger.now()
    pipeline = await _looked_up(read(now), names)
    for name in dict.fromkeys(names.unknown):
        console.warn(taken_for_id(name))
    if check:
        return _shown(pipeline, told, now, Recording.CHECKED, None, names)
    return await _recorded(ledger, pipeline, told, console, names)


async def _looked_up(pipeline: Pipeline, names: EndpointNames) -> Pipeline:
    """`pipeline` with ids and with what the configuration file says for names. Raises `UsageError` where that does not
    agree with what its stages say themselves.
    """
    found = await names.in_pipeline(pipeline)
    for stage in found.stages:
        try:
            check_stage(stage)
        except UsageError as error:
            raise UsageError(f"{pipeline.name}: stage.{stage.name}: {error}") from None
    return found


def taken_for_id(name: str) -> str:
    """What is said of a name that could not be looked up."""
    return f"the endpoint {name} is taken for an id: there is no API key to look up who is called so"


def _all_of(files: Sequence[Path], now: int) -> Mapping[Path, Pipeline]:
    found, problems = {}, []
    for file in files:
        try:
            found[file] = read_pipeline(file, now)
        except UsageError as error:
            problems.append(str(error))
    names: dict[str, Path] = {}
    for file, pipeline in found.items():
        if pipeline.name in names:
            problems.append(
                f"{file}: {pipeline.name} is the pipeline of {names[pipeline.name]}, too; rename one of them"
            )
        names[pipeline.name] = file
    if problems:
        raise UsageError("\n".join(problems))
    return found


async def _make(ledger: LedgerAddress, dependencies: Dependencies) -> None:
    if await is_made(ledger, connect=dependencies.connect_to(ledger)):
        return
    async with (
        dependencies.lock(ledger, now=dependencies.clock.now(), doing="orchestrator apply"),
        open_ledger(ledger, clock=dependencies.clock, connect=dependencies.connect_to(ledger)),
    ):
        pass


async def _recorded(ledger: Ledger, pipeline: Pipeline, file: str, console: Console, names: EndpointNames) -> Applied:
    """Once it is: what was due before is recorded by what the pipeline was then."""
    looker = ScheduleEvaluator(ledger=ledger, say=console.info, warn=console.warn)
    while True:
        now = ledger.now()
        before = await looker.settle(pipeline.name, now)
        if before is not None and before.pipeline == pipeline:
            return _shown(pipeline, file, now, Recording.UNCHANGED, before.version, names)
        missed = None
        if before is not None and before.watermark is not None and before.watermark.at_us < now:
            schedule = before.pipeline.schedule
            assert schedule is not None
            missed = gap(GapKind.PAUSED, schedule, pipeline.name, before.watermark.at_us, now)
        if await ledger.flows.pipelines.define(
            pipeline, now=now, before=before, gap=missed, asked=names.dependencies.asked
        ):
            version = 1 if before is None else before.version + 1
            return _shown(pipeline, file, now, Recording.RECORDED, version, names)


def _warnings(pipeline: Pipeline, names: EndpointNames) -> Iterator[str]:
    """What can be done as it is, and may not be meant."""
    if pipeline.keep_us is None:
        yield 'the rows of its flows are kept for ever, and the ledger grows; write keep = "90d", or as you need them'
    for stage in pipeline.stages:
        if pipeline.keep_us is not None and stage.reuse_us is not None and stage.reuse_us > pipeline.keep_us:
            yield f"{stage.name} can reuse no results that are older than keep: they are gone by then"
    if pipeline.notify is not None:
        for why in receiver_problems(pipeline.notify, names.targets, names.dependencies.environ):
            yield f"{why}; whoever serves needs it"


def _shown(
    pipeline: Pipeline, file: str, now: int, outcome: Recording, version: int | None, names: EndpointNames
) -> Applied:
    schedule = pipeline.schedule
    fires = [now] if schedule is None else next_fires(schedule, now, FIRES_SHOWN)
    return Applied(
        name=pipeline.name,
        file=file,
        outcome=outcome,
        version=version,
        stages=tuple(stage.name for stage in pipeline.stages),
        fires_at=when_it_fires(schedule),
        fires=tuple(_fire(pipeline, fire) for fire in fires),
        warnings=tuple(_warnings(pipeline, names)),
        endpoints=stage_endpoints(pipeline),
    )


def _fire(pipeline: Pipeline, fire_us: int) -> FireToCome:
    at = moment(pipeline, fire_us)
    return FireToCome(
        fire=local(fire_us, at.zone),
        flow=at.flow,
        paths={
            ".".join(filter(None, (table.removeprefix("stage."), key))): filled_template(pipeline, template, at)
            for (table, key), template in templates(pipeline).items()
        },
    )
