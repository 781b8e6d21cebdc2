"""What the commands for templates, secrets and endpoints share: flags, the way to the service, questions, tables."""

import os
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final, TextIO, get_args

import typer

from orchestrator.cli import options, printing
from orchestrator.cli.config import Choices, choose
from orchestrator.cli.execution import execute, explain
from orchestrator.cli.request import api_key, key_warning
from orchestrator.errors import NotSent, StoppedError, Unanswered, UsageError
from orchestrator.settings import GRAPHQL_URL_DEFAULT, REST_URL_DEFAULT, SERVERLESS_URL_DEFAULT, KeyPlace

if TYPE_CHECKING:
    from orchestrator.client import Service  # at run time `--help` would pay for it

GRAPHQL: Final = "graphql-url"
REST: Final = "rest-url"

GraphqlUrl = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help=f"The GraphQL address. Default: {GRAPHQL_URL_DEFAULT}.",
        rich_help_panel=options.SERVICE,
    ),
]
GraphqlKey = Annotated[
    str | None,
    typer.Option(
        metavar="query|header",
        help="Where the API key goes: the URL's parameter api_key, or a bearer header. Default: query.",
        rich_help_panel=options.SERVICE,
    ),
]
RestUrl = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help=f"Where the REST interface is; /v1/endpoints is added. Default: {REST_URL_DEFAULT}.",
        rich_help_panel=options.SERVICE,
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", metavar="", help="Do not ask.")]
Json = Annotated[
    bool | None,
    typer.Option("--json", metavar="", help="JSON on standard output.", rich_help_panel=options.SHOWN),
]


class Access:
    """Where the account is, and with which key."""

    def __init__(self, choices: Choices, key: str) -> None:
        self.rest_url = choices.parsed(REST, str) or REST_URL_DEFAULT
        self.graphql_url = choices.parsed(GRAPHQL, str) or GRAPHQL_URL_DEFAULT
        self.graphql_key: KeyPlace = choices.parsed("graphql-key", _key_place) or "query"
        self.key = key

    def __repr__(self) -> str:
        return f"Access({self.rest_url!r}, {self.graphql_url!r})"


Connect = Callable[[Access], "Service"]
Command = Callable[["Service", bool], Awaitable[None]]
"""What a command does with the service; the flag is `--json`."""


def _key_place(text: str) -> KeyPlace:
    place = next((place for place in get_args(KeyPlace) if place == text), None)
    if place is None:
        raise ValueError("the key goes either in the query or in the header")
    return place  # type: ignore[no-any-return]  # get_args knows no types


def connect(access: Access) -> "Service":
    """The service over the network."""
    from orchestrator.client import Service  # noqa: PLC0415

    return Service(
        SERVERLESS_URL_DEFAULT,
        access.key,
        rest_url=access.rest_url,
        graphql_url=access.graphql_url,
        graphql_key=access.graphql_key,
    )


def carry_out(make: Connect, flags: Mapping[str, object], command: Command, *, interface: str) -> None:
    """Everything between the flags and the exit code. `interface` names the URL that the command uses."""
    try:
        choices = choose({key: value for key, value in flags.items() if key in _SETTINGS}, os.environ)
        access = Access(choices, needed_key())
    except UsageError as error:
        raise typer.Exit(explain(error)) from None
    if warning := key_warning(access.rest_url if interface == REST else access.graphql_url):
        printing.warn(warning)
    raise typer.Exit(execute(partial(_with_service, make, access, command, choices.switch("json"))))


_SETTINGS: Final = ("rest_url", "graphql_url", "graphql_key", "config", "json")


def needed_key() -> str:
    """The API key, from the environment. Raises `UsageError` where there is none."""
    key = api_key(os.environ, needed=False)
    if not key:
        raise UsageError(
            "there is no API key; set it in the environment: export ORCHESTRATOR_API_KEY=... (RUNPOD_API_KEY is"
            " accepted too; an emulator takes any)"
        )
    return key


async def _with_service(make: Connect, access: Access, command: Command, as_json: bool) -> int:
    async with make(access) as service:
        try:
            await command(service, as_json)
        except (NotSent, Unanswered) as error:
            raise StoppedError(str(error)) from None
    return 0


def confirm(question: str, *, yes: bool, terminal: TextIO | None = None) -> None:
    """Raises `UsageError` unless `yes`, or somebody at the `terminal` (standard input) agrees."""
    if yes:
        return
    terminal = terminal or sys.stdin
    if not terminal.isatty():
        raise UsageError(f"{question} Nobody is here to ask; give --yes. Nothing was done")
    printing.say(f"{question} [y/N]")
    if terminal.readline().strip().lower() not in {"y", "yes"}:
        raise UsageError("not confirmed; nothing was done")


def put_table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table on standard output. What the service says cannot move the cursor of the user's terminal."""
    from rich import box  # noqa: PLC0415
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), show_edge=False, header_style="bold")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(Text(_plain(cell)) for cell in row))
    drawn = printing.can_draw(sys.stdout)
    console = Console(force_terminal=drawn, color_system="auto" if drawn else None, highlight=False)
    with console.capture() as captured:
        console.print(table)
    printing.put(captured.get().encode(sys.stdout.encoding or "utf-8", "replace"))
    printing.flush()


def _plain(cell: object) -> str:
    text = "" if cell is None else str(cell)
    return "".join(c if c.isprintable() else " " for c in text)
