"""Which models the Batch API serves, and where: what `[models.NAME]` of the configuration file says of each."""

from collections.abc import Mapping
from typing import Any

from orchestrator.core.lanes.via import Via
from orchestrator.errors import UsageError
from orchestrator.settings import command_flags, run_request, run_settings
from orchestrator.settings.configuration_file import ConfigurationFile
from orchestrator.settings.run_checks import check_together
from orchestrator.settings.setting import Setting
from orchestrator.settings.sources import Choices, choose
from orchestrator.settings.words_and_defaults import LOCAL


def read_models(named: str | None, environ: Mapping[str, str]) -> Mapping[str, Choices]:
    """For each model what a run of it is given: by its table, and else by what holds for all runs here. `named` is the
    configuration file, if it was named. Raises `UsageError` that names the place.
    """
    found = {}
    for model, (layer, where) in ConfigurationFile.at(named).of_models().items():
        if run_request.ENDPOINT.key not in layer:
            raise UsageError(f'{where}: its endpoint is missing; write endpoint = "abc123"')

        def display_name(setting: Setting[Any], where: str = where) -> str:
            return f"{setting.key} in {where}"

        given: dict[str, object] = {key.replace("-", "_"): list(each.texts) for key, each in layer.items()}
        choices = choose({**given, command_flags.CONFIG.name: named}, environ, display_name=display_name)
        if choices[run_settings.VIA] is Via.HTTP:
            raise UsageError(f"{where}: requests of an OpenAI Batch file go by via = {Via.OPENAI}")
        if (choices[run_request.ENDPOINT] or "").startswith(LOCAL):
            raise UsageError(f"{where}: a function of yours is executed by the command that names it, and by no other")
        check_together(choices.run_settings(), choices.origin)
        found[model] = choices
    return found
