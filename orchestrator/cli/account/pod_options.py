"""What the commands of `orchestrator pods` share."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

from orchestrator.cli.framework.flags import Flags
from orchestrator.cli.framework.service_access import Interface, at_account
from orchestrator.cli.output import streams
from orchestrator.cli.output.tables import plain
from orchestrator.clock import SystemClock
from orchestrator.settings import connection_settings
from orchestrator.settings.setting import Panel

if TYPE_CHECKING:
    from orchestrator.account import Account, Pod  # at run time `--help` would pay for it

T = TypeVar("T")

PodId = Annotated[
    str, typer.Argument(metavar="POD", help="The pod's id or name, as [bold]orchestrator pods list[/] shows them.")
]
_VERBOSE: Final = Annotated[
    bool | None,
    typer.Option("--verbose", "-v", metavar="", help="The account's rate limits, too.", rich_help_panel=Panel.SHOWN),
]


def _say_limits(flags: Flags, account: "Account") -> None:
    """Tells of the rate limits where `--verbose` asks for them."""
    if not flags["verbose"]:
        return
    from orchestrator.cli.account.pod_tables import window_line

    windows = account.pods.windows
    for window in windows:
        streams.say(window_line(window, SystemClock().now()))
    if not windows:
        streams.say("rate limit: the service told none")


at_pods: Final = at_account(
    Interface.PODS, connection_settings.BASE_URL, connection_settings.TEAM, after=_say_limits, verbose=_VERBOSE
)
"""What makes the commands."""


async def at_pod(account: "Account", pod: str, call: Callable[[str], Awaitable[T]]) -> T:
    """What `call` returns for the id of `pod`, which may be its name."""
    from orchestrator.account.name_lookup import by_name

    return await by_name("pod", pod, call, account.pods.list)


def say_status(pod: "Pod") -> None:
    """Tells where a pod stands that is followed."""
    streams.say(f"pod {pod.id} is {plain(pod.status)}")
