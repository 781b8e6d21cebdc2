"""`orchestrator secrets`: create, rotate, delete, list. No value is an argument: others on the machine see those."""

import sys
from collections.abc import Awaitable, Callable
from functools import partial
from getpass import getpass
from typing import TYPE_CHECKING, Annotated, BinaryIO, TypeVar

import typer

from orchestrator.cli.account.templates import from_environment
from orchestrator.cli.framework import service_access
from orchestrator.cli.framework.service_access import tell_deleted
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


commands = typer.Typer(no_args_is_help=True, help="Create, rotate, delete and list secrets.")
_shared = service_access.at_noun(Noun.SECRETS)


@commands.command("create")
@_shared()
async def create_secret(
    name: Name, value: Value = "-", description: Description = None, *, account: "Account", as_json: bool
) -> None:
    """Store a secret. Its value is read from standard input, or asked for, or named as env:NAME.

    Example: orchestrator secrets create hf_token --value env:HF_TOKEN
    """
    made = await account.secrets.create(name, _value(value), description=description)
    if as_json:
        streams.put_json(made)
    streams.say(f"secret {made.name}: created as {made.id}")


@commands.command("rotate")
@_shared()
async def rotate_secret(
    secret: Secret, value: NewValue = None, description: Description = None, *, account: "Account", as_json: bool
) -> None:
    """Put another value in the place of the one there is, read as for create. What runs keeps the old one.

    Example: orchestrator secrets rotate SECRET --value env:HF_TOKEN
    """
    new = None if value is None and description is not None else _value(value or "-")
    rotated = await _at(secret, account, partial(account.secrets.rotate, value=new, description=description))
    if as_json:
        streams.put_json(rotated)
    streams.say(f"secret {rotated.name}: {'described anew' if new is None else 'has another value'}")


@commands.command("delete")
@_shared()
async def delete_secret(secret: Secret, yes: service_access.Yes = False, *, account: "Account", as_json: bool) -> None:
    """Delete a secret. Asks first.

    Example: orchestrator secrets delete SECRET
    """

    async def delete(secret_id: str) -> str:
        await account.secrets.delete(secret_id)
        return secret_id

    service_access.confirm(f"delete secret {secret}?", yes=yes, name=secret)
    secret_id = await _at(secret, account, delete)
    tell_deleted(f"secret {secret_id}", {"id": secret_id}, as_json=as_json)


@commands.command("list")
@_shared()
async def list_secrets(limit: service_access.AtMost = None, *, account: "Account", as_json: bool) -> None:
    """List the account's secrets: ids, names and descriptions. Nobody can read a value back.

    Example: orchestrator secrets list
    """
    tables.put_list(
        await account.secrets.list(limit=limit),
        as_json=as_json,
        none="the account has no secrets",
        headings=("id", "name", "description"),
        row=lambda secret: (secret.id, secret.name, secret.description),
    )


def _value(source: str) -> str:
    if source == "-":
        with streams.interruptible():
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


async def _at(secret: str, account: "Account", call: Callable[[str], Awaitable[T]]) -> T:
    """What `call` returns for the id of `secret`, which may be its name."""
    from orchestrator.account.name_lookup import by_name

    return await by_name("secret", secret, call, account.secrets.list)
