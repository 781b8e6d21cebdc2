"""From what the user chose to the request that the program is given; what can be refused before anything is opened, is.

Every refusal is a `UsageError` that names the place (flag, variable or key) and what to do.
"""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from orchestrator.api.runs.service_connection import check_listener, connection_of, connection_to, service_key
from orchestrator.core.jobs.segments import long_policy
from orchestrator.core.service.addresses import leads_to_loopback
from orchestrator.core.text.durations import TTL_MS_DEFAULT, format_duration
from orchestrator.errors import UsageError
from orchestrator.formats.input.sources import places_of, shown_sources, stem_of
from orchestrator.formats.output.atomic_file import errors_for, same_file
from orchestrator.formats.output.writers import forms_of
from orchestrator.settings import command_flags, output_settings, run_request, run_settings
from orchestrator.settings.command_requests import DoctorRequest, ServeRequest, VerifyRequest
from orchestrator.settings.input_settings import InputSettings
from orchestrator.settings.output_settings import OutputSettings
from orchestrator.settings.parsers.name_parsers import STANDARD_OUTPUT, parse_run_name
from orchestrator.settings.run_checks import check_together
from orchestrator.settings.run_request import RunRequest, partial_of
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.sources import Choices
from orchestrator.settings.words_and_defaults import LOCAL, STANDARD_INPUT, LogFormat
from orchestrator.stores.object_url import Location
from orchestrator.units import MILLISECOND_US

_OTHERWISE: Final = f"\nor run without an account: {run_request.ENDPOINT} local:FILE.py:FUNCTION"


def request_of_run(sources: Sequence[str], choices: Choices, environment: Mapping[str, str]) -> RunRequest:
    """What `orchestrator run` asks for. Raises `UsageError`."""
    endpoint = choices[run_request.ENDPOINT]
    if endpoint is None:
        raise UsageError(
            f"{run_request.ENDPOINT} is missing; give your endpoint's id,"
            " or local:FILE.py:FUNCTION for a function of yours"
        )
    named = choices[run_request.NAME]
    settings = choices.run_settings()
    check_together(settings, choices.origin)
    connection = connection_to(endpoint, choices, environment, otherwise=_OTHERWISE)
    return _checked(
        choices,
        RunRequest(
            source="\n".join(sources),
            reading=choices.build(InputSettings),
            writing=choices.build(OutputSettings),
            connection=connection,
            settings=settings,
            members=settings.members,
            configuration=choices.configuration,
            **choices.fields(RunRequest) | {"name": named or _name_of(sources), "named": named is not None},
        ),
    )


def resume_request(name: str, choices: Choices, environment: Mapping[str, str]) -> RunRequest:
    """What `orchestrator resume` asks for: service and settings stay the run's, and so does its endpoint, unless the
    flag itself names another. Raises `UsageError`.
    """
    check_listener(choices, loopback=True)  # where the service is, is known once the run is
    return _checked(
        choices,
        RunRequest(
            name=name,
            source=None,
            endpoint=choices[run_request.ENDPOINT] if choices.is_from_flag(run_request.ENDPOINT) else None,
            members=choices.members if choices.is_from_flag(run_request.ENDPOINT) else (),
            allow_env=choices[run_settings.ALLOW_ENV] or (),
            pods=choices[run_settings.PODS] if choices.is_from_flag(run_settings.PODS) else None,
            writing=choices.build(OutputSettings, command_flags.RESUME),
            connection=connection_of(choices, environment, among=command_flags.RESUME),
            configuration=choices.configuration,
            **choices.fields(RunRequest, command_flags.RESUME),
        ),
    )


def serve_request(choices: Choices, environment: Mapping[str, str], *, key_needed: bool = True) -> ServeRequest:
    """What `orchestrator serve` asks for; `key_needed`: it cannot do without a key. Raises `UsageError`."""
    connection = connection_of(choices, environment, among=command_flags.SERVE, key="")
    check_listener(choices, loopback=leads_to_loopback(connection.serverless_url))
    key = service_key(choices, environment, needed=key_needed and not connection.keys)
    request = ServeRequest(
        ledger=choices.ledger,
        connection=msgspec.structs.replace(connection, api_key=key),
        log_file=choices[run_request.LOG_FILE],
        log_format=choices[run_request.LOG_FORMAT] or LogFormat.TEXT,
    )
    if (
        request.log_file is not None
        and isinstance(request.ledger, Path)
        and same_file(request.log_file, request.ledger)
    ):
        raise UsageError(f"{run_request.LOG_FILE} and the ledger are the same file, {request.log_file}; choose another")
    return request


def _checked(choices: Choices, request: RunRequest) -> RunRequest:
    """`request` with both files where one is named. Raises `UsageError` where two are one."""
    output, errors = _outputs(choices)
    request = msgspec.structs.replace(request, output=output, errors=errors)
    if output is not None and errors is not None:
        forms_of(output, errors, request.writing, request.include)
    _check_files(request)
    return request


