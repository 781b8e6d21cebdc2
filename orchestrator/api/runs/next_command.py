"""The commands that messages name: each goes on as the request does, when it is given in the same folder.

What the run remembers (`api.runs.run_defaults`) is named only where something that the next command reads, the
configuration file or a variable, would win over it and say something else. The ledger is no affair of the run's: it
is named unless the next command finds it by itself, with the variables of this one or without them.
"""

import shlex
from collections.abc import Sequence
from typing import Any

import msgspec

from orchestrator.core.service.s3_config import REFERENCE
from orchestrator.errors import UsageError
from orchestrator.formats.output.atomic_file import errors_for, is_stream
from orchestrator.settings import command_flags, run_request
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.settings.connection_settings import ConnectionSettings, words_for
from orchestrator.settings.run_request import Configuration, RunRequest
from orchestrator.settings.setting import Setting
from orchestrator.settings.words_and_defaults import CONFIGURATION_DEFAULT, LEDGER_DEFAULT

NOTHING = "/dev/null"
"""A configuration file in which nothing stands."""


def resume_command(request: RunRequest) -> str:
    """What to type to go on with the run as it went, without reading its input."""
    words, configuration = _configuration(request)
    of_account = _account(request)
    read = msgspec.structs.replace(request, configuration=configuration)
    words += _words(read, (run_request.LEDGER,)) if words else _ledger(request)
    return _command("resume", request.name, [*of_account, *words, *_files(read, configuration), *_changed(read)])


def resume_other_command(request: RunRequest) -> str:
    """What to type to go on with another run of the same name and ledger, whose files and limits are its own affair."""
    return _command("resume", request.name, [*_account(request), *_ledger(request)])


def continue_command(request: RunRequest) -> str:
    """What to type to lift what was asked of the run."""
    return _command("unpause", request.name, _ledger(request))


def pause_command(request: RunRequest) -> str:
    """What to type to have nothing more of the run sent."""
    return _command("pause", request.name, _ledger(request))


def watch_command(request: RunRequest) -> str:
    """What to type to see how the run goes on."""
    return _command("watch", request.name, _ledger(request))


def stop_command(request: RunRequest) -> str:
    """What to type to end whoever works on the run's ledger."""
    return _command("stop", None, _ledger(request))


def results_command(run: str, request: RunRequest, *more: Setting[Any]) -> str:
    """What prints the results of `run`, as which `request` was carried out; `more` are switches."""
    return _command("results", run, [*_ledger(request), *map(str, more)])


def failures_command(run: str, request: RunRequest) -> str:
    """What shows the failures of `run` by their kinds."""
    return _command("failures", run, _ledger(request))


def retry_command(run: str, request: RunRequest) -> str:
    """What queues the failed jobs of `run` again."""
    return _command("retry", run, _ledger(request))


def next_command(
    verb: str, name: str | None, ledger: LedgerAddress, given: Configuration, *, service_url: str = ""
) -> str:
    """What to type after a command that was `given` so on `ledger`: `verb`, for the run `name` at `service_url`.

    None of `name` is for a verb that takes none, and "" of `service_url` for one that speaks to no service.
    """
    words = words_for(service_url)
    words += [] if given.named is None else command_flags.CONFIG.words(given.named)
    words += run_request.LEDGER.words(ledger) if run_request.LEDGER.key in given.in_flags | given.in_environment else []
    return _command(verb, name, words)


def _command(verb: str, name: str | None, words: Sequence[str]) -> str:
    if name is not None:
        words = [*words, "--", name] if name.startswith("-") else [name, *words]
    return shlex.join(["orchestrator", *verb.split(), *words])


def _account(request: RunRequest) -> list[str]:
    """Whose the run is. The next command may be given without the variable that said so."""
    return words_for(request.connection.serverless_url)


def _configuration(request: RunRequest) -> tuple[list[str], Configuration]:
    """The words for the file that the next command has to read, if it is not the one that it would read by itself, and
    what it reads then. A file that was named need not be read again, unless there is another one in its place, or
    it has what no run remembers: keys, and where those of accounts are.
    """
    given = request.configuration
    if given is None:
        return command_flags.CONFIG.words(NOTHING) if CONFIGURATION_DEFAULT.is_file() else [], Configuration()
    if given.named is None:
        return [], given
    has_keys = any(not REFERENCE.fullmatch(key) for key in request.connection.keys.values())
    if has_keys or _account(request) or CONFIGURATION_DEFAULT.is_file():
        return command_flags.CONFIG.words(given.named), given
    return [], msgspec.structs.replace(given, named=None, in_file={})


def _files(request: RunRequest, configuration: Configuration) -> list[str]:
    """Where the files go, if the run does not remember that, or if something else would be believed."""
    output, errors = request.output, request.errors
    if output is None or errors is None:
        return []
    is_half = run_request.ERRORS.key in configuration.in_file and run_request.OUTPUT.key not in configuration.in_file
    named = (run_request.OUTPUT, run_request.ERRORS)
    if not (is_stream(output) or is_stream(errors) or is_half or any(_is_changed(request, each) for each in named)):
        return []
    beside = errors == errors_for(output)
    return [*run_request.OUTPUT.words(output), *([] if beside else run_request.ERRORS.words(errors))]


def _changed(request: RunRequest) -> list[str]:
    """What else is said of the process, where something else would be believed."""
    words = []
    for setting in command_flags.KEPT:
        if setting in command_flags.PROCESS and (value := _value(setting, request)) is not None:
            words += setting.words(value) if _is_changed(request, setting) else []
    return words


def _is_changed(request: RunRequest, setting: Setting[Any]) -> bool:
    """Whether the next command would find something else than what the run remembers."""
    configuration = request.configuration or Configuration()
    is_overruled = setting.key in configuration.in_environment & configuration.in_flags
    in_file = setting.key in configuration.in_file
    return is_overruled or (in_file and _value(setting, request) != _without(setting, configuration))


def _value(setting: Setting[Any], request: RunRequest) -> Any:
    return getattr(request.connection if setting.of is ConnectionSettings else request, setting.name)


def _ledger(request: RunRequest) -> list[str]:
    """The ledger alone, for a command that reads no file that was named."""
    configuration = request.configuration
    if configuration is not None and configuration.named is None:
        return _words(request, (run_request.LEDGER,))
    is_usual = request.ledger == LEDGER_DEFAULT and not CONFIGURATION_DEFAULT.is_file()
    return [] if is_usual else run_request.LEDGER.words(request.ledger)


def _words(request: RunRequest, settings: Sequence[Setting[Any]]) -> list[str]:
    configuration = request.configuration or Configuration()
    words = []
    for setting in settings:
        value = _value(setting, request)
        is_said = setting.key in configuration.in_environment or value != _without(setting, configuration)
        if value is not None and is_said:
            words += setting.words(value)
    return words


def _without(setting: Setting[Any], configuration: Configuration) -> Any:
    """The value of `setting` for the next command if it is not told."""
    if texts := configuration.in_file.get(setting.key):
        try:
            return setting.value_type.read(texts)
        except (ValueError, UsageError):
            return None
    return setting.unset
