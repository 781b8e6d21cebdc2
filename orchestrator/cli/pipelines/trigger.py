"""`orchestrator trigger` and `orchestrator backfill`: flows that a person asks for."""

import sys
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Annotated, Final

import typer

from orchestrator.cli.framework.raised_workers import tell_raised
from orchestrator.cli.framework.runner import INTERRUPTED_EXIT_CODE, at_ledger
from orchestrator.cli.framework.service_access import Yes, confirm
from orchestrator.cli.output import streams
from orchestrator.cli.output.consoles import QuietConsole
from orchestrator.cli.pipelines.serve import at_engine
from orchestrator.cli.runs.run import FAILURES_EXIT_CODE
from orchestrator.core.pipelines.flow_lifecycle import ENDED, FlowState
from orchestrator.core.text.local_time import local
from orchestrator.core.text.wording import counted
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.settings.command_requests import ServeRequest

if TYPE_CHECKING:
    from orchestrator.api.flows.triggers import TriggeredFlows  # at run time `--help` would pay for it
    from orchestrator.views.flows import FlowStatus  # at run time `--help` would pay for it

PARALLEL_MAX: Final = 1_000

PipelineName = Annotated[str, typer.Argument(metavar="NAME", help="The pipeline.")]
At = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="T",
        help="The time that the flow is for, as 2026-03-29T02:30 in its zone or with an"
        " offset; the same time is the same flow. Default: now.",
    ),
]
Wait = Annotated[
    bool,
    typer.Option(
        "--wait", help="End when the flow has, with the exit code of run; where nobody works on the ledger, work on it."
    ),
]
Since = Annotated[str, typer.Option("--from", metavar="T", help="The first fire, or a time before it.")]
Until = Annotated[str, typer.Option("--to", metavar="T", help="The last fire, or a time after it.")]
Parallel = Annotated[
    int, typer.Option("--parallel", metavar="N", min=1, max=PARALLEL_MAX, help="So many of these flows at once.")
]
Again = Annotated[
    bool, typer.Option("--again", help="Also for fires that have a flow: a further one, with ~2 behind its name.")
]


@at_engine("orchestrator.api.flows.flows", sends=lambda flags: flags["wait"])
async def trigger(
    name: PipelineName,
    at: At = None,
    wait: Wait = False,
    *,
    request: ServeRequest,
    console: QuietConsole,
    as_json: bool,
) -> int:
    """Ask for a flow of a pipeline, for now or for another time.

    Example: orchestrator trigger captions --at 2026-03-29 --wait
    """
    from orchestrator.api.flows.triggers import trigger
    from orchestrator.api.foreground.tick import wait_for_flow
    from orchestrator.cli.framework.signals import stop_on_signals

    found = await trigger(request.ledger, name, at)
    show_flow_asked_for(found, console, waits=wait, as_json=as_json)
    if not wait:  # who waits works on the ledger, and puts raised workers back
        if not as_json:
            await tell_raised(request.ledger)
        return 0
    with redirect_stdout(sys.stderr):  # what a function of the user's prints must not end up among our data
        async with stop_on_signals(console) as stop:
            flow = await wait_for_flow(request, found.flows[0], console, stop=stop)
    return show_flow_ended(flow, console, as_json=as_json)


@at_ledger("One JSON object on standard output.")
async def backfill(
    name: PipelineName,
    since: Since,
    until: Until,
    parallel: Parallel = 1,
    again: Again = False,
    yes: Yes = False,
    *,
    ledger: LedgerAddress,
    as_json: bool,
) -> None:
    """Ask for the flows of a past time; how many is shown first.

    They come behind those of the schedule.

    Example: orchestrator backfill captions --from 2026-03-01 --to 2026-03-14
    """
    from orchestrator.api.flows.triggers import backfill, backfill_preview

    fires = await backfill_preview(ledger, name, since, until)
    new = len(fires.fires) if again else len(fires.fires) - fires.known
    if not new:
        why = f": all {fires.known:,} have a flow; add --again" if fires.known else " in this time"
        streams.say(f"{name} has no fire to be made up for{why}")
    else:
        first, last = (local(fire, fires.zone) for fire in (fires.fires[0], fires.fires[-1]))
        known = f"; {fires.known:,} have one already" if fires.known else ""
        confirm(f"begin {counted(new, 'flow')} of {name}, for {first} to {last}{known}?", yes=yes)
    asked = await backfill(ledger, fires, parallel=parallel, again=again)
    if as_json:
        streams.put_json(asked)
    if asked.flows:
        by = asked.holder or "the next orchestrator serve or tick"
        streams.say(f"{counted(len(asked.flows), 'flow')} wait behind those of the schedule; {by} begins them")


def show_flow_asked_for(found: "TriggeredFlows", console: QuietConsole, *, waits: bool, as_json: bool) -> None:
    """Prints which flow was asked for, and who begins it; as JSON, where nobody waits for it."""
    console.info(_told(found, waits=waits))
    if as_json and not waits:
        streams.put_json(found)


def show_flow_ended(flow: "FlowStatus", console: QuietConsole, *, as_json: bool) -> int:
    """Prints how a flow ended; returns the exit code."""
    if as_json:
        streams.put_json(flow)
    console.info(f"{flow.name}: {flow.state}{f', {flow.why}' if flow.why else ''}")
    return _exit_code(flow)


def _exit_code(flow: "FlowStatus") -> int:
    if flow.state not in ENDED:
        return INTERRUPTED_EXIT_CODE
    return 0 if flow.state is FlowState.SUCCEEDED else FAILURES_EXIT_CODE


def _told(found: "TriggeredFlows", *, waits: bool) -> str:
    name = found.flows[0]
    was = f"{name} was asked for before" if found.known else f"{name} is asked for"
    if found.holder is not None:
        return f"{was}; {found.holder} begins it in its turn"
    if waits:
        return was
    return f"{was}; it begins with the next orchestrator serve or tick, or now with --wait"
