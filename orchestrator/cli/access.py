"""What every command for the service's interface shares: flags, the way to the service, errors, questions.

Such a command needs no other part of the program than the client. It sends little, and nobody waits for it but a person
or their script: whatever goes wrong is one line and an exit code.
"""

import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, TextIO, TypeVar, get_args

import msgspec
import typer

from orchestrator.cli import options, printing
from orchestrator.cli.config import Choices
from orchestrator.cli.execution import Work, carry_out
from orchestrator.cli.figures import lasting
from orchestrator.cli.request import api_key, key_warning, limits_of, parse_interface_url
from orchestrator.cli.sharing import Flags, also
from orchestrator.core.pacing import CONTRACT_LIMITS, Limit, Operation
from orchestrator.core.policy import parse_duration
from orchestrator.errors import NotSent, StoppedError, Unanswered, UsageError
from orchestrator.settings import (
    BASE_URL_DEFAULT,
    GRAPHQL_URL_DEFAULT,
    REST_URL_DEFAULT,
    SERVERLESS_URL_DEFAULT,
    KeyPlace,
)
from orchestrator.units import SECOND_US

if TYPE_CHECKING:
    from orchestrator.account import Account  # at run time `--help` would pay for it


T = TypeVar("T", bound=Callable[..., object])

WAIT_DEFAULT: Final = "10m"


class Interface(StrEnum):
    """The parts of the service, by the setting that holds the URL of each."""

    JOBS = "serverless-url"
    PODS = "base-url"
    ENDPOINTS = "rest-url"
    GRAPHQL = "graphql-url"


_URLS: Final[Mapping[Interface, tuple[str, str]]] = {
    Interface.JOBS: (SERVERLESS_URL_DEFAULT, "/v2"),
    Interface.PODS: (BASE_URL_DEFAULT, "/v2"),
    Interface.ENDPOINTS: (REST_URL_DEFAULT, "/v1"),
    Interface.GRAPHQL: (GRAPHQL_URL_DEFAULT, ""),
}
"""The default of each, and what the client adds to it."""


def _url(help_: str) -> Any:
    return typer.Option(metavar="URL", help=help_, rich_help_panel=options.SERVICE)


BaseUrl = Annotated[str | None, _url(f"Where the REST interface is; /v2/pods is added. Default: {BASE_URL_DEFAULT}.")]
RestUrl = Annotated[
    str | None, _url(f"Where the REST interface is; /v1/endpoints is added. Default: {REST_URL_DEFAULT}.")
]
GraphqlUrl = Annotated[str | None, _url(f"The GraphQL address. Default: {GRAPHQL_URL_DEFAULT}.")]
GraphqlKey = Annotated[
    str | None,
    typer.Option(
        metavar="query|header",
        help="Where the API key goes: the URL's parameter api_key, or a bearer header. Default: query.",
        rich_help_panel=options.SERVICE,
    ),
]
Timeout = Annotated[
    str | None, typer.Option(metavar="D", help=f"How long --wait may take, as in 90s; {WAIT_DEFAULT} if not said.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", metavar="", help="Do not ask.")]
Json = Annotated[
    bool | None,
    typer.Option(
        "--json", metavar="", help="The service's answer as JSON on standard output.", rich_help_panel=options.SHOWN
    ),
]


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """Which parts of the service a command speaks to, where they are, and the key."""

    urls: Mapping[Interface, str]
    key: str
    team: str | None = None
    graphql_key: KeyPlace = "query"
    limits: Mapping[Operation, Limit] = CONTRACT_LIMITS

    def __repr__(self) -> str:
        return f"Access({', '.join(map(repr, self.urls.values()))})"


Connect = Callable[[Access], "Account"]
Command = Callable[["Account", bool], Awaitable[int | None]]
"""What a command does with the account; the flag is `--json`. None is exit code 0."""


def connect(access: Access) -> "Account":
    """The account over the network, and its endpoints within the share that people have of their limits."""
    from orchestrator.account import Account  # noqa: PLC0415
    from orchestrator.client import Service, for_people  # noqa: PLC0415

    url = {interface: default for interface, (default, _) in _URLS.items()} | dict(access.urls)
    return Account(
        Service(url[Interface.JOBS], access.key, limits=for_people(access.limits)),
        base_url=url[Interface.PODS],
        team_id=access.team,
        rest_url=url[Interface.ENDPOINTS],
        graphql_url=url[Interface.GRAPHQL],
        graphql_key=access.graphql_key,
    )


