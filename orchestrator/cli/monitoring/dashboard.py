"""`orchestrator dashboard`: the pages in a browser, links to sign in there, and the key of programs."""

import logging
import os
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from orchestrator.cli.framework.command_groups import NounGroup
from orchestrator.cli.framework.dashboard_child import ENDS_WITH_INPUT
from orchestrator.cli.framework.flags import Flags, also, flag, flags_of
from orchestrator.cli.framework.runner import at_ledger, execute, exit_if_refused
from orchestrator.cli.output import streams
from orchestrator.cli.output.consoles import QuietConsole, console_for_stderr
from orchestrator.core.pipelines.run_messages import RunNews
from orchestrator.core.text.figures import rough_lasting
from orchestrator.errors import UsageError
from orchestrator.settings import command_flags, run_request
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.monitoring.dashboard_settings import DASHBOARD_FLAGS, DASHBOARDS, DashboardSettings
from orchestrator.settings.monitoring.notify_targets import Targets
from orchestrator.settings.monitoring.target_file import read_targets
from orchestrator.settings.sources import Choices, choose

if TYPE_CHECKING:
    import anyio

    from orchestrator.dashboard.access.sign_in_links import SignInLink
    from orchestrator.dashboard.process import DashboardPlace  # at run time `--help` would pay for it

NAME_CHARS_MAX: Final = 100
INPUT_BYTES: Final = 1_024


class _DashboardGroup(NounGroup):
    default_verb = "serve"
    named_verb = None


commands = typer.Typer(
    cls=_DashboardGroup,
    rich_markup_mode="rich",
    help="The pages in a browser. Without a verb they are served until Ctrl-C.",
)


def _carry_out(flags: Flags, _command: object) -> None:
    with exit_if_refused():
        choices = choose(flags, os.environ)
        settings = choose(flags, os.environ, DASHBOARDS).build(DashboardSettings)
        connection = ConnectionSettings(
            targets=read_targets(choices.file),
            dashboard_url=settings.url or "",
            key_variables=choices.file.key_variables,
        )
        if (log_file := choices[run_request.LOG_FILE]) is not None:
            log_accesses(log_file)
    console = console_for_stderr(quiet=choices.is_on(command_flags.QUIET))
    work = partial(_serve, choices.ledger, settings, console, connection, as_json=choices.is_on(command_flags.JSON))
    raise typer.Exit(execute(work, ledger=choices.ledger, needs="orchestrator.dashboard.process"))


@commands.command("serve")
@also(
    _carry_out,
    **flags_of(*DASHBOARD_FLAGS, run_request.LEDGER, command_flags.CONFIG),
    log_file=flag(run_request.LOG_FILE, "A line for each page that was asked for is added to this file."),
    json=flag(command_flags.JSON, "One JSON object with its address and a link, once it is served."),
    quiet=flag(command_flags.QUIET, "Says nothing where all is well."),
)
def dashboard_serve() -> None:
    """Show in a browser what is in a ledger, until Ctrl-C.

    It is a process of its own beside whoever works on the ledger, and needs no API key. At its start it prints a link
    that signs in once, within 5 minutes; `orchestrator dashboard link` makes more.

    Examples:
        orchestrator dashboard serve
        orchestrator dashboard serve --listen 127.0.0.1:9000 --payloads hide
    """


