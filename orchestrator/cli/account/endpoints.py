"""`orchestrator endpoints`: create, list, show, open, update, delete; their workers, and the logs of these.

Their jobs are `orchestrator api`'s affair.
"""

import sys
import webbrowser
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, TextIO, TypeVar

import msgspec
import typer
from msgspec.structs import asdict

from orchestrator.cli.account.logs import Follow, Since, Source, Tail, put_log, query_of
from orchestrator.cli.account.templates import template_id
from orchestrator.cli.framework import flags as options
from orchestrator.cli.framework import service_access
from orchestrator.cli.framework.flags import Flags
from orchestrator.cli.framework.service_access import tell_deleted
from orchestrator.cli.output import streams, tables
from orchestrator.core.service.account_interfaces import Noun
from orchestrator.core.text.durations import parse_duration
from orchestrator.errors import UsageError
from orchestrator.settings import connection_settings
from orchestrator.settings.parsers import job_policy
from orchestrator.units import MILLISECOND_US, SECOND_US

if TYPE_CHECKING:
    from orchestrator.account import Account  # at run time `--help` would pay for them
    from orchestrator.account.endpoints.endpoints import EndpointRecord, EndpointSpec
    from orchestrator.account.transport.logs import Tell

T = TypeVar("T")

CONSOLE: Final = "https://console.runpod.io/serverless/user/endpoint/{}"
"""Where the service's console has the page of an endpoint (as seen)."""

_HEADINGS: Final = ("id", "name", "template", "workers", "idle", "GPU types")
_SHOWN: Final = frozenset({"id", "name", "templateId", "workersMin", "workersMax", "idleTimeout", "gpuTypeIds"})

