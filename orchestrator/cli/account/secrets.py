"""`orchestrator secrets`: create, rotate, delete, list. No value is an argument: others on the machine see those."""

import sys
from collections.abc import Awaitable, Callable
from functools import partial
from getpass import getpass
from typing import TYPE_CHECKING, Annotated, BinaryIO, TypeVar

import typer

from orchestrator.cli.account.templates import from_environment
from orchestrator.cli.framework import service_access
from orchestrator.cli.framework.service_access import Command, Connect, tell_deleted
from orchestrator.cli.output import streams, tables
from orchestrator.core.service.account_interfaces import Noun
from orchestrator.errors import UsageError

if TYPE_CHECKING:
    from orchestrator.account import Account  # at run time `--help` would pay for it

T = TypeVar("T")

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="The name under which templates refer to it: {{ RUNPOD_SECRET_name }}.")
]
Value = Annotated[
    str,
    typer.Option(metavar="-|env:NAME", help="Where the value comes from: standard input, or an environment variable."),
]
NewValue = Annotated[
    str | None,
    typer.Option(
        "--value",
        metavar="-|env:NAME",
        help="Where the new value comes from, as for create. Default: standard input, or none with --description.",
    ),
]
Description = Annotated[str | None, typer.Option(metavar="TEXT", help="What it is for; everybody may read that.")]
Secret = Annotated[
    str,
    typer.Argument(metavar="SECRET", help="The secret's id or name, as [bold]orchestrator secrets list[/] shows them."),
]


def add_secrets(commands: typer.Typer, connect: Connect) -> None:
    """Registers `secrets` and its commands."""
    group = typer.Typer(no_args_is_help=True, help="Create, rotate, delete and list secrets.")
    commands.add_typer(group, name="secrets")
    secrets = service_access.account_noun(group, Noun.SECRETS, connect)

    @secrets.command()
    def create(name: Name, value: Value = "-", description: Description = None) -> Command:
        """Store a secret. Its value is read from standard input, or asked for, or named as env:NAME.

        Example: orchestrator secrets create hf_token --value env:HF_TOKEN
        """
        return partial(_create, name, value, description)

    @secrets.command()
    def rotate(secret: Secret, value: NewValue = None, description: Description = None) -> Command:
        """Put another value in the place of the one there is, read as for create. What runs keeps the old one.

        Example: orchestrator secrets rotate SECRET --value env:HF_TOKEN
        """
        return partial(_rotate, secret, value, description)

    @secrets.command()
    def delete(secret: Secret, yes: service_access.Yes = False) -> Command:
        """Delete a secret. Asks first.

        Example: orchestrator secrets delete SECRET
        """
        return partial(_delete, secret, yes)

    @secrets.command("list")
    def list_(limit: service_access.AtMost = None) -> Command:
        """List the account's secrets: ids, names and descriptions. Nobody can read a value back.

        Example: orchestrator secrets list
        """
        return partial(_list, limit)


async def _create(name: str, source: str, description: str | None, account: "Account", as_json: bool) -> None:
    secret = await account.secrets.create(name, _value(source), description=description)
    if as_json:
        streams.put_json(secret)
    streams.say(f"secret {secret.name}: created as {secret.id}")


async def _rotate(given: str, source: str | None, description: str | None, account: "Account", as_json: bool) -> None:
    value = None if source is None and description is not None else _value(source or "-")
    secret = await _at(given, account, partial(account.secrets.rotate, value=value, description=description))
    if as_json:
        streams.put_json(secret)
    streams.say(f"secret {secret.name}: {'described anew' if value is None else 'has another value'}")


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


async def _delete(given: str, yes: bool, account: "Account", as_json: bool) -> None:
    async def delete(secret_id: str) -> str:
        await account.secrets.delete(secret_id)
        return secret_id

    service_access.confirm(f"delete secret {given}?", yes=yes, name=given)
    secret_id = await _at(given, account, delete)
    tell_deleted(f"secret {secret_id}", {"id": secret_id}, as_json=as_json)


async def _at(secret: str, account: "Account", call: Callable[[str], Awaitable[T]]) -> T:
    """What `call` returns for the id of `secret`, which may be its name."""
    from orchestrator.account.name_lookup import by_name

    return await by_name("secret", secret, call, account.secrets.list)


async def _list(limit: int | None, account: "Account", as_json: bool) -> None:
    tables.put_list(
        await account.secrets.list(limit=limit),
        as_json=as_json,
        none="the account has no secrets",
        headings=("id", "name", "description"),
        row=lambda secret: (secret.id, secret.name, secret.description),
    )