def log_accesses(path: Path) -> None:
    """Adds what the dashboard logs to the file at `path`. Raises `UsageError` where it cannot be written."""
    try:
        lines = logging.FileHandler(path, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{run_request.LOG_FILE} {path}: cannot be written ({error.strerror})") from error
    lines.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    log = logging.getLogger("orchestrator.dashboard")
    log.addHandler(lines)
    log.setLevel(logging.INFO)


async def _serve(
    ledger: LedgerAddress,
    settings: DashboardSettings,
    console: QuietConsole,
    connection: ConnectionSettings,
    *,
    as_json: bool,
) -> None:
    import anyio

    from orchestrator.cli.framework.signals import stop_on_signals
    from orchestrator.clock import SystemClock
    from orchestrator.dashboard.process import drop_secrets, serve_dashboard

    telling = {name for target in connection.targets.values() for name in target.variables}
    told = drop_secrets(os.environ, connection.key_variables, telling=telling)
    environ = {**os.environ, **told}
    if (warning := unreachable(connection.targets, environ)) is not None:
        console.warn(warning)

    def ready(place: "DashboardPlace") -> None:
        if as_json:
            streams.put_json(place)
        else:
            show_dashboard(place, console)
        console.ready()

    async with stop_on_signals(console) as stop, anyio.create_task_group() as tasks:
        if ENDS_WITH_INPUT in os.environ:
            tasks.start_soon(_end_with_input, stop)
        await serve_dashboard(
            ledger, settings, clock=SystemClock(), stop=stop, ready=ready, connection=connection, environ=environ
        )
        tasks.cancel_scope.cancel()


def unreachable(targets: Targets, environ: Mapping[str, str]) -> str | None:
    """Whom it could not tell that nobody works, and why; None where it reaches all who want to hear of that."""
    from orchestrator.api.messages.target_checks import targets_out_of_reach

    found = targets_out_of_reach(targets, RunNews.ABANDONED, environ)
    if not found:
        return None
    names = ", ".join(found)
    if ENDS_WITH_INPUT in environ:
        return (
            f"this dashboard gets no secrets and ends with who has begun it: it cannot tell {names} that results expire"
            " while nobody works; one that can is begun by itself: orchestrator dashboard"
        )
    missing = ", ".join(sorted(set(found.values())))
    return f"it cannot tell {names} that results expire while nobody works: {missing}"


async def _end_with_input(stop: "anyio.Event") -> None:
    """Who has begun us holds the other end of standard input: however that ends, we do."""
    import anyio

    while True:
        await anyio.wait_readable(sys.stdin)
        if not os.read(sys.stdin.fileno(), INPUT_BYTES):
            stop.set()
            return


def show_dashboard(place: "DashboardPlace", console: QuietConsole) -> None:
    """Says where it is and how to get in."""
    if place.sign_in is None:
        console.info(f"the dashboard is at {place.url}; stop it with Ctrl-C")
        return
    console.info(f"the dashboard is at {place.url}; stop it with Ctrl-C")
    console.info(f"sign in once, within 5 minutes: {place.sign_in.link}")
    console.info(f"others sign in by links of their own: orchestrator dashboard link {run_request.NAME} NAME")


def _name(text: str) -> str:
    name = text.strip()
    if not name or len(name) > NAME_CHARS_MAX or not name.isprintable():
        raise typer.BadParameter(f"write a name of at most {NAME_CHARS_MAX} characters")
    return name


Viewer = Annotated[bool, typer.Option("--viewer", help="They may look, and neither act nor see inputs and outputs.")]
Name = Annotated[
    str | None,
    typer.Option(
        str(run_request.NAME),
        metavar="N",
        parser=_name,
        help="Whose link it is: this name stands beside what they do. Default: yours on this machine.",
    ),
]
Url = Annotated[
    str | None, typer.Option("--url", metavar="URL", help="Where they reach it. Default: as it was started last.")
]


@commands.command("link")
@at_ledger("The link, as JSON.", tells_raised=False)
async def dashboard_link(
    viewer: Viewer = False,
    name: Name = None,
    url: Url = None,
    *,
    choices: Choices,
    ledger: LedgerAddress,
    as_json: bool,
) -> None:
    """Make a link that signs somebody in to the dashboard: once, within 5 minutes.

    Examples:
        orchestrator dashboard link
        orchestrator dashboard link --viewer --name ana
    """
    from orchestrator.clock import SystemClock
    from orchestrator.dashboard.access.key_file import KeyFolder
    from orchestrator.dashboard.access.sign_in_links import sign_in_link
    from orchestrator.dashboard.access.tokens import Person
    from orchestrator.ledger.actions.asker import user_name

    folder = KeyFolder(ledger)
    settings = choose({"url": url, "config": choices.configuration.named}, os.environ, DASHBOARDS).build(
        DashboardSettings
    )
    at = settings.url or folder.address()
    if at is None:
        raise UsageError(f"no dashboard of {ledger} was started yet: orchestrator dashboard")
    link = sign_in_link(folder, SystemClock(), at, Person(name=name or user_name(), may_act=not viewer))
    show_link(link, as_json=as_json)


def show_link(link: "SignInLink", *, as_json: bool) -> None:
    """Prints a link."""
    from orchestrator.dashboard.access.tokens import LINK_S

    if as_json:
        streams.put_json(link)
        return
    streams.put_text(f"{link.link}\n")
    may = "may act" if link.may_act else "looks on"
    streams.say(f"signs in {link.name}, who {may}: once, within {rough_lasting(LINK_S)}")


@commands.command("key")
@at_ledger("The key, as JSON.", tells_raised=False)
async def dashboard_key(*, ledger: LedgerAddress, as_json: bool) -> None:
    """Print the key with which programs look: `Authorization: Bearer KEY`.

    It is for the metrics, and for pages as JSON. It lets nobody act, shows no inputs and outputs, and lasts until the
    file `LEDGER.dashboard/key` is removed, which signs everybody out at once.

    Example: orchestrator dashboard key
    """
    from orchestrator.clock import SystemClock
    from orchestrator.dashboard.access.key_file import KeyFolder
    from orchestrator.dashboard.access.tokens import Tokens

    key = Tokens(KeyFolder(ledger).key(), SystemClock()).program_key()
    if as_json:
        streams.put_json({"key": key})
    else:
        streams.put_text(f"{key}\n")
