"""`orchestrator limits`: show, set and reset the limits of a run's endpoint, also while the run goes on."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Final, TypeVar

import typer

from orchestrator.cli.framework import flags
from orchestrator.cli.framework.command_groups import ShownGroup
from orchestrator.cli.framework.endpoint_names import id_at
from orchestrator.cli.framework.runner import at_ledger
from orchestrator.cli.output import streams, tables
from orchestrator.cli.output.status_texts import window
from orchestrator.cli.runs.control import when_set
from orchestrator.core.limits.limit_text import parse_limit
from orchestrator.core.limits.rate_pacer import Limit, Operation
from orchestrator.core.service.profiles import endpoint_at
from orchestrator.core.text.figures import minute
from orchestrator.errors import UsageError
from orchestrator.settings import run_request
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.settings.parsers.name_parsers import is_endpoint_name
from orchestrator.settings.sources import Choices
from orchestrator.views.limits import EndpointLimitStatus, OperationLimits

T = TypeVar("T")

HEADINGS: Final = ("operation", "limit", "set (UTC)", "now")

Rules = Annotated[
    list[str], typer.Argument(metavar="OP=N/S[:C]", help="At most N requests of operation OP in S seconds, C at once.")
]
Operations = Annotated[list[str] | None, typer.Argument(metavar="OP", help="The operations. Default: all of them.")]
SomeRun = Annotated[
    str | None,
    typer.Argument(metavar="NAME", autocompletion=flags.run_names, help="The run. Default: all of the ledger."),
]
AtEndpoint = Annotated[
    str | None,
    flags.option(run_request.ENDPOINT, "Of this endpoint, to which jobs of the run were sent again, not of its own."),
]


commands = typer.Typer(
    cls=ShownGroup,
    help="Show and change how fast requests go to the runs' endpoints.\n\nAlso while a run goes on. Without a verb"
    " they are shown.",
)


_shared = at_ledger("The limits as JSON on standard output.")


@commands.command("show")
@_shared
async def limits(name: SomeRun = None, *, ledger: LedgerAddress, as_json: bool) -> None:
    """Show the limits of each endpoint and how much of them is used now.

    Example: orchestrator limits show
    """
    from orchestrator.api.admin.limits import limits

    show_limits(await limits(ledger, name), ledger, as_json=as_json)


@commands.command("set")
@_shared
async def limits_set(
    name: flags.RunName,
    rules: Rules,
    endpoint: AtEndpoint = None,
    *,
    choices: Choices,
    ledger: LedgerAddress,
    as_json: bool,
) -> None:
    """Set limits of the run's endpoint. Who works on it takes them on within a second; they stay until reset.

    Example: orchestrator limits set prompts run=500/10
    """
    from orchestrator.api.admin.limits import limits_set

    chosen, endpoint = limits_of(rules), await _id_of(name, endpoint, choices, ledger)
    show_limits_changed(await limits_set(ledger, name, chosen, endpoint=endpoint), "set", as_json=as_json)


@commands.command("reset")
@_shared
async def limits_reset(
    name: flags.RunName,
    operations: Operations = None,
    endpoint: AtEndpoint = None,
    *,
    choices: Choices,
    ledger: LedgerAddress,
    as_json: bool,
) -> None:
    """Forget what was set: the limits are again those that the run was started with.

    Example: orchestrator limits reset prompts run
    """
    from orchestrator.api.admin.limits import limits_reset

    chosen = [_read(_parse_operation, operation) for operation in operations or ()]
    endpoint = await _id_of(name, endpoint, choices, ledger)
    show_limits_changed(await limits_reset(ledger, name, chosen, endpoint=endpoint), "reset", as_json=as_json)


def show_limits(found: Sequence[EndpointLimitStatus], ledger: LedgerAddress, *, as_json: bool) -> None:
    """Prints the limits of each endpoint."""
    if as_json:
        streams.put_json(found)
    elif found:
        for endpoint in found:
            _put(endpoint)
    else:
        streams.say(f"{ledger} has no runs yet")


def limits_of(rules: Sequence[str]) -> Mapping[Operation, Limit]:
    """The limits that these rules say. Raises `UsageError`."""
    chosen: dict[Operation, Limit] = {}
    for operation, limit in (_read(parse_limit, rule) for rule in rules):
        if operation in chosen:
            raise UsageError(f"{operation} is named twice; give it one limit")
        chosen[operation] = limit
    return chosen


async def _id_of(name: str, endpoint: str | None, choices: Choices, ledger: LedgerAddress) -> str | None:
    """The id of an endpoint of the run: the account is asked only about what is none."""
    from orchestrator.api.admin.limits import limits

    if endpoint is None or not is_endpoint_name(endpoint):
        return endpoint
    known = await limits(ledger, name)
    if not known or endpoint in {each.endpoint for each in known}:
        return endpoint
    return await id_at(known[0].service_url, endpoint, choices)


def _read(parse: Callable[[str], T], text: str) -> T:
    try:
        return parse(text)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _parse_operation(text: str) -> Operation:
    try:
        return Operation(text)
    except ValueError:
        raise ValueError(f'"{text:.40}" is no operation; there are {", ".join(Operation)}') from None


def show_limits_changed(endpoint: EndpointLimitStatus, done: str, *, as_json: bool) -> None:
    """Prints the limits of an endpoint that were set or reset, and when they hold."""
    if as_json:
        streams.put_json(endpoint)
    else:
        _put(endpoint)
    streams.say(f"limits {done}; {when_set(endpoint.holder, endpoint.outcome)}")


def _put(endpoint: EndpointLimitStatus) -> None:
    streams.headline(f"{endpoint_at(endpoint.endpoint, endpoint.service_url)}, used by {', '.join(endpoint.runs)}")
    tables.put_parts(tables.columns(HEADINGS, map(_row, endpoint.operations)))


def _row(line: OperationLimits) -> tuple[str, str, str, str]:
    set_at = "" if line.set_at is None else minute(line.set_at)
    used = "" if line.used is None else window(line.used, line.allowed or 0, line.window_s, line.throttled or 0)
    return line.operation, line.limit.partition("=")[2], set_at, used
