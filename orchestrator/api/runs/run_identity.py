"""Which run a request means: a new one, a known one, or, by mistake, another one of the same name."""

from pathlib import Path

import msgspec

from orchestrator.api.runs.next_command import resume_other_command
from orchestrator.api.runs.process_commands import rebind
from orchestrator.api.runs.run_defaults import process_defaults
from orchestrator.api.runs.run_lookup import run_named, served_by
from orchestrator.api.runs.settings_check import check_rows_fit, check_run_endpoint, check_usable
from orchestrator.core.limits.fair_share import PRIORITY_MAX, PRIORITY_MIN
from orchestrator.core.service.profiles import endpoint_at
from orchestrator.engine.ports.local_endpoints import absolute_endpoint, absolute_members, is_local, stays
from orchestrator.engine.runtime.console import Console
from orchestrator.errors import LedgerBusyError, UsageError
from orchestrator.formats.input.sources import sources_of
from orchestrator.formats.output.atomic_file import is_stream
from orchestrator.formats.templates.field_templates import check_templates
from orchestrator.ledger import Ledger, no_ledger
from orchestrator.ledger.commands.command_types import MAY_BE_TAKEN
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings import run_request, run_settings
from orchestrator.settings.addresses.ledger_address import LedgerUrl, may_exist
from orchestrator.settings.connection_settings import place_for
from orchestrator.settings.run_request import RunRequest
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.words_and_defaults import LOCAL, STANDARD_INPUT
from orchestrator.stores.object_url import Location, ObjectUrl, asked_about, location_of


async def check_given(request: RunRequest) -> None:
    """What the request names has to be there, or a slip of the pen would leave a ledger. Raises `UsageError`.

    A program can give anything, and what it gives is kept in the ledger: what nobody could read again is refused.
    """
    saves = () if request.settings is None else request.settings.save
    sources = (request.source or "").splitlines()
    await asked_about(lambda: _check_given(request), *sources, *(rule.folder for rule in saves))


def _check_given(request: RunRequest) -> None:
    source = request.source
    if source is not None:
        _check_name(request.name)
    if request.settings is not None:
        _check_settings(request.settings, request)
    if source is None and not may_exist(request.ledger):
        raise no_ledger(request.ledger)
    if source is not None:
        check_templates(request.reading.templates)
        _check_sources(source)
    for endpoint in {request.endpoint or "", *(each.endpoint for each in request.members)}:
        if is_local(endpoint):
            file = absolute_endpoint(endpoint).removeprefix(LOCAL).rpartition(":")[0]
            if not Path(file).is_file():
                raise UsageError(f"{run_request.ENDPOINT} {endpoint}: there is no file {file}")
            _check_is_text(file)
    for path in (request.output, request.errors):
        if path is not None:
            _check_is_text(str(path.absolute()))
    _check_is_text(str(request.ledger))


def _check_sources(source: str) -> None:
    """Raises `UsageError` where an input is not there, or has a name that nobody could read again."""
    for given in source.splitlines():
        place = location_of(given)
        is_found = isinstance(place, ObjectUrl) and place.is_pattern  # its store has just said so
        for each in sources_of([given]):
            if each != STANDARD_INPUT:
                if not is_found:
                    _check_is_there(location_of(each))
                _check_is_text(_full_path(each))


def _check_is_there(place: Location) -> None:
    try:
        place.stat()
    except OSError as error:
        raise UsageError(f"{place}: cannot read the input ({error.strerror})") from error


def _check_name(name: str) -> None:
    try:
        run_request.NAME.value_type.read((name,))
    except ValueError as error:
        raise UsageError(f"{run_request.NAME}: {error}") from None


def _check_settings(settings: RunSettings, request: RunRequest) -> None:
    try:
        msgspec.convert(msgspec.to_builtins(settings), RunSettings)
    except (msgspec.ValidationError, TypeError) as error:
        raise UsageError(f"the settings of the run: {error}") from None
    if not PRIORITY_MIN <= settings.priority <= PRIORITY_MAX:
        raise UsageError(f"priority {settings.priority} is not from {PRIORITY_MIN} to {PRIORITY_MAX}")
    check_usable(settings)
    if request.endpoint is not None:
        check_run_endpoint(settings, request.endpoint, request.members)


def _check_is_text(path: str) -> None:
    """The ledger and what is said as JSON have names as text, and a file's can be any bytes. Raises `UsageError`."""
    try:
        path.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{path}: the names of files and folders must be UTF-8; rename it, or use another") from None


async def find_run(ledger: Ledger, request: RunRequest, console: Console, *, alone: bool) -> Run:
    """The run that `request` means, made if it is new, and at the endpoint that `request` names.

    `alone`: nobody else works on the ledger. Raises `UsageError` for a name that means another run.
    """
    if request.source is None:
        known = await run_named(ledger, request.name, not_accepted=True)
        if request.pods is not None and known.settings.pod_template is None:
            raise UsageError(
                f"{run_settings.PODS}: the run {known.name!r} has no pods, but an endpoint: {known.endpoint}"
            )
        return await _at_endpoint(ledger, known, request, console, alone=alone)
    if (found := await ledger.runs.named(request.name)) is not None:
        _check_source(found, request, request.source)
        return await _at_endpoint(ledger, found, request, console, alone=alone)
    url, endpoint = _target(request, None)
    assert request.settings is not None
    return await ledger.runs.create(
        name=request.name,
        service_url=url,
        endpoint=endpoint,
        source=full_source(request.source),
        settings=msgspec.structs.replace(request.settings, members=absolute_members(request.members)),
    )


