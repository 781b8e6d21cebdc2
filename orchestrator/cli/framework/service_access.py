"""What every command for the service's interface shares: flags, the way to the service, errors, questions.

Such a command needs no other part of the program than the client. It sends little, and nobody waits for it but a person
or their script: whatever goes wrong is one line and an exit code.
"""

import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Final, TextIO

import msgspec
import typer

from orchestrator.api.runs.service_connection import service_key
from orchestrator.cli.framework import flags as options
from orchestrator.cli.framework.flags import Flags, also
from orchestrator.cli.framework.flags_to_requests import key_warning
from orchestrator.cli.framework.runner import execute, exit_if_refused
from orchestrator.cli.output import streams
from orchestrator.core.limits.rate_pacer import CONTRACT_LIMITS, Limit, Operation
from orchestrator.core.service import account_interfaces
from orchestrator.core.text.durations import parse_duration
from orchestrator.core.text.figures import lasting
from orchestrator.errors import NotSent, StoppedError, Unanswered, UsageError
from orchestrator.settings import command_flags, connection_settings
from orchestrator.settings.connection_settings import PROFILE
from orchestrator.settings.setting import Setting
from orchestrator.settings.sources import Choices, choose
from orchestrator.settings.words_and_defaults import KeyPlace
from orchestrator.units import SECOND_US

if TYPE_CHECKING:
    from orchestrator.account import Account  # at run time `--help` would pay for it


WAIT_DEFAULT: Final = "10m"


class Interface(Enum):
    """The parts of the service, by the setting that holds the URL of each."""

    JOBS = connection_settings.SERVERLESS_URL
    PODS = connection_settings.BASE_URL
    ENDPOINTS = connection_settings.REST_URL
    GRAPHQL = connection_settings.GRAPHQL_URL


_PART_OF: Final = {
    account_interfaces.Interface.V1: Interface.ENDPOINTS,
    account_interfaces.Interface.V2: Interface.PODS,
    account_interfaces.Interface.GRAPHQL: Interface.GRAPHQL,
}
"""Where each of the interfaces is that know the same things."""

AtMost = Annotated[int | None, typer.Option(metavar="N", min=1, help="So many at most. Default: all of them.")]
Timeout = Annotated[
    str | None, typer.Option(metavar="D", help=f"How long --wait may take, as in 90s; {WAIT_DEFAULT} if not said.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", metavar="", help="Do not ask.")]
_JSON: Final = options.flag(command_flags.JSON, "The service's answer as JSON on standard output.")


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """Which parts of the service a command speaks to, where they are, and the key."""

    urls: Mapping[Interface, str]
    key: str
    team: str | None = None
    graphql_key: KeyPlace = "query"
    interface: account_interfaces.Interface = account_interfaces.Interface.AUTO
    limits: Mapping[Operation, Limit] = CONTRACT_LIMITS

    def __repr__(self) -> str:
        return f"Access({', '.join(map(repr, self.urls.values()))})"


Connect = Callable[[Access], "Account"]


def connect(access: Access) -> "Account":
    """The account over the network, and its endpoints within the share that people have of their limits."""
    from orchestrator.account import Account
    from orchestrator.client import Service, for_people

    url = {interface: interface.value.unset for interface in Interface} | dict(access.urls)
    return Account(
        Service(url[Interface.JOBS], access.key, limits=for_people(access.limits)),
        base_url=url[Interface.PODS],
        team_id=access.team,
        rest_url=url[Interface.ENDPOINTS],
        graphql_url=url[Interface.GRAPHQL],
        graphql_key=access.graphql_key,
        interface=access.interface,
    )


