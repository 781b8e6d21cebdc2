"""Names of endpoints in the place of their ids: `--endpoint captions`.

What looks like an id is one, and needs no key and no request. A name is looked up once, among the account's endpoints,
before anything else is done; the ledger only ever has ids. So it is with the endpoints to which `--escalate` leads, and
where the configuration file has a table for a name. Where nobody has said where the account of another service
is (`--serverless-url` alone), there is nobody to ask, and whatever was given is taken for an id.
"""

import os
from typing import TYPE_CHECKING, Final

import typer

from orchestrator.cli.framework import service_access
from orchestrator.cli.framework.flags import Flags
from orchestrator.cli.framework.runner import execute, exit_if_refused
from orchestrator.cli.framework.service_access import Connect
from orchestrator.core.jobs.escalation import endpoints_named, with_ids
from orchestrator.core.service.profiles import address_of, is_by_url, profile_of
from orchestrator.core.service.url_endpoints import is_url
from orchestrator.errors import NotSent, StoppedError, Unanswered
from orchestrator.settings import command_flags, connection_settings, run_request, run_settings
from orchestrator.settings.configuration_file import RUNS
from orchestrator.settings.connection_settings import PROFILE
from orchestrator.settings.parsers.name_parsers import is_endpoint_name
from orchestrator.settings.sources import ENDPOINT_IDS, ENDPOINT_NAME, Choices, choose
from orchestrator.settings.words_and_defaults import LOCAL, SERVERLESS_URL_DEFAULT

if TYPE_CHECKING:
    from orchestrator.account import Account  # at run time `--help` would pay for it

_ADDRESSES: Final = (connection_settings.BASE_URL, connection_settings.REST_URL, connection_settings.GRAPHQL_URL)


def with_endpoint_id(flags: Flags, connect: Connect = service_access.connect, *, told_only: bool = False) -> Flags:
    """`flags`, with the ids of the endpoints that were named, wherever that was. Ends the command where one has none.

    `told_only`: the command takes its endpoint from its flag alone.
    """
    with exit_if_refused():
        choices = choose(flags, os.environ)
        if told_only and not choices.is_from_flag(run_request.ENDPOINT):
            return flags
        pool = choices.pool
        if pool is None or pool.endpoints[0].startswith(LOCAL) or is_url(pool.endpoints[0]):
            return flags
        given = pool.endpoints
        rules = (choices[run_settings.ESCALATE] or ()) if run_settings.ESCALATE.name in flags else ()
        names = [each for each in (*given, *endpoints_named(rules)) if is_looked_up(each, choices)]
        by_table = bool({*given} - {*names}) and _has_tables_of_names(flags, choices)
        if not names and not by_table:
            return flags
        way = service_access.to_endpoints(choices)
    ids: dict[str, str] = {}
    known: dict[str, str] = {}

    async def look() -> int:
        account = connect(way)
        async with account.service:
            for each in names:
                ids[each] = await endpoint_id(each, account)
            if by_table:
                known.update(await _names_by_id(account))
        return 0

    if code := execute(look):
        raise typer.Exit(code)
    if pool.members or len(given) > 1:
        found = {**flags, ENDPOINT_IDS: {**{known[each]: each for each in given if each in known}, **ids}}
    else:
        [only] = given
        its_id = ids.get(only, only)
        found = {**flags, run_request.ENDPOINT.name: its_id, ENDPOINT_NAME: known.get(its_id, only)}
    if not ids.keys() & set(endpoints_named(rules)):
        return found
    return found | {run_settings.ESCALATE.name: list(run_settings.ESCALATE.value_type.write(with_ids(rules, ids)))}


async def id_at(place: str, given: str, choices: Choices, connect: Connect = service_access.connect) -> str:
    """The id of the endpoint that is called `given` in the account whose runs are at `place`, whichever account was
    chosen. Raises `UsageError`, and `StoppedError` where it cannot be asked.
    """
    told = {
        command_flags.CONFIG.name: choices.configuration.named,
        PROFILE.name: profile_of(place),
        connection_settings.SERVERLESS_URL.name: address_of(place),
    }
    its_own = choose(told, {name: text for name, text in os.environ.items() if name != RUNS.variable(PROFILE)})
    if place == LOCAL or is_by_url(place) or not is_looked_up(given, its_own):
        return given
    account = connect(service_access.to_endpoints(its_own))
    async with account.service:
        return await endpoint_id(given, account)


def is_looked_up(given: str, choices: Choices) -> bool:
    """Whether `given` is a name that somebody can be asked about."""
    return is_endpoint_name(given) and _is_account_known(choices)


def _is_account_known(choices: Choices) -> bool:
    is_public = (choices[connection_settings.SERVERLESS_URL] or SERVERLESS_URL_DEFAULT) == SERVERLESS_URL_DEFAULT
    return is_public or any(choices[each] is not None for each in _ADDRESSES)


def _has_tables_of_names(flags: Flags, choices: Choices) -> bool:
    """Whether the file says something of endpoints by their names, which the command takes."""
    takes = any(each.name in flags for each in run_settings.OF_ENDPOINTS)
    return takes and _is_account_known(choices) and any(map(is_endpoint_name, choices.file.endpoints))


async def _names_by_id(account: "Account") -> dict[str, str]:
    """What the account's endpoints are called. Raises `StoppedError`."""
    from orchestrator.client import RefusedError

    try:
        known = await account.endpoints.list()
    except (RefusedError, NotSent, Unanswered) as error:
        raise StoppedError(
            f"[endpoints.NAME] of the configuration file: {error}; by their ids they need no list"
        ) from None
    return {each.id: each.name for each in known}


async def endpoint_id(given: str, account: "Account") -> str:
    """The id of the endpoint that is called `given`, or has that id, as `find_endpoint_id` finds it."""
    from orchestrator.account.run_endpoints import find_endpoint_id

    return await find_endpoint_id(given, account.endpoints, account.service)
