"""Which members of a stage's outputs become files in one flow of it, and where."""

from orchestrator.api.runs.settings_check import check_saves
from orchestrator.core.outputs.save_rules import SaveRule
from orchestrator.core.pipelines.flow_paths import filled_save, moment
from orchestrator.core.pipelines.pipeline import Pipeline, Stage
from orchestrator.ledger.flows.flow_rows import Flow
from orchestrator.settings.outputs.save_settings import SAVE
from orchestrator.settings.parsers.save_parsers import parse_saves
from orchestrator.stores.object_url import asked_about


async def stage_saves(pipeline: Pipeline, flow: Flow, stage: Stage) -> tuple[SaveRule, ...]:
    """The rules of `stage`, with the time and the name of `flow` filled in. Raises `UsageError` where they cannot be
    kept here.
    """
    at = moment(pipeline, flow.fire_at, flow.again)
    rules = parse_saves([filled_save(pipeline, text, at) for text in stage.settings.get(SAVE.key, ())])
    await asked_about(lambda: check_saves(rules, lambda setting: setting.key), *(rule.folder for rule in rules))
    return rules