Endpoint = Annotated[
    str,
    typer.Argument(
        metavar="ENDPOINT", help="The endpoint's id or name, as [bold]orchestrator endpoints list[/] shows them."
    ),
]
Worker = Annotated[
    str,
    typer.Argument(metavar="WORKER", help="The worker's id, as [bold]orchestrator endpoints workers[/] shows them."),
]
Name = Annotated[str | None, typer.Option(metavar="NAME", help="The endpoint's name.")]
Template = Annotated[str, typer.Option(metavar="ID|NAME", help="The serverless template that its workers start from.")]
NewTemplate = Annotated[str | None, typer.Option(metavar="ID|NAME", help="Another template.")]
Gpu = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TYPE",
        help="GPU type, or a pool of them, as AMPERE_24; the first that is available is taken. Repeatable, best first.",
    ),
]
WorkersMin = Annotated[int | None, typer.Option(metavar="N", help="Workers that are always there, and paid for.")]
WorkersMax = Annotated[int | None, typer.Option(metavar="N", help="Workers at most.")]
IdleTimeout = Annotated[
    str | None, typer.Option(metavar="D", help="How long a worker without a job is kept; 1s to 1h.")
]
ExecutionTimeout = Annotated[
    str | None,
    typer.Option(metavar="D", help="How long an execution may take whose job does not say so; 0s: no own limit."),
]
Wait = Annotated[bool | None, typer.Option("--wait", metavar="", help="Return once the job API knows the endpoint.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="FIELD=JSON", help="Any other field of the service's, as in gpuCount=2. Repeatable."),
]


_FIELDS: Final[Mapping[str, Any]] = {
    "name": Name,
    "gpu": Gpu,
    "workers_min": WorkersMin,
    "workers_max": WorkersMax,
    "idle_timeout": IdleTimeout,
    "execution_timeout": ExecutionTimeout,
    "set_": Set,
}


commands = typer.Typer(no_args_is_help=True, help="Create, change, show and delete serverless endpoints.")
_shared = service_access.at_noun(Noun.ENDPOINTS)


@commands.command("create")
@_shared(
    **_FIELDS,
    wait=Wait,
    timeout=service_access.Timeout,
    **options.flags_of(connection_settings.SERVERLESS_URL),
)
async def create_endpoint(template: Template, *, flags: Flags, account: "Account", as_json: bool) -> None:
    """Create an endpoint from a serverless template. The job API needs a while to know it: see --wait.

    Example: orchestrator endpoints create --template TEMPLATE --workers-max 3 --wait
    """
    wait_s = service_access.wait_s(bool(flags["wait"]), flags["timeout"])
    spec, more = _spec(template, flags), _more(flags["set_"] or ())
    record = await account.endpoints.create(await _of_template(spec, account), more=more)
    _put(record, as_json)
    if wait_s is None:
        streams.say(f"endpoint {record.id}: created; the job API may answer 404 for a while")
        return
    streams.say(f"endpoint {record.id}: created; waiting until the job API knows it")
    await account.service.endpoint(record.id).known(wait=wait_s)
    streams.say(f"endpoint {record.id}: ready for jobs")


@commands.command("update")
@_shared(**_FIELDS)
async def update_endpoint(
    endpoint: Endpoint, template: NewTemplate = None, *, flags: Flags, account: "Account", as_json: bool
) -> None:
    """Change what is given and nothing else. Active workers may have to be restarted to have it.

    Example: orchestrator endpoints update abc123 --workers-max 10
    """
    spec, more = _spec(template, flags), _more(flags["set_"] or ())
    spec = await _of_template(spec, account)
    update = partial(account.endpoints.update, spec=spec, more=more, losing=streams.warn)
    record = await _at(endpoint, account, update)
    _put(record, as_json)
    streams.say(f"endpoint {record.id}: updated")


@commands.command("delete")
@_shared()
async def delete_endpoint(
    endpoint: Endpoint, yes: service_access.Yes = False, *, account: "Account", as_json: bool
) -> None:
    """Delete an endpoint with its logs and job history; its jobs are cancelled. Asks first.

    Example: orchestrator endpoints delete abc123
    """

    async def delete(endpoint_id: str) -> str:
        if not yes:
            record = await account.endpoints.show(endpoint_id)
            what = f"delete endpoint {endpoint_id} ({record.name!r}), its logs and its job history?"
            service_access.confirm(what, yes=False, name=record.name or endpoint_id)
        await account.endpoints.delete(endpoint_id)
        return endpoint_id

    endpoint_id = await _at(endpoint, account, delete)
    tell_deleted(f"endpoint {endpoint_id}", {"id": endpoint_id}, as_json=as_json)


@commands.command("list")
@_shared()
async def list_endpoints(limit: service_access.AtMost = None, *, account: "Account", as_json: bool) -> None:
    """List the account's endpoints.

    Example: orchestrator endpoints list
    """
    tables.put_list(
        await account.endpoints.list(limit=limit),
        as_json=as_json,
        none="the account has no endpoints",
        headings=_HEADINGS,
        row=_row,
        raw=lambda record: record.raw,
    )


@commands.command("workers")
@_shared()
async def endpoint_workers(endpoint: Endpoint, *, account: "Account", as_json: bool) -> None:
    """List an endpoint's workers. By REST v2 only.

    Example: orchestrator endpoints workers abc123
    """
    tables.put_list(
        await _at(endpoint, account, account.endpoints.workers),
        as_json=as_json,
        none=f"endpoint {endpoint} has no workers",
        headings=("id", "status", "GPU", "data center", "started", "stale"),
        row=lambda worker: (
            worker.id,
            worker.status,
            worker.gpu_type_id,
            worker.data_center_id,
            worker.started_at,
            "yes" if worker.is_stale else "",
        ),
        raw=lambda worker: worker.raw,
    )


@commands.command("logs")
@_shared()
async def endpoint_logs(
    endpoint: Endpoint,
    worker: Worker,
    tail: Tail = None,
    since: Since = None,
    source: Source = None,
    follow: Follow = False,
    *,
    account: "Account",
    as_json: bool,
) -> None:
    """Print a worker's log, as [bold]orchestrator pods logs[/] does a pod's. By REST v2 only.

    Example: orchestrator endpoints logs abc123 WORKER --follow
    """
    query = query_of(tail, since, source, follow)

    async def read(tell: "Tell") -> None:
        await _at(endpoint, account, lambda given: account.endpoints.logs(given, worker, tell, **asdict(query)))

    await put_log(f"worker {worker}", query, read, as_json=as_json)


@commands.command("show")
@_shared()
async def show_endpoint(endpoint: Endpoint, *, account: "Account", as_json: bool) -> None:
    """Show one endpoint; --json has all that the service says about it.

    Example: orchestrator endpoints show abc123
    """
    _put(await _at(endpoint, account, account.endpoints.show), as_json)


@commands.command("open")
@_shared()
async def open_endpoint(endpoint: Endpoint, *, account: "Account", as_json: bool) -> None:
    """Open the endpoint's page in the service's console; its address is printed as well.

    Example: orchestrator endpoints open captions
    """
    url = CONSOLE.format((await _at(endpoint, account, account.endpoints.show)).id)
    if as_json:
        streams.put_json({"url": url})
    else:
        tables.put_lines([url])
        open_page(url, sys.stdout, webbrowser.open)


async def _of_template(spec: "EndpointSpec", account: "Account") -> "EndpointSpec":
    """`spec`, with the id of its template, which may be a name there."""
    if spec.template_id is None:
        return spec
    return msgspec.structs.replace(spec, template_id=await template_id(spec.template_id, account))


def _spec(template: str | None, flags: Flags) -> "EndpointSpec":
    from orchestrator.account.endpoints.endpoints import EndpointSpec

    idle_timeout, execution_timeout = flags["idle_timeout"], flags["execution_timeout"]
    return EndpointSpec(
        name=flags["name"],
        template_id=template,
        gpu_type_ids=tuple(flags["gpu"]) if flags["gpu"] else None,
        workers_min=flags["workers_min"],
        workers_max=flags["workers_max"],
        idle_timeout=None if idle_timeout is None else _whole(idle_timeout, "--idle-timeout", SECOND_US, "seconds"),
        execution_timeout_ms=None
        if execution_timeout is None
        else _whole(execution_timeout, str(job_policy.EXECUTION_TIMEOUT), MILLISECOND_US, "milliseconds"),
    )


def _whole(text: str, flag: str, unit_us: int, units: str) -> int:
    try:
        number, rest = divmod(parse_duration(text), unit_us)
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from None
    if rest:
        raise UsageError(f"{flag}: the service counts in whole {units}")
    return number


def _more(settings: "list[str] | tuple[()]") -> dict[str, object]:
    more: dict[str, object] = {}
    for text in settings:
        field, equals, value = text.partition("=")
        if not field or not equals:
            raise UsageError(f"--set {text}: write it as FIELD=JSON")
        try:
            more[field] = msgspec.json.decode(value)
        except (ValueError, RecursionError):
            raise UsageError(
                f"--set {field}: this is not JSON; a text needs quotes, as in {field}='\"text\"'"
            ) from None
    return more


async def _at(endpoint: str, account: "Account", call: Callable[[str], Awaitable[T]]) -> T:
    """What `call` returns for the id of `endpoint`, which may be its name."""
    from orchestrator.account.name_lookup import by_name

    return await by_name("endpoint", endpoint, call, account.endpoints.list)


def open_page(url: str, seen: TextIO, show: Callable[[str], object]) -> None:
    """Has `show` open the page, where somebody sees what is printed: a script only wants to know where it is."""
    if seen.isatty():
        show(url)


def _put(record: "EndpointRecord", as_json: bool) -> None:
    if as_json:
        streams.put_json(record.raw)
    else:
        tables.put_parts(tables.lines(_lines(record)))


def _lines(record: "EndpointRecord") -> Iterator[tuple[str, str]]:
    """What is known, and then whatever else is a number or a word; no variables, which may hold secrets."""
    yield from ((heading, tables.plain(value)) for heading, value in zip(_HEADINGS, _row(record), strict=True))
    for field, value in record.raw.items():
        if field not in _SHOWN and isinstance(value, str | int | float):
            yield field, tables.plain(str(value).lower() if isinstance(value, bool) else value)


def _row(record: "EndpointRecord") -> tuple[object, ...]:
    return (
        record.id,
        record.name,
        record.template_id,
        f"{_number(record.workers_min)}-{_number(record.workers_max)}",
        f"{_number(record.idle_timeout)} s",
        ", ".join(record.gpu_type_ids),
    )


def _number(value: int | None) -> str:
    return "?" if value is None else str(value)
