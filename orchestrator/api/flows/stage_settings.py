"""What the settings of a stage come to: those of its run, its files, its endpoint, and how it gathers rows."""

from collections.abc import Mapping, Sequence

from anyio import to_thread
from msgspec.structs import replace

from orchestrator.api.flows.stage_saves import stage_saves
from orchestrator.api.outcomes.output_places import make_writable
from orchestrator.api.runs.file_owners import check_flow_owns
from orchestrator.core.jobs.result_reuse import Reuse
from orchestrator.core.pipelines import pipeline as pipelines
from orchestrator.core.pipelines.flow_paths import filled_template, moment
from orchestrator.core.pipelines.pipeline import INPUT, Pipeline, Stage
from orchestrator.core.pipelines.stage_graph import on_the_way
from orchestrator.formats.output.atomic_file import errors_for
from orchestrator.formats.output.writers import forms_of, part_of
from orchestrator.ledger import Ledger
from orchestrator.ledger.flows.flow_rows import Flow, StageRow
from orchestrator.ledger.flows.handover_rows import Gathering
from orchestrator.ledger.runs.runs import Run
from orchestrator.ledger.schema.handover_tables import By
from orchestrator.settings import run_request
from orchestrator.settings.output_settings import OutputSettings
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.sources import Choices, choices_by_flags
from orchestrator.settings.words_and_defaults import Include
from orchestrator.stores.object_url import Location, ObjectUrl, location_of


def stage_choices(stage: Stage) -> Choices:
    """What the stage says, as if a command had said it."""
    return choices_by_flags({key: list(texts) for key, texts in stage.settings.items()})


def stage_endpoints(pipeline: Pipeline) -> dict[str, str]:
    """The endpoints of its stages, by the stages' names."""
    key = run_request.ENDPOINT.key
    return {stage.name: stage.settings[key][-1] for stage in pipeline.stages if key in stage.settings}


def stage_writing(stage: Stage) -> OutputSettings:
    """How its files are written."""
    return stage_choices(stage).build(OutputSettings)


def stage_include(stage: Stage) -> Sequence[Include]:
    """What the rows of its files include besides."""
    return stage_choices(stage)[run_request.INCLUDE] or ()


def stage_outputs(flow: Flow, pipeline: Pipeline, stage: Stage) -> tuple[Location, Location] | None:
    """Where its results and its errors go; None where it writes no files."""
    at = moment(pipeline, flow.fire_at, flow.again)
    texts = [stage.settings.get(setting.key) for setting in (run_request.OUTPUT, run_request.ERRORS)]
    named = (filled_template(pipeline, each[-1], at) if each else None for each in texts)
    output, errors = (None if each is None else location_of(each, is_written=True) for each in named)
    return None if output is None else (output, errors or errors_for(output))


async def stage_run_settings(
    ledger: Ledger, flow: Flow, pipeline: Pipeline, stage: Stage, row: StageRow | None
) -> RunSettings:
    """The settings of the stage's run, with the files that it writes in the end."""
    taken_over = await _taken_over(ledger, flow, row)
    settings = stage_choices(stage).run_settings()
    saves = await stage_saves(pipeline, flow, stage)
    settings = replace(settings, reuse=_reuse(stage), takes_over=taken_over, save=saves)
    if (outputs := stage_outputs(flow, pipeline, stage)) is None:
        return settings
    output, errors = outputs
    writing = stage_writing(stage)
    forms_of(output, errors, writing, stage_include(stage))
    files = (output if writing.split is None else part_of(output, 1), errors)
    for each in files:
        await to_thread.run_sync(make_writable, each, abandon_on_cancel=isinstance(each, ObjectUrl))
    named = " ".join(stage.settings.get(setting.key, ("",))[-1] for setting in (run_request.OUTPUT, run_request.ERRORS))
    await check_flow_owns(ledger, flow, dict.fromkeys(files, named))
    return replace(settings, output=str(output), errors=str(errors), files_at=ledger.now())


async def _taken_over(ledger: Ledger, flow: Flow, row: StageRow | None) -> int | None:
    """The run that carried out a stage the time before, where what has succeeded there is taken over."""
    if row is None or not row.only_failed:
        return None
    rows = await ledger.flows.stages([flow.id])
    return next((each.run for each in rows if (each.stage, each.again) == (row.stage, row.again - 1)), None)


def _reuse(stage: Stage) -> Reuse | None:
    return None if stage.reuse_us is None else Reuse(young_us=stage.reuse_us, version=stage.reuse_version)


def stage_gathering(pipeline: Pipeline, stage: Stage, before: Mapping[str, Run]) -> Gathering | None:
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
