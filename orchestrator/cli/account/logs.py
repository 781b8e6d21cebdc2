"""`orchestrator pods logs`, and what it shares with `endpoints logs`: each line that was printed, a line."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import asdict

from orchestrator.cli.account.pod_options import PodId, at_pod, at_pods
from orchestrator.cli.framework.flags import Flags, flag
from orchestrator.cli.framework.runner import while_read
from orchestrator.cli.output import streams
from orchestrator.cli.output.tables import plain
from orchestrator.clock import SystemClock
from orchestrator.core.service.account_interfaces import Interface
from orchestrator.core.text.durations import parse_duration
from orchestrator.errors import UsageError
from orchestrator.settings import connection_settings
from orchestrator.units import SECOND_US

if TYPE_CHECKING:
    from orchestrator.account import Account, LogLine  # at run time `--help` would pay for them
    from orchestrator.account.transport.logs import LogQuery, Tell

Tail = Annotated[
    int | None,
    typer.Option(metavar="N", min=0, help="How many of the last lines, at most 5,000. Default: 100; 0: none of them."),
]
Since = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="None older than that: [bold]10m[/] ago, or a time stamp with its zone."),
]
Source = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="[bold]container[/]: what it prints; [bold]system[/]: what is done with it. Default: both."
    ),
]
Follow = Annotated[
    bool,
    typer.Option("--follow", "-f", metavar="", help="Go on with whatever comes, until Ctrl-C or the end."),
]


@at_pods(interface=flag(connection_settings.INTERFACE, "Here as elsewhere; pods and their logs are known by v2 alone."))
async def pod_logs(
    pod_id: PodId,
    tail: Tail = None,
    since: Since = None,
    source: Source = None,
    follow: Follow = False,
    *,
    flags: Flags,
    account: "Account",
    as_json: bool,
) -> None:
    """Print a pod's log. By REST v2 only. Without --follow it ends with the last of N lines, or once none has come
    for 3 s: the service does not say which is the last.

    Example: orchestrator pods logs trainer --tail 20 --follow
    """
    _check(flags["interface"])
    query = query_of(tail, since, source, follow)

    async def read(tell: "Tell") -> None:
        await at_pod(account, pod_id, lambda its_id: account.pods.logs(its_id, tell, **asdict(query)))

    await put_log(f"pod {pod_id}", query, read, as_json=as_json)


def _check(interface: str | None) -> None:
    """Raises `UsageError` where an interface is asked for that knows no logs. What the file says is about others."""
    from orchestrator.account.transport.fallback import USE_V2, CannotSayError

    if interface not in (None, Interface.AUTO, Interface.V2):
        raise CannotSayError(Interface(interface), "what a pod has printed", USE_V2)


def query_of(tail: int | None, since: str | None, source: str | None, follow: bool) -> "LogQuery":
    """What the flags ask for. Raises `UsageError`."""
    from orchestrator.account.transport.logs import TAIL_DEFAULT, LogQuery

    return LogQuery(
        tail=TAIL_DEFAULT if tail is None else tail,
        since=None if since is None else _time(since),
        source=source,
        follow=follow,
    )


def _time(text: str) -> datetime:
    try:
        ago_us = parse_duration(text)
    except ValueError:
        return _stamped(text)
    return datetime.fromtimestamp((SystemClock().now() - ago_us) / SECOND_US, UTC)


def _stamped(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise UsageError(f"--since {text:.60}: write how long ago, as in 10m, or a time stamp: 2026-11-23T06:00Z")
    return found


async def put_log(what: str, query: "LogQuery", read: "Callable[[Tell], Awaitable[None]]", *, as_json: bool) -> None:
    """Prints each line that `read` tells, of the log of `what`, and says where none is to come."""
    told = 0

    def tell(line: "LogLine") -> None:
        nonlocal told
        told += 1
        (streams.put_json if as_json else _put)(line)

    await while_read(lambda: read(tell))
    if query.follow:
        streams.say(f"{what} prints no more")
    elif not told:
        streams.say(f"{what} has no such lines")


def _put(line: "LogLine") -> None:
    """A line at once, on one line, whatever is in it."""
    text = " ".join(plain(part) for part in (line.ts, line.source, line.line) if part)
    streams.put_text(f"{text}\n")
