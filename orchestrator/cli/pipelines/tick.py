"""`orchestrator tick`: one look at the schedules, for a timer, and the work that comes of it."""

import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from orchestrator.cli.framework import flags as options
from orchestrator.cli.framework.flags import Flags, also
from orchestrator.cli.framework.requests import serve_request, serve_warnings
from orchestrator.cli.framework.runner import execute, understood
from orchestrator.cli.output import streams
from orchestrator.cli.output.progress_views import QuietView, view_for_stderr
from orchestrator.core.text.durations import parse_duration
from orchestrator.core.text.wording import counted
from orchestrator.settings import command_settings
from orchestrator.settings.requests import ServeRequest
from orchestrator.settings.sources import Choices

if TYPE_CHECKING:
    from orchestrator.api.foreground.tick import Ticked  # at run time `--help` would pay for it


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


class _Tick(NamedTuple):
    """What a tick is to do."""

    request: ServeRequest
    within_us: int | None


def add_tick(commands: typer.Typer) -> None:
    """Registers `tick`."""

    @commands.command()
    @also(_carry_out, **options.flags_of(*command_settings.SERVE))
    def tick(within: For = None, *, choices: Choices) -> _Tick:
        """Work on what is due, and end: for cron, or a timer of systemd.

        It looks once at the schedules, and works until nothing is left.

        Example: orchestrator tick --ledger batches.db
        """
        return _Tick(serve_request(choices, os.environ, key_needed=False), within)


def _carry_out(flags: Flags, prepare: Callable[[Choices], _Tick]) -> None:
    asked, _, as_json, quiet = understood(flags, prepare)
    for warning in serve_warnings(asked.request):
        streams.warn(warning)
    work = partial(_tick, asked, view_for_stderr(quiet=quiet), as_json=as_json)
    raise typer.Exit(execute(work, ledger=asked.request.ledger, needs="orchestrator.api.foreground.tick"))


async def _tick(asked: _Tick, view: QuietView, *, as_json: bool) -> int:
    from orchestrator.api.foreground.tick import tick
    from orchestrator.cli.framework.signals import stop_on_signals

    async with stop_on_signals(view) as stop:
        ticked = await tick(asked.request, view, stop=stop, within_us=asked.within_us)
    show_ticked(ticked, view, as_json=as_json)
    return 0


def show_ticked(ticked: "Ticked", view: QuietView, *, as_json: bool) -> None:
    """Prints what was done."""
    if as_json:
        streams.put_json(ticked)
    view.say(_told(ticked))


def _told(ticked: "Ticked") -> str:
    if ticked.held_by is not None:
        return f"{ticked.held_by} works on this ledger, and looks at the schedules"
    if not ticked.flows:
        return "nothing is due"
    ended = sum(flow.ended_at is not None for flow in ticked.flows)
    return f"{counted(ended, 'flow')} ended, {len(ticked.flows) - ended:,} not yet"