class Noun:
    """The commands for one part of the service, each with the flags `shared` behind its own (see `also`).

    A command returns a `Command`. They need no other part of the program than the client.
    """

    def __init__(self, group: typer.Typer, interface: Interface, connect: Connect, **shared: Any) -> None:
        self._group = group
        self._interface = interface
        self._connect = connect
        self._shared = shared

    def command(self, name: str | None = None, /, *, help_: str | None = None, **more: Any) -> Callable[[T], T]:
        """Registers a command, which may have flags beside those of all."""

        def register(command: T) -> T:
            self._group.command(name, help=help_)(also(self._carry_out, **{**more, **self._shared})(command))
            return command

        return register

    def _carry_out(self, flags: Flags, prepare: Callable[[Choices], Command]) -> None:
        def prepared(choices: Choices) -> tuple[Work, None]:
            access = _access(self._interface, choices)
            command = prepare(choices)
            for warning in filter(None, map(key_warning, access.urls.values())):
                printing.warn(warning)
            return partial(_with_account, self._connect, access, command, choices.switch("json")), None

        carry_out(flags, prepared)


def graphql_noun(group: typer.Typer, connect: Connect) -> Noun:
    """Commands that speak GraphQL."""
    return Noun(
        group,
        Interface.GRAPHQL,
        connect,
        graphql_url=GraphqlUrl,
        graphql_key=GraphqlKey,
        config=options.Config,
        json=Json,
    )


def _access(interface: Interface, choices: Choices) -> Access:
    def url(of: Interface) -> str:
        default, added = _URLS[of]
        return choices.parsed(of, partial(parse_interface_url, added=added)) or default

    spoken_to = (interface, Interface.JOBS) if interface is Interface.ENDPOINTS else (interface,)
    return Access(
        urls={each: url(each) for each in spoken_to},
        key=api_key(os.environ, needed=True),
        team=choices.parsed("team", str),
        graphql_key=choices.parsed("graphql-key", _key_place) or "query",
        limits=limits_of(choices) if interface is Interface.JOBS else CONTRACT_LIMITS,
    )


def _key_place(text: str) -> KeyPlace:
    place = next((place for place in get_args(KeyPlace) if place == text), None)
    if place is None:
        raise ValueError("the key goes either in the query or in the header")
    return place  # type: ignore[no-any-return]  # get_args knows no types


async def _with_account(make: Connect, access: Access, command: Command, as_json: bool) -> int:
    account = make(access)
    async with account.service:
        account.on_wait(lambda reason, wait_s: printing.say(f"waiting {lasting(wait_s)}: {reason}"))
        try:
            return await command(account, as_json) or 0
        except (NotSent, Unanswered) as error:
            raise StoppedError(str(error)) from None


def confirm(question: str, *, yes: bool, terminal: TextIO | None = None) -> None:
    """Raises `UsageError` unless `yes`, or somebody at the `terminal` (standard input) agrees."""
    if yes:
        return
    terminal = terminal or sys.stdin
    if not terminal.isatty():
        raise UsageError(f"{question} Nobody is here to ask; give --yes. Nothing was done")
    printing.say(f"{question} [y/N]", end=" ")
    if terminal.readline().strip().lower() not in {"y", "yes"}:
        raise UsageError("not confirmed; nothing was done")


def wait_s(wait: bool, timeout: str | None) -> float | None:
    """How long `--wait` may take, in seconds; None without it. Raises `UsageError`, also for a time without a wait."""
    if timeout is not None and not wait:
        raise UsageError("--timeout says how long --wait may take, which is missing")
    try:
        seconds = parse_duration(timeout or WAIT_DEFAULT) / SECOND_US
    except ValueError as error:
        raise UsageError(f"--timeout: {error}") from None
    return seconds if wait else None


def tell_deleted(what: str, known_by: Mapping[str, str], *, as_json: bool) -> None:
    """That `what` is deleted; as JSON, by the member that names it."""
    if as_json:
        printing.put_json({**known_by, "deleted": True})
    printing.say(f"{what}: deleted")
