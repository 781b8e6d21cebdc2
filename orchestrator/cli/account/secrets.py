"""`orchestrator secrets`: create, delete, list. A value is never an argument, which others on the machine can see."""

import sys
from functools import partial
from getpass import getpass
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from orchestrator.cli import access, printing, tables
from orchestrator.cli.access import Command, Connect, tell_deleted
from orchestrator.cli.account.templates import from_environment
from orchestrator.errors import UsageError

if TYPE_CHECKING:
    from orchestrator.account import Account  # at run time `--help` would pay for it

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="The name under which templates refer to it: {{ RUNPOD_SECRET_name }}.")
]
Value = Annotated[
    str,
    typer.Option(metavar="-|env:NAME", help="Where the value comes from: standard input, or an environment variable."),
]
Description = Annotated[str | None, typer.Option(metavar="TEXT", help="What it is for; everybody may read that.")]
Id = Annotated[
    str, typer.Argument(metavar="ID", help="The secret's id, as [bold]orchestrator secrets list[/] shows it.")
]


def add_secrets(commands: typer.Typer, connect: Connect) -> None:
    """Registers `secrets` and its commands."""
    group = typer.Typer(no_args_is_help=True, help="Create, delete and list secrets.")
    commands.add_typer(group, name="secrets")
    secrets = access.graphql_noun(group, connect)

    @secrets.command()
    def create(name: Name, value: Value = "-", description: Description = None) -> Command:
        """Store a secret. Its value is read from standard input, or asked for, or named as env:NAME."""
        return partial(_create, name, value, description)

    @secrets.command()
    def delete(secret_id: Id, yes: access.Yes = False) -> Command:
        """Delete a secret by its id. Asks first."""
        return partial(_delete, secret_id, yes)

    @secrets.command("list")
    def list_() -> Command:
        """List the account's secrets: ids, names and descriptions. Nobody can read a value back."""
        return _list


async def _create(name: str, source: str, description: str | None, account: "Account", as_json: bool) -> None:
    secret = await account.secrets.create(name, _value(source), description=description)
    if as_json:
        printing.put_json(secret)
    printing.say(f"secret {secret.name}: created as {secret.id}")


def _value(source: str) -> str:
    if source == "-":
        return getpass("value: ", sys.stderr) if sys.stdin.isatty() else _piped(sys.stdin.buffer)
    value = from_environment(source, "--value")
    if value is None:  # not quoted: it may be the secret itself
        raise UsageError("--value names where the value comes from: - (standard input) or env:NAME; never the value")
    return value


def _piped(stream: BinaryIO) -> str:
    """All of `stream`, without the line break that `echo` puts at its end."""
    try:
        text = stream.read().decode()
    except UnicodeDecodeError:
        raise UsageError("standard input is not UTF-8 text; nothing was sent") from None
    return text.removesuffix("\n").removesuffix("\r")


async def _delete(secret_id: str, yes: bool, account: "Account", as_json: bool) -> None:
    access.confirm(f"delete secret {secret_id}?", yes=yes)
    await account.secrets.delete(secret_id)
    tell_deleted(f"secret {secret_id}", {"id": secret_id}, as_json=as_json)


async def _list(account: "Account", as_json: bool) -> None:
    tables.put_list(
        await account.secrets.list(),
        as_json=as_json,
        none="the account has no secrets",
        headings=("id", "name", "description"),
        row=lambda secret: (secret.id, secret.name, secret.description),
    )
