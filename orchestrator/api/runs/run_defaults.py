"""What a run remembers of its last command, and whose an output file is.

The next command of the run goes on with what the last one was told, where it says nothing else itself, and says what it
takes over. What is of the run (`RunSettings`) is stored with it anyway; of what is of the process, the ledger keeps
the texts (`RunSettings.cli_defaults`), as a configuration file would have them: keys by the names of their variables
only.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from orchestrator.api.runs.file_owners import is_input, owner_of, written_by_other
from orchestrator.api.runs.run_lookup import run_named
from orchestrator.api.runs.settings_check import check_account
from orchestrator.core.text.durations import Policy
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.ports.local_endpoints import is_local
from orchestrator.errors import LedgerBusyError, UsageError
from orchestrator.formats.output.atomic_file import errors_for, holds_data, is_stream
from orchestrator.formats.output.writers import forms_of, part_of, parts_of, parts_pattern
from orchestrator.ledger import Ledger, is_made, read_ledger
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings import command_flags, connection_settings, output_settings, run_request
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.input_settings import InputSettings
from orchestrator.settings.output_settings import OutputSettings
from orchestrator.settings.run_request import Configuration, RunRequest, partial_of
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.setting import Setting
from orchestrator.settings.words_and_defaults import LOCAL
from orchestrator.stores.object_url import Location, asked_about, location_of

_OF_RUN: Final = tuple(
    setting for setting in (*command_flags.RUN, *command_flags.FILE_ONLY) if setting.of is RunSettings
)
_PARTS: Final[Mapping[type[msgspec.Struct] | None, str]] = {
    ConnectionSettings: "connection",
    InputSettings: "reading",
    OutputSettings: "writing",
}
"""The fields of a request that hold settings."""

_OF_POLICY: Final = tuple(setting for setting in command_flags.RUN if setting.of is Policy)


class RememberedRequest(msgspec.Struct, frozen=True):
    """A request with what its run remembers, and the words of a command line that say what was taken over."""

    request: RunRequest
    words: tuple[str, ...] = ()
    has_files: bool = False
    """Whether where the files go is among that."""


async def recall(request: RunRequest, dependencies: Dependencies) -> RememberedRequest:
    """`request`, with what its run remembers.

    Raises `UsageError` where a file would be lost that is there already and is not the run's, and for an unknown run.
    """
    path = request.ledger
    if not await is_made(path, connect=dependencies.connect_to(path)):
        await _check_outputs([], None, request, dependencies.machine())
        return RememberedRequest(request)
    try:
        async with read_ledger(path, clock=dependencies.clock, connect=dependencies.connect_to(path)) as ledger:
            return await _recall(ledger, request, dependencies.machine())
    except LedgerBusyError:  # an older program works with it, and nothing will be done while it does
        return RememberedRequest(request)


async def _recall(ledger: Ledger, request: RunRequest, machine: str) -> RememberedRequest:
    known = await ledger.runs.all()
    if request.source is None:
        run: Run | None = await run_named(ledger, request.name, not_accepted=True)
    else:
        run = next((run for run in known if run.name == request.name), None)
    recalled = RememberedRequest(request) if run is None else as_before(request, run)
    await _check_outputs(known, run, recalled.request, machine)
    return recalled


def as_before(request: RunRequest, run: Run) -> RememberedRequest:
    """`request`, with what `run` remembers of its last command."""
    check_account(run, request)
    before, configuration = run.settings, request.configuration
    if configuration is None or request.fresh_start:  # a program says all of it
        return RememberedRequest(
            _with_files(request, before) if configuration is None and request.source is None else request
        )
    words: list[str] = []
    settings = request.settings or RunSettings()
    changes: dict[type[msgspec.Struct] | None, dict[str, Any]] = defaultdict(dict)
    for setting, value in _remembered(run, request):
        now = getattr(_holder(setting, request, settings), setting.name)
        is_chosen = setting.key in configuration.chosen and (
            request.source is not None or setting in command_flags.RESUME
        )
        if not is_chosen and value != now:
            changes[setting.of][setting.name] = value
            words += setting.words(value)
    if request.settings is not None:
        policy = msgspec.structs.replace(settings.policy, **changes[Policy])
        settings = msgspec.structs.replace(settings, policy=policy, **changes[RunSettings])
        changes[RunRequest] |= {"settings": settings, "remembered": before}
    parts = {part: msgspec.structs.replace(getattr(request, part), **changes[of]) for of, part in _PARTS.items()}
    named = msgspec.structs.replace(request, **parts, **changes[RunRequest])
    found = _with_files(named, before)
    return RememberedRequest(found, (*_file_words(named, found), *words), found is not named)


def _holder(setting: Setting[Any], request: RunRequest, settings: RunSettings) -> msgspec.Struct:
    """What of the request has the field of `setting`."""
    if setting.of is Policy:
        return settings.policy
    if setting.of is RunSettings:
        return settings
    part: msgspec.Struct = getattr(request, _PARTS[setting.of]) if setting.of in _PARTS else request
    return part


def _remembered(run: Run, request: RunRequest) -> Iterator[tuple[Setting[Any], Any]]:
    """What the run's last command had set, with its values."""
    before = run.settings
    at_url = run.is_at_url
    if run.service_url != LOCAL and not at_url and request.endpoint is not None and not is_local(request.endpoint):
        yield connection_settings.SERVERLESS_URL, run.service_url
    for setting in _kept(at_url=at_url):
        if texts := before.cli_defaults.get(setting.key):
            try:
                yield setting, setting.value_type.read(texts)
            except (ValueError, UsageError):
                continue  # a newer program's: this one does without
    for setting in _OF_RUN:
        yield setting, getattr(before, setting.name)
    for setting in _OF_POLICY:
        yield setting, getattr(before.policy, setting.name)


