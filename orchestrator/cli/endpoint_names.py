"""Names of endpoints in the place of their ids: `--endpoint captions`.

What looks like an id is one, and needs no key and no request. A name is looked up once, among the account's endpoints,
before anything else is done; the ledger only ever has ids. Where nobody has said where the account of another service
is (`--serverless-url` alone), there is nobody to ask, and whatever was given is taken for an id.
"""

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import typer

from orchestrator import declared
from orchestrator.api.config import Choices, choose
from orchestrator.cli import access
from orchestrator.cli.access import Connect
from orchestrator.cli.execution import execute, exit_if_refused
from orchestrator.cli.options import Flags
from orchestrator.errors import NotSent, StoppedError, Unanswered, UsageError
from orchestrator.settings import LOCAL, SERVERLESS_URL_DEFAULT

if TYPE_CHECKING:
    from orchestrator.account import Account  # at run time `--help` would pay for it

_ADDRESSES: Final = (declared.BASE_URL, declared.REST_URL, declared.GRAPHQL_URL)


def with_endpoint_id(flags: Flags, connect: Connect = access.connect, *, told_only: bool = False) -> Flags:
    """`flags`, with the id of the endpoint that was named, wherever that was. Ends the command where there is none.

    `told_only`: the command takes it from its flag alone.
    """
    with exit_if_refused():
        choices = choose(flags, os.environ)
        if told_only and not choices.is_told(declared.ENDPOINT):
            return flags
        given = choices.text(declared.ENDPOINT)
        if given is None or not is_looked_up(given, choices):
            return flags
        way = access.to_endpoints(choices)
    found: list[str] = []

    async def look() -> int:
        account = connect(way)
        async with account.service:
            found.append(await endpoint_id(given, account))
        return 0

    if code := execute(look):
        raise typer.Exit(code)
    return {**flags, declared.ENDPOINT.name: found[0]}


def is_looked_up(given: str, choices: Choices) -> bool:
    """Whether `given` is a name that somebody can be asked about."""
    from orchestrator.account.naming import looks_like_an_id  # noqa: PLC0415

    if given.startswith(LOCAL) or "/" in given or looks_like_an_id(given):
        return False
    is_public = (choices[declared.SERVERLESS_URL] or SERVERLESS_URL_DEFAULT) == SERVERLESS_URL_DEFAULT
    return is_public or any(choices[each] is not None for each in _ADDRESSES)


async def endpoint_id(given: str, account: "Account") -> str:
    """The id of the endpoint that is called `given`, or has that id. Raises `UsageError`, and what asking raises.

    What the account does not have may still be an id: of an endpoint that is everybody's, or of an emulator's.
    """
    from orchestrator.account.naming import UnknownNameError, id_of  # noqa: PLC0415
    from orchestrator.client import RefusedError  # noqa: PLC0415

    try:
        return id_of("endpoint", given, await account.endpoints.list())
    except (UnknownNameError, RefusedError) as error:
        why = error
    except (NotSent, Unanswered) as error:
        raise StoppedError(str(error)) from None
    with suppress(RefusedError, UsageError, NotSent, Unanswered):
        await account.service.endpoint(given).health()
        return given
    if isinstance(why, UnknownNameError):
        raise why
    raise StoppedError(f"{declared.ENDPOINT} {given:.80}: {why}; the endpoint's id needs no list") from None
