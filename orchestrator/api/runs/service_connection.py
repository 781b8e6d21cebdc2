"""How a process reaches the service, from what was chosen: the API key where it comes from, and what fits together."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from orchestrator.core.service.addresses import leads_to_loopback
from orchestrator.core.service.profiles import place
from orchestrator.core.service.url_endpoints import is_pods, is_url
from orchestrator.errors import UsageError
from orchestrator.settings import connection_settings
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.monitoring.target_file import read_dashboard_url, read_targets
from orchestrator.settings.setting import Setting
from orchestrator.settings.sources import Choices
from orchestrator.settings.words_and_defaults import API_KEY_VARIABLES, LOCAL


def connection_of(
    choices: Choices,
    environment: Mapping[str, str],
    *,
    among: Sequence[Setting[Any]] | None = None,
    key: str | None = None,
) -> ConnectionSettings:
    """How the service is reached by the account that was chosen; `among` is what the command takes, None for all.

    `key` is its API key, where somebody has given it. Raises `UsageError` as `api_key`, and for a key that was given
    beside a profile that was not.
    """
    if (
        key
        and choices[connection_settings.PROFILE] is not None
        and not choices.is_from_flag(connection_settings.PROFILE)
    ):
        raise UsageError(
            f"{choices.origin(connection_settings.PROFILE)} chooses an account, and api_key= may be another's: give"
            " profile= as well, or unset the variable"
        )
    connection = choices.build(ConnectionSettings, among)
    targets = read_targets(choices.file)
    return msgspec.structs.replace(
        connection,
        serverless_url=place(connection.serverless_url, choices[connection_settings.PROFILE]),
        api_key=service_key(choices, environment, needed=False) if key is None else key,
        key_variables=choices.file.key_variables.union(*(each.variables for each in targets.values())),
        headers=choices.file.headers(environment),
        targets=targets,
        dashboard_url=read_dashboard_url(choices.file),
    )


def connection_to(
    endpoint: str, choices: Choices, environment: Mapping[str, str], *, otherwise: str
) -> ConnectionSettings:
    """How a new run reaches `endpoint`, and is reached; for `otherwise` see `api_key`. Raises `UsageError`."""
    connection = connection_of(choices, environment, key="")
    if is_url(endpoint):  # no webhooks come from there: what the file says of them is for other runs
        for setting in (connection_settings.LISTEN, connection_settings.WEBHOOK_URL):
            if choices.is_from_flag(setting):
                raise UsageError(
                    f"{choices.origin(setting)} is for jobs in the service's queue, and {endpoint} is a URL"
                )
        connection = msgspec.structs.replace(connection, listen=None, webhook_url=None)
        return msgspec.structs.replace(connection, api_key=service_key(choices, environment, needed=is_pods(endpoint)))
    local = endpoint.startswith(LOCAL)
    check_listener(choices, loopback=local or leads_to_loopback(connection.serverless_url))
    key = "" if local else service_key(choices, environment, needed=True, otherwise=otherwise)
    return msgspec.structs.replace(connection, api_key=key)


def service_key(choices: Choices, environment: Mapping[str, str], *, needed: bool, otherwise: str = "") -> str:
    """The API key of the account that was chosen: without a profile, see `api_key`. Raises `UsageError`."""
    variable: str | None = choices[connection_settings.PROFILE_KEY]
    if variable is None:
        if choices.file.profiles:
            accounts = "|".join(choices.file.profiles)
            otherwise = f"\nor choose an account: {connection_settings.PROFILE} {accounts}{otherwise}"
        return api_key(environment, needed=needed, otherwise=otherwise)
    key = api_key(environment, needed=False, variables=(variable,))
    if not key:
        profile = choices[connection_settings.PROFILE]
        raise UsageError(f"the profile {profile} has its API key in {variable}; set it: export {variable}=...")
    return key


def api_key(
    environment: Mapping[str, str],
    *,
    needed: bool,
    otherwise: str = "",
    variables: Sequence[str] = API_KEY_VARIABLES,
) -> str:
    """The API key, only ever from the environment; "" where there is none and none is `needed`.

    `otherwise` is what else a user without a key can do; `variables` are where it may be, the first that is set.
    """
    for variable in variables:
        key = environment.get(variable, "").strip()
        if key and not (key.isascii() and key.isprintable() and " " not in key):
            raise UsageError(f"{variable} holds characters that no API key has; copy the key anew")
        if key:
            return key
    if needed:
        raise UsageError(
            "there is no API key; set it in the environment: export ORCHESTRATOR_API_KEY=... (RUNPOD_API_KEY is"
            f" accepted too; an emulator takes any){otherwise}"
        )
    return ""


def check_listener(choices: Choices, *, loopback: bool) -> None:
    """Listener and webhook URL go together; on `loopback` a listener alone will do. Raises `UsageError`."""
    listen, webhook_url = choices[connection_settings.LISTEN], choices[connection_settings.WEBHOOK_URL]
    if webhook_url and not listen:
        raise UsageError(
            f"{choices.origin(connection_settings.WEBHOOK_URL)} needs <setting listen=HOST:PORT>: nobody would be there"
            " to take the webhooks"
        )
    if listen and not webhook_url and not loopback:
        raise UsageError(
            f"{choices.origin(connection_settings.LISTEN)} needs <setting webhook-url>: the URL under which the"
            " service reaches this machine.\nWithout a reachable URL leave both out; results are then polled"
        )
