"""The commands that messages name: each goes on as the request does, when it is given in the same folder.

A flag is named where the configuration file, or the default, would say something else. What was set by a variable is
always named: the next command may be given with it or without.
"""

import shlex
from collections.abc import Sequence
from typing import Any

from orchestrator import declared
from orchestrator.declaration import Setting
from orchestrator.errors import UsageError
from orchestrator.settings import (
    CONFIGURATION_DEFAULT,
    LEDGER_DEFAULT,
    Configuration,
    ConnectionSettings,
    RunRequest,
    errors_beside,
)

NOTHING = "/dev/null"
"""A configuration file in which nothing stands."""


def resume_command(request: RunRequest) -> str:
    """What to type to go on with the run as it went, without reading its input."""
    return _command("resume", request.name, [*_configuration(request), *_words(request, declared.PROCESS)])


def resume_other_command(request: RunRequest) -> str:
    """What to type to go on with another run of the same name and ledger, whose files and limits are its own affair."""
    return _command("resume", request.name, _ledger(request))


def continue_command(request: RunRequest) -> str:
    """What to type to lift what was asked of the run."""
    return _command("continue", request.name, _ledger(request))


def pause_command(request: RunRequest) -> str:
    """What to type to have nothing more of the run sent."""
    return _command("pause", request.name, _ledger(request))


def results_command(run: str, request: RunRequest, *more: Setting[Any]) -> str:
    """What prints the results of `run`, as which `request` was carried out; `more` are switches."""
    return _command("results", run, [*_ledger(request), *map(str, more)])


def failures_command(run: str, request: RunRequest) -> str:
    """What shows the failures of `run` by their kinds."""
    return _command("failures", run, _ledger(request))


def retry_command(run: str, request: RunRequest) -> str:
    """What queues the failed jobs of `run` again."""
    return _command("runs retry", run, _ledger(request))


def _command(verb: str, name: str, words: Sequence[str]) -> str:
    return shlex.join(
        ["orchestrator", *verb.split(), *([*words, "--", name] if name.startswith("-") else [name, *words])]
    )


def _configuration(request: RunRequest) -> list[str]:
    """The file that the next command has to read, if it is not the one that it would read by itself."""
    if request.configuration is None:
        return declared.CONFIG.words(NOTHING) if CONFIGURATION_DEFAULT.is_file() else []
    return [] if request.configuration.named is None else declared.CONFIG.words(request.configuration.named)


def _ledger(request: RunRequest) -> list[str]:
    """The ledger alone, for a command that reads no file that was named."""
    configuration = request.configuration
    if configuration is not None and configuration.named is None:
        return _words(request, (declared.LEDGER,))
    is_usual = request.ledger == LEDGER_DEFAULT and not CONFIGURATION_DEFAULT.is_file()
    return [] if is_usual else declared.LEDGER.words(request.ledger)


def _words(request: RunRequest, settings: Sequence[Setting[Any]]) -> list[str]:
    configuration = request.configuration or Configuration()
    words = []
    for setting in settings:
        value = getattr(request.connection if setting.of is ConnectionSettings else request, setting.name)
        is_said = setting.key in configuration.in_environment or value != _without(setting, request, configuration)
        if value is not None and is_said:
            words += setting.words(value)
    return words


def _without(setting: Setting[Any], request: RunRequest, configuration: Configuration) -> Any:
    """The value of `setting` for the next command if it is not told."""
    if texts := configuration.in_file.get(setting.key):
        try:
            return setting.form.read(texts)
        except (ValueError, UsageError):
            return None
    if setting is declared.ERRORS and request.output is not None:
        return errors_beside(request.output)
    return setting.unset