def verify_request(run: str | None, choices: Choices, *, complete: bool) -> VerifyRequest:
    """What `orchestrator verify` asks for. Raises `UsageError`."""
    named = choices[run_request.NAME]
    if run is not None and choices.is_from_flag(run_request.NAME) and named != run:
        raise UsageError(f"{run} and {run_request.NAME} {named} are two runs; name one")
    output, errors = _outputs(choices)
    if complete and output is None:
        raise UsageError(f"--complete needs {run_request.OUTPUT}: which file is to be complete?")
    return VerifyRequest(
        ledger=choices.ledger,
        name=run or named,
        output=output,
        errors=errors,
        format=choices[output_settings.OUTPUT_FORMAT],
        order=choices[output_settings.ORDER],
        complete=complete,
    )


def doctor_request(name: str | None, choices: Choices, environment: Mapping[str, str]) -> DoctorRequest:
    """What `orchestrator doctor` asks for. Raises `UsageError`."""
    endpoint = choices[run_request.ENDPOINT]
    if endpoint is not None and endpoint.startswith(LOCAL):
        raise UsageError(f"{run_request.ENDPOINT} {endpoint}: there is no service to ask; name the run instead")
    request = DoctorRequest(ledger=choices.ledger, name=name, endpoint=endpoint)
    if choices.no_profile is not None:  # what the ledger says can be told all the same
        return msgspec.structs.replace(request, no_account=str(choices.no_profile))
    connection = connection_of(choices, environment, among=command_flags.DOCTOR)
    return msgspec.structs.replace(request, connection=connection)


def warnings(request: RunRequest) -> tuple[str, ...]:
    """What is allowed and probably not meant."""
    found = []
    settings = request.settings or RunSettings()
    policy = long_policy(settings.policy) if settings.resumable else settings.policy
    ttl_ms = policy.ttl_ms or TTL_MS_DEFAULT
    timeout_ms = policy.timeout_ms
    if ttl_ms < timeout_ms:
        found.append(
            f"the TTL ({format_duration(ttl_ms * MILLISECOND_US)}) is shorter than the execution timeout"
            f" ({format_duration(timeout_ms * MILLISECOND_US)}):"
            " the service deletes a job at its TTL, even while it runs"
        )
    return (*found, *serve_warnings(request))


def serve_warnings(request: RunRequest | ServeRequest) -> tuple[str, ...]:
    """The same, of whoever serves runs of others."""
    open_way = key_warning(request.connection.serverless_url) if request.connection.api_key else None
    return () if open_way is None else (open_way,)


def key_warning(url: str) -> str | None:
    """What to say where an API key goes to `url`; None where all is well."""
    if not url.startswith("http:") or leads_to_loopback(url):
        return None
    return f"the API key travels unencrypted to {url}; use https:// if the service offers it"


def _name_of(sources: Sequence[str]) -> str:
    if len(sources) > 1:
        raise UsageError(f"{len(sources)} inputs have no name in common; give the run one with {run_request.NAME}")
    [source] = sources
    if source == STANDARD_INPUT:
        raise UsageError(f"standard input has no name; give the run one with {run_request.NAME}")
    try:
        return parse_run_name(stem_of(source))
    except ValueError:
        raise UsageError(
            f"{shown_sources(sources)!r} gives no name for the run; choose one with {run_request.NAME}"
        ) from None


def _outputs(choices: Choices) -> tuple[Location | None, Location | None]:
    output, errors = choices[run_request.OUTPUT], choices[run_request.ERRORS]
    if output is None:
        if errors is not None:
            raise UsageError(
                f"{choices.origin(run_request.ERRORS)} needs <setting output>: the two files are written together"
            )
        return None, None
    if output == STANDARD_OUTPUT and choices.is_on(command_flags.JSON):
        raise UsageError(
            f"<setting json> and {choices.origin(run_request.OUTPUT)} would both write to standard output;"
            " leave one out"
        )
    return output, errors or errors_for(output)


def _check_files(request: RunRequest) -> None:
    """No file may be two things at once: writing one would destroy the other."""
    files: list[tuple[str, Location]] = []
    if isinstance(request.ledger, Path):
        files.append(("the ledger", request.ledger))
    if request.source is not None:
        files += [("the input", each) for each in places_of(request.source.splitlines())]
    if request.output is not None and request.errors is not None:
        files += [(str(run_request.OUTPUT), request.output), (str(run_request.ERRORS), request.errors)]
        files.append((f"what {run_request.OUTPUT} grows in", partial_of(request.output, request.ledger)))
    if request.log_file is not None:
        files.append((str(run_request.LOG_FILE), request.log_file))
    for (first, first_path), (second, second_path) in itertools.combinations(files, 2):
        if same_file(first_path, second_path):
            raise UsageError(f"{second} and {first} are the same file, {second_path}; choose another for one of them")