def _check_source(known: Run, request: RunRequest, source: str) -> None:
    if not request.named and known.source != full_source(source):
        made_from = f"the run {known.name!r} of this ledger was made from {known.source}"
        raise UsageError(f"{made_from}; {_other_name_advice(request)}")


async def _at_endpoint(ledger: Ledger, known: Run, request: RunRequest, console: Console, *, alone: bool) -> Run:
    """`known`, at the endpoint that `request` names: a slip of the pen in its id is mended by the right one."""
    url, endpoint = _target(request, known)
    check_run_endpoint(request.settings or known.settings, endpoint, request.members)
    if request.source is None and request.members:
        check_rows_fit(known, absolute_members(request.members), "give its input again: then they are checked for that")
    if (known.service_url, known.endpoint) == (url, endpoint):
        return known
    before = known.endpoint if known.service_url == LOCAL else endpoint_at(known.endpoint, known.service_url)
    is_for = f"the run {known.name!r} of this ledger is for the endpoint {before}"
    try:
        await _rebind(ledger, known, url, endpoint, alone=alone)
    except LedgerBusyError:
        raise
    except UsageError as error:
        why = error.message
        if request.members:
            why = f"{why}, so that a pool of it has that among its members"
        raise UsageError(f"{is_for} ({why}); {_other_name_advice(request)}") from None
    console.info(f"{known.name}: at the endpoint {endpoint} from now on; {before} never took a job of it")
    rebound = await ledger.runs.named(known.name)
    assert rebound is not None
    return rebound


async def _rebind(ledger: Ledger, known: Run, url: str, endpoint: str, *, alone: bool) -> None:
    """Raises `UsageError` where the former endpoint may have taken a job of the run."""
    if not alone:
        await check_not_local(msgspec.structs.replace(known, service_url=url, endpoint=endpoint), ledger)
        await rebind(ledger, known, url, endpoint)
    elif not await ledger.runs.rebind(known.id, service_url=url, endpoint=endpoint):
        raise UsageError(MAY_BE_TAKEN.format(known.endpoint))


def _other_name_advice(request: RunRequest) -> str:
    going_on = f"continue that one with: {resume_other_command(request)}"
    return going_on if request.source is None else f"give this one another name with {run_request.NAME}, or {going_on}"


def settings_of(run: Run, request: RunRequest, *, is_stage: bool, now: int, machine: str) -> RunSettings:
    """The settings from now on, with the files that `request` names, on that `machine`; if none, or streams, those of
    before stay. So does what no command can say: what a stage of a flow (`is_stage`) takes over from the time before,
    and which results it reuses. Its files are where all machines have them.
    """
    before, given = run.settings, request.settings
    if given is not None and request.remembered is not None:
        given = given.merged_into(before, before=request.remembered)
    if more := [each for each in request.allow_env if each not in before.allow_env]:
        before = msgspec.structs.replace(before, allow_env=(*before.allow_env, *more))
    if request.pods is not None:
        before = msgspec.structs.replace(before, pods=request.pods)
    settings = msgspec.structs.replace(
        given or before, cli_defaults=process_defaults(request, run), takes_over=before.takes_over
    )
    if request.endpoint is not None:
        settings = settings.with_members(absolute_members(request.members), before)
    if is_stage:
        settings = msgspec.structs.replace(settings, reuse=before.reuse)
    output, errors = request.output, request.errors
    if output is None or errors is None or is_stream(output):
        return msgspec.structs.replace(
            settings, output=before.output, errors=before.errors, files_at=before.files_at, files_on=before.files_on
        )
    beside = None if is_stream(errors) else str(errors.absolute())
    files_on = machine if isinstance(request.ledger, LedgerUrl) and not is_stage else ""
    return msgspec.structs.replace(
        settings, output=str(output.absolute()), errors=beside, files_at=now, files_on=files_on
    )


async def check_not_local(run: Run, ledger: Ledger) -> None:
    """A function of the user's is run by the process that has loaded it. Raises `LedgerBusyError`."""
    if run.service_url == LOCAL:
        held_by = await served_by(ledger, run) or "another process"
        raise LedgerBusyError(
            f"{ledger.address}: {held_by} works on this ledger, and cannot run {run.endpoint} of {run.name} for"
            f" this one; wait for it, stop it, or use another {run_request.LEDGER}"
        )


def _target(request: RunRequest, known: Run | None) -> tuple[str, str]:
    """The service URL and the endpoint that `request` names, in the form in which the ledger keeps them.

    A resume stays at the service of `known`, and at its endpoint unless it names another. So does a run whose endpoint
    is one of the pool that is named.
    """
    if known is not None and stays(known.endpoint, absolute_members(request.members)):
        return known.service_url, known.endpoint
    if request.endpoint is None:
        assert known is not None
        return known.service_url, known.endpoint
    if is_local(request.endpoint):
        return LOCAL, absolute_endpoint(request.endpoint)
    service_url = request.connection.serverless_url
    if request.source is None and known is not None and known.service_url != LOCAL and not known.is_at_url:
        service_url = known.service_url
    return place_for(request.endpoint, service_url), request.endpoint


def full_source(source: str) -> str:
    """An input, or several, as the ledger has them: by their full paths."""
    return "\n".join(map(_full_path, source.splitlines()))


def _full_path(source: str) -> str:
    place = location_of(source)
    return source if source == STANDARD_INPUT else str(place.resolve() if isinstance(place, Path) else place)
