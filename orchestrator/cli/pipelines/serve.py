"""`orchestrator serve` and `orchestrator tick`: the engine of a ledger without a run of its own."""

import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
import typer

from orchestrator.cli.framework.dashboard_child import beside, child_of
from orchestrator.cli.framework.flags import Flags, also, flags_of
from orchestrator.cli.framework.flags_to_requests import serve_request, serve_warnings
from orchestrator.cli.framework.runner import execute, exit_if_refused
from orchestrator.cli.output import streams
from orchestrator.cli.output.consoles import QuietConsole, console_for_stderr
from orchestrator.core.text.durations import parse_duration
from orchestrator.core.text.wording import counted
from orchestrator.errors import UsageError
from orchestrator.settings import command_flags
from orchestrator.settings.addresses.ledger_address import LedgerUrl
from orchestrator.settings.command_requests import ServeRequest
from orchestrator.settings.setting import Setting
from orchestrator.settings.sources import Choices, choose

if TYPE_CHECKING:
    from orchestrator.api.foreground.tick import Ticked  # at run time `--help` would pay for it
    from orchestrator.batch_api.batch_api_listener import BatchApi

T = TypeVar("T")

Apply = Annotated[
    list[Path] | None,
    typer.Option("--apply", metavar="FILE", help="Record this pipeline's file first; may be repeated."),
]


def at_engine(
    needs: str,
    *more: Setting[Any],
    key_needed: bool = False,
    sends: Callable[[Flags], bool] = lambda _: True,
) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """Makes a command of an async function that works on a ledger: of its own flags, the `request`, the `console` and
    `as_json`. `needs` is the module of what it does, `key_needed`: it cannot do without a key, and `sends` tells
    whether it would use one.
    """

    def carry_out(flags: Flags, command: Callable[..., Awaitable[int | None]]) -> None:
        with exit_if_refused():
            choices = choose(flags, os.environ)
            request = serve_request(choices, os.environ, key_needed=key_needed)
        for warning in serve_warnings(request) if sends(flags) else ():
            streams.warn(warning)
        console = console_for_stderr(quiet=choices.is_on(command_flags.QUIET))
        work = partial(command, choices, request=request, console=console, as_json=choices.is_on(command_flags.JSON))
        raise typer.Exit(execute(work, ledger=request.ledger, needs=needs))

    return also(carry_out, **flags_of(*command_flags.SERVE, *more))


def batch_api_of(flags: Flags, environ: Mapping[str, str]) -> "BatchApi | None":
    """The Batch API that the flags ask for, if any, which has its address. Raises `UsageError`."""
    address = read_flag(flags, command_flags.BATCH_API)
    if address is None:
        return None
    from orchestrator.batch_api.batch_api_listener import BatchApi
    from orchestrator.settings.batch_api.batch_api_settings import BATCH_API, BatchApiSettings
    from orchestrator.settings.batch_api.served_models import read_models

    settings = choose(flags, environ, BATCH_API).build(BatchApiSettings)
    models = read_models(flags.get(command_flags.CONFIG.name), environ)
    return BatchApi(address, settings, models, environ)


def read_flag(flags: Flags, flag: Setting[T]) -> T | None:
    """What was given with `flag`, which only the command line has; None: nothing. Raises `UsageError`."""
    text = flags.get(flag.name)
    try:
        return None if text is None else flag.value_type.read((text,))
    except (UsageError, ValueError) as error:
        raise UsageError(f"{flag}: {error}") from None


@at_engine(
    "orchestrator.api.foreground.serve",
    command_flags.MACHINE,
    command_flags.NO_PIPELINES,
    command_flags.ACCEPT_LOST_COMMITS,
    command_flags.DASHBOARD,
    command_flags.BATCH_API,
    key_needed=True,
)
async def serve(
    apply: Apply = None,
    *,
    flags: Flags,
    choices: Choices,
    request: ServeRequest,
    console: QuietConsole,
    as_json: bool,
) -> None:
    """Work on every run and schedule of a ledger until Ctrl-C.

    Runs that are taken in meanwhile are worked on, too.

    Examples:
        orchestrator serve --ledger batches.db
        orchestrator serve --batch-api 127.0.0.1:8800
    """
    from orchestrator.api.foreground.serve import serve
    from orchestrator.cli.framework.signals import stop_on_signals

    accepts = flags.get(command_flags.ACCEPT_LOST_COMMITS.name) is True  # once, so no variable says it
    request = msgspec.structs.replace(
        request,
        apply=tuple(apply or ()),
        accept_lost_commits=accepts,
        takes_pipelines=flags.get(command_flags.NO_PIPELINES.name) is not True,
    )
    name_machine(flags)
    child = child_of(flags, request.ledger, choices.configuration.named)
    with batch_api_of(flags, os.environ) or nullcontext() as batch_api:
        if batch_api is not None and isinstance(request.ledger, LedgerUrl):
            batch_api.refuse_for_now()  # of several processes the keeper answers, whichever that is
        alongside = None if batch_api is None else batch_api.serve
        async with stop_on_signals(console) as stop, beside(child, console):
            runs = await serve(request, console, stop=stop, alongside=alongside)
    if as_json:
        streams.put_json(runs)


def name_machine(flags: Flags) -> None:
    """The machine of this process is called as the flags say, if they do. Raises `UsageError`."""
    from orchestrator.ledger.holder_text import call_machine

    if (name := read_flag(flags, command_flags.MACHINE)) is not None:
        call_machine(name)


def duration_us(text: str) -> int:
    """A duration that was given with a flag, in microseconds."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


For = Annotated[
    int | None,
    typer.Option(
        "--for",
        metavar="D",
        parser=duration_us,
        help="End after so long; what is left is for the next tick. Default: once nothing is left.",
    ),
]


@at_engine("orchestrator.api.foreground.tick")
async def tick(within: For = None, *, request: ServeRequest, console: QuietConsole, as_json: bool) -> None:
    """Work on what is due, and end: for cron, or a timer of systemd.

    It looks once at the schedules, and works until nothing is left.

    Example: orchestrator tick --ledger batches.db
    """
    from orchestrator.api.foreground.tick import tick
    from orchestrator.cli.framework.signals import stop_on_signals

    async with stop_on_signals(console) as stop:
        ticked = await tick(request, console, stop=stop, within_us=within)
    show_ticked(ticked, console, as_json=as_json)


def show_ticked(ticked: "Ticked", console: QuietConsole, *, as_json: bool) -> None:
    """Prints what was done."""
    if as_json:
        streams.put_json(ticked)
    console.info(_told(ticked))


def _told(ticked: "Ticked") -> str:
    if ticked.holder is not None:
        return f"{ticked.holder} works on this ledger, and looks at the schedules"
    if not ticked.flows:
        return "nothing is due"
    ended = sum(flow.ended_at is not None for flow in ticked.flows)
    return f"{counted(ended, 'flow')} ended, {len(ticked.flows) - ended:,} not yet"
