"""How a process reaches the service, with its jobs and with the rest of an account, and is reached by it."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Final

import msgspec

from orchestrator.core.limits.rate_pacer import CONTRACT_LIMITS, Limit, Operation, Pacing
from orchestrator.core.service.account_interfaces import Interface
from orchestrator.core.service.addresses import parse_address, webhook_base_url
from orchestrator.core.service.endpoint_headers import NO_HEADERS, EndpointHeaders
from orchestrator.core.service.profiles import is_by_url, is_same_account, parse_profile, profile_of
from orchestrator.core.service.profiles import place as place_at
from orchestrator.core.service.row_variables import OwnKeys
from orchestrator.core.service.url_endpoints import BY_URL, is_url
from orchestrator.settings.monitoring.notify_targets import Targets
from orchestrator.settings.parsers import name_parsers, service_parsers
from orchestrator.settings.setting import Panel, Setting, setting_of, settings_in
from orchestrator.settings.value_types import Kind, ValueType, one_of, parsed, text, whole
from orchestrator.settings.words_and_defaults import (
    BASE_URL_DEFAULT,
    GRAPHQL_URL_DEFAULT,
    LOCAL,
    REST_URL_DEFAULT,
    SECRET_VARIABLES,
    SERVERLESS_URL_DEFAULT,
    KeyPlace,
)

_service: Final = partial(Setting, panel=Panel.SERVICE)


class ConnectionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a process reaches the service and is reached by it."""

    serverless_url: Annotated[
        str,
        _service(
            "serverless-url",
            service_parsers.address("/v2"),
            "Where the service is. The path `/v2/{endpoint_id}/…` is added.",
        ),
    ] = SERVERLESS_URL_DEFAULT
    api_key: str = ""
    """Never stored, printed or logged: `repr` leaves it out."""

    listen: Annotated[
        str | None,
        _service(
            "listen",
            parsed("HOST:PORT", lambda given: str(parse_address(given))),
            "Take the service's webhooks here.",
            more="`:PORT` listens on 127.0.0.1 only; port 0 is any free one.",
            default="no listener: results are polled",
        ),
    ] = None
    webhook_url: Annotated[
        str | None,
        _service(
            "webhook-url",
            parsed("URL", webhook_base_url),
            "The URL under which the service reaches the listener; a path prefix is fine. Needed with `--listen`,"
            " unless the service is on this machine.",
            default="the listener's own",
        ),
    ] = None
    key_variables: frozenset[str] = frozenset()
    """What holds keys of ours beside those that `keys` names."""

    headers: Mapping[str, EndpointHeaders] = {}
    """What requests to endpoints that are URLs carry, by URL: what the configuration file says. Kept nowhere else."""

    targets: Targets = {}
    """Who can be told, by name: what the configuration file says. Kept nowhere else."""

    dashboard_url: str = ""
    """Where people reach the dashboard, for links in messages; empty: nowhere."""

    limits: Annotated[
        Mapping[Operation, Limit],
        _service(
            "limit",
            ValueType(
                Kind.LIST, "OP=N/SECONDS[:CONCURRENT]", service_parsers.parse_limits, service_parsers.format_limits
            ),
            "A limit to keep: at most N requests of operation OP in so many seconds, and so many at once, as in"
            " `run=1000/10:200`. Repeatable.",
            default="[the contract's](#durations-and-limits)",
            plural="limits",
        ),
    ] = CONTRACT_LIMITS
    pacing: Annotated[
        Pacing,
        _service(
            "pacing",
            parsed("even|window", service_parsers.parse_pacing),
            "How requests are spread within the limits. `even`: evenly, safe however the service counts. `window`:"
            " bursts that fill a window at once, for a service known to count plain windows.",
            more="5,000 jobs then leave in 40 s rather than 50.",
        ),
    ] = "even"
    rest_url: Annotated[
        str,
        _service(
            "rest-url",
            service_parsers.address("/v1"),
            "Where REST v1 is, the older interface; `/v1/endpoints` is added.",
        ),
    ] = REST_URL_DEFAULT
    requests_per_worker: Annotated[
        int | None,
        _service(
            "requests-per-worker",
            whole(1),
            "How many requests in a limit's time each running worker adds to the service's limits, if you know it.",
            more="The workers are counted by `/health`, and the limits [grow with them](how-it-works.md#limits).",
            default="the base limits",
        ),
    ] = None
    keys: Annotated[
        Mapping[str, str],
        _service(
            "service-key",
            ValueType(
                Kind.LIST, "URL=env:NAME", service_parsers.parse_service_keys, service_parsers.format_service_keys
            ),
            "The variable that holds the API key of a further service, where a ledger's runs are at several."
            " Repeatable.",
            default="only the service of `--serverless-url` has a key",
            plural="service_keys",
        ),
    ] = {}

    def key_for(self, service_url: str, environ: Mapping[str, str]) -> str:
        """The API key for the service at that URL; "" where there is none."""
        if service_url == self.serverless_url.rstrip("/"):
            return self.api_key
        key = self.keys.get(service_url, "")
        return environ.get(key.removeprefix("env:"), "") if key.startswith("env:") else key

    def reaching(self, place: str, environ: Mapping[str, str]) -> "ConnectionSettings":
        """How what is at `place` is reached: a service with its key, or endpoints at URLs, which belong to the service
        here where they belong to any.
        """
        if is_by_url(place):
            return self
        return msgspec.structs.replace(self, serverless_url=place, api_key=self.key_for(place, environ))

    def check_reach(self, url: str) -> None:
        """Raises `UsageError` where a variable is not set that requests to the endpoint at `url` need."""
        self.headers.get(url, NO_HEADERS).check(url)

    def can_reach(self, place: str, environ: Mapping[str, str]) -> bool:
        """Whether it can be reached: a service needs a key, and what is at a URL has its own way to say so."""
        if is_by_url(place):
            return is_same_account(place, self.serverless_url)
        return bool(self.key_for(place, environ))

    def __repr__(self) -> str:
        return f"ConnectionSettings(serverless_url={self.serverless_url!r}, listen={self.listen!r})"


class AccountSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where the parts of the service are that an account has, and how they are spoken to."""

    base_url: Annotated[
        str,
        _service(
            "base-url",
            service_parsers.address("/v2"),
            "Where REST v2 is; `/v2/pods`, `/v2/serverless` and so on are added.",
        ),
    ] = BASE_URL_DEFAULT
    team: Annotated[
        str | None,
        _service(
            "team",
            text("ID"),
            "Act for this team; for session tokens only. A key made inside a team acts for it anyway.",
            default="none",
        ),
    ] = None
    graphql_url: Annotated[
        str,
        _service("graphql-url", service_parsers.address(""), "The GraphQL address."),
    ] = GRAPHQL_URL_DEFAULT
    graphql_key: Annotated[
        KeyPlace,
        _service(
            "graphql-key",
            parsed("query|header", service_parsers.parse_key_place),
            "Where the API key goes: the URL's parameter api_key, or a bearer header.",
        ),
    ] = "query"
    interface: Annotated[
        Interface,
        _service(
            "interface",
            one_of(Interface),
            "Which interface is spoken for endpoints, templates and secrets. `auto`: the newest that the service has.",
            more=(
                "If the address of one was set and not that of another, `auto` leaves the other alone. See"
                " [interfaces](interface.md#one-account-three-interfaces)."
            ),
        ),
    ] = Interface.AUTO


SERVERLESS_URL: Final[Setting[str]] = setting_of(ConnectionSettings, "serverless_url")
LISTEN: Final[Setting[str]] = setting_of(ConnectionSettings, "listen")
WEBHOOK_URL: Final[Setting[str]] = setting_of(ConnectionSettings, "webhook_url")
LIMIT: Final[Setting[Mapping[Operation, Limit]]] = setting_of(ConnectionSettings, "limits")
SERVICE_KEY: Final[Setting[Mapping[str, str]]] = setting_of(ConnectionSettings, "keys")
REST_URL: Final[Setting[str]] = setting_of(ConnectionSettings, "rest_url")

TRANSPORT: Final = tuple(each for each in settings_in(ConnectionSettings) if each is not SERVERLESS_URL)
"""How it is reached, wherever it is."""

BASE_URL: Final[Setting[str]] = setting_of(AccountSettings, "base_url")
INTERFACE: Final[Setting[Interface]] = setting_of(AccountSettings, "interface")
TEAM: Final[Setting[str]] = setting_of(AccountSettings, "team")
GRAPHQL_URL: Final[Setting[str]] = setting_of(AccountSettings, "graphql_url")
GRAPHQL_KEY: Final[Setting[KeyPlace]] = setting_of(AccountSettings, "graphql_key")

ACCOUNT: Final = settings_in(AccountSettings)

PROFILE: Final[Setting[str]] = Setting(
    "profile",
    parsed("NAME", parse_profile),
    "The [account](#several-accounts) that is meant: its key and its addresses stand in `[profile.NAME]` of the"
    " configuration file. A run stays with the one that it was begun with.",
    default="none: the key is that of the environment",
    panel="Service",
)
PROFILE_KEY: Final[Setting[str]] = Setting(
    "key",
    parsed("env:NAME", name_parsers.parse_variable),
    "The variable that holds the account's API key; the key itself stands in no file.",
    default="required",
    has_flag=False,
)


def place_for(endpoint: str, service_url: str) -> str:
    """Where the ledger has `endpoint`, for whoever is at the place `service_url`: at no service where it is a function
    of the user's, or a URL.
    """
    if endpoint.startswith(LOCAL):
        return LOCAL
    return place_at(BY_URL, profile_of(service_url)) if is_url(endpoint) else service_url.rstrip("/")


def words_for(place: str) -> list[str]:
    """The words of a command line that choose the account whose what is at `place` is."""
    profile = profile_of(place)
    return [] if profile is None else PROFILE.words(profile)


def whose(place: str) -> str:
    """Whose what is at `place` is, and how a command is told."""
    profile = profile_of(place)
    if profile is None:
        return f"was begun without a profile: leave {PROFILE} and its variable out"
    return f"belongs to the profile {profile}: add {PROFILE} {profile}"


def own_keys(
    connection: ConnectionSettings, environ: Mapping[str, str], others: frozenset[str] = frozenset()
) -> OwnKeys:
    """What must not leave for a row; `others` are more variables that hold a secret of ours."""
    values = {connection.api_key, *(connection.key_for(url, environ) for url in connection.keys)}
    return OwnKeys(names=secret_variables(connection) | others, values=frozenset(values - {""}))


def secret_variables(connection: ConnectionSettings) -> frozenset[str]:
    """The variables that hold what is secret of ours."""
    named = {key.removeprefix("env:") for key in connection.keys.values() if key.startswith("env:")}
    return connection.key_variables.union(SECRET_VARIABLES, named)