def _with_files(request: RunRequest, before: RunSettings) -> RunRequest:
    """`request`, with the files that the run was last written to if it names none."""
    if request.output is not None or before.output is None:
        return request
    output = location_of(before.output)
    errors = errors_for(output) if before.errors is None else location_of(before.errors)
    return msgspec.structs.replace(request, output=output, errors=errors)


def _file_words(named: RunRequest, found: RunRequest) -> Sequence[str]:
    if found is named or found.output is None or found.errors is None:
        return ()
    beside = found.errors == errors_for(found.output)
    return [
        *run_request.OUTPUT.words(found.output),
        *([] if beside else run_request.ERRORS.words(found.errors)),
    ]


def _kept(*, at_url: bool) -> Sequence[Setting[Any]]:
    """What runs remember of a process: those at URLs also which service is theirs whose key it has."""
    return (*command_flags.KEPT, connection_settings.SERVERLESS_URL) if at_url else command_flags.KEPT


def process_defaults(request: RunRequest, run: Run) -> Mapping[str, tuple[str, ...]]:
    """What `run` is to remember of the process that carries `request` out: texts by key, and no secret."""
    found = {}
    for setting in _kept(at_url=run.is_at_url):
        value = getattr(_holder(setting, request, RunSettings()), setting.name)
        if value is not None and value != setting.unset:
            texts = tuple(setting.value_type.write(value.absolute() if isinstance(value, Path) else value))
            if texts:
                found[setting.key] = texts
    return found


# --- whose a file is


async def _check_outputs(known: Sequence[Run], run: Run | None, request: RunRequest, machine: str) -> None:
    await asked_about(lambda: _check_files(known, run, request, machine), request.output, request.errors)


def _check_files(known: Sequence[Run], run: Run | None, request: RunRequest, machine: str) -> None:
    """Raises `UsageError` where an output cannot be written as it is to be, or would destroy what is not this run's, or
    was written on another machine than this one.
    """
    if request.output is not None and request.errors is not None:
        forms_of(request.output, request.errors, request.writing, request.include)
    elif request.configuration is not None:
        _check_has_output(request.configuration)
    for path in outputs_of(request):
        if run is not None and is_input(path, run):
            raise UsageError(f"{path}: this is the input of the run {run.name!r}; write to another file")
        if is_stream(path) or not holds_data(path):
            continue
        owner = owner_of(path, known, run, request.ledger, machine=machine)
        if owner is not None and owner != run:
            raise written_by_other(path, owner)
        if owner is None and not request.overwrite:
            elsewhere = owner_of(path, known, run, request.ledger, machine=None)
            raise UsageError(
                f"{path}: this file is there already, and {_who_has_not(elsewhere, machine)}; write to another, or add"
                f" {run_request.OVERWRITE}"
            )


def _who_has_not(elsewhere: Run | None, machine: str) -> str:
    """That nobody known has written a file of this machine, whose name a run may have given to one of another."""
    if elsewhere is None:
        return "no run of this ledger has written it"
    return (
        f"the run {elsewhere.name!r} of this ledger has written one of this name on {elsewhere.settings.files_on}, not"
        f" on {machine}"
    )


def _check_has_output(configuration: Configuration) -> None:
    """What a file or a variable says of outputs may be for other runs; what a flag says is for this one's."""
    if said := [
        setting for setting in (*output_settings.OUTPUTS, run_request.INCLUDE) if setting.key in configuration.in_flags
    ]:
        raise UsageError(
            f"{said[0]} says how the files of {run_request.OUTPUT} are written, and there are none; give"
            f" {run_request.OUTPUT} too, or leave it to: orchestrator runs export"
        )


def outputs_of(request: RunRequest) -> Sequence[Location]:
    """The files that carrying `request` out writes."""
    if request.output is None or request.errors is None:
        return ()
    grows = () if is_stream(request.output) else (partial_of(request.output, request.ledger),)
    if request.writing.split is None:
        return (request.output, request.errors, *grows)
    return (*(list(parts_of(request.output)) or [part_of(request.output, 1)]), request.errors, *grows)


def own_outputs(request: RunRequest) -> Sequence[Location]:
    """The same, and the log."""
    return (*outputs_of(request), *([] if request.log_file is None else [request.log_file]))


def written_to(request: RunRequest) -> Location | None:
    """Where its results are, once they are written; of several files, what they are called."""
    output = request.output
    return output if output is None or request.writing.split is None else parts_pattern(output)
