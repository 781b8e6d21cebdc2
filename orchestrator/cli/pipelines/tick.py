"""`orchestrator tick`: one look at the schedules, for a timer, and the work that comes of it."""

from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.output import streams
from orchestrator.cli.output.consoles import QuietConsole
from orchestrator.cli.pipelines.serve import at_engine
from orchestrator.core.text.durations import parse_duration
from orchestrator.core.text.wording import counted
from orchestrator.settings.requests import ServeRequest

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