def at_account(
    part: Interface | account_interfaces.Noun,
    *settings: Setting[Any],
    after: Callable[[Flags, "Account"], None] = lambda *_: None,
    **own: Any,
) -> Callable[..., Callable[[Callable[..., Any]], Callable[..., None]]]:
    """What makes commands of async functions of their own flags, the `account` and, where they have such parameters,
    `as_json`, `choices` and `flags`. They are about `part` of the service, which several interfaces may know; whichever
    way a command ends, `after` is called. Each has the flags of `settings` and `own` behind those that it is made with.

    Who calls the command line may reach the account in another way: by the object of the context, a `Connect`.
    """
    shared = {**options.flags_of(*settings, command_flags.CONFIG), "json": _JSON, **own, **options.flags_of(PROFILE)}

    def carry_out(flags: Flags, command: Callable[..., Awaitable[int | None]]) -> None:
        with exit_if_refused():
            choices = choose(flags, os.environ)
            access = _access(part, choices)
        for warning in filter(None, map(key_warning, access.urls.values())):
            streams.warn(warning)

        async def work() -> int | None:
            account = (flags["ctx"].obj or connect)(access)
            async with account.service:
                account.on_wait(lambda reason, wait_s: streams.say(f"waiting {lasting(wait_s)}: {reason}"))
                try:
                    return await command(choices, account=account, as_json=choices.is_on(command_flags.JSON))
                except (NotSent, Unanswered) as error:
                    raise StoppedError(str(error)) from None
                finally:
                    after(flags, account)

        raise typer.Exit(execute(work))

    return lambda **more: also(carry_out, **{**more, **shared, "ctx": typer.Context})


def at_noun(noun: account_interfaces.Noun) -> Callable[..., Callable[[Callable[..., Any]], Callable[..., None]]]:
    """The same for what several interfaces know."""
    parts = [_PART_OF[each].value for each in account_interfaces.KNOWN[noun]]
    more = (connection_settings.TEAM, connection_settings.GRAPHQL_KEY)
    return at_account(noun, connection_settings.INTERFACE, *parts, *more)


def _access(part: Interface | account_interfaces.Noun, choices: Choices) -> Access:
    def url(of: Interface) -> str:
        return choices[of.value] or str(of.value.unset)

    choice = choices[connection_settings.INTERFACE] or account_interfaces.Interface.AUTO
    limits = choices[connection_settings.LIMIT] if part is Interface.JOBS else None
    there = {each for each, of in _PART_OF.items() if url(of).rstrip("/") != of.value.unset}
    if isinstance(part, Interface):
        names = there if part is Interface.JOBS else ()  # of endpoints, see `cli.framework.endpoint_names`
        spoken_to: tuple[Interface, ...] = (part, *(_PART_OF[each] for each in names))
    else:
        spoken_to = tuple(_PART_OF[each] for each in account_interfaces.tried(part, choice, there))
        spoken_to += (Interface.JOBS,) if part is account_interfaces.Noun.ENDPOINTS else ()
    _check_profile(choices, spoken_to)
    return Access(
        urls={each: url(each) for each in spoken_to},
        key=service_key(choices, os.environ, needed=True),
        team=choices[connection_settings.TEAM],
        graphql_key=choices[connection_settings.GRAPHQL_KEY] or "query",
        interface=choice,
        limits=limits or CONTRACT_LIMITS,
    )


def _check_profile(choices: Choices, spoken_to: Sequence[Interface]) -> None:
    """Raises `UsageError` where some part of the profile's service is elsewhere, and nobody has said where one of these
    is: its key would go to the public service, where it is no key.
    """
    profile = choices[PROFILE]
    elsewhere = [each.value for each in Interface if choices[each.value] not in (None, each.value.unset)]
    unsaid = [each.value for each in spoken_to if choices[each.value] is None]
    if profile is not None and elsewhere and unsaid:
        [setting, *_] = unsaid
        raise UsageError(
            f"the profile {profile} has a {elsewhere[0].key} of its own and no {setting.key}: its key is not for"
            f" {setting.unset} unless you say so; add {setting.key} to [profile.{profile}], or give {setting}"
        )


def to_endpoints(choices: Choices) -> Access:
    """The way to the account's endpoints. Raises `UsageError`."""
    return _access(account_interfaces.Noun.ENDPOINTS, choices)


def confirm(question: str, *, yes: bool, name: str | None = None, terminal: TextIO | None = None) -> None:
    """Raises `UsageError` unless `yes`, or somebody at the `terminal` (standard input) agrees.

    With a `name`, agreeing is to type it, as in the service's own console; without one, y or yes will do.
    """
    if yes:
        return
    terminal = terminal or sys.stdin
    if not terminal.isatty():
        raise UsageError(f"{question} Nobody is here to ask; give --yes. Nothing was done")
    streams.say(f"{question} {'[y/N]' if name is None else f'Type its name, {name}, to confirm:'}", end=" ")
    with streams.interruptible():
        typed = terminal.readline().strip()
    if typed != name if name is not None else typed.lower() not in {"y", "yes"}:
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
        streams.put_json({**known_by, "deleted": True})
    streams.say(f"{what}: deleted")
