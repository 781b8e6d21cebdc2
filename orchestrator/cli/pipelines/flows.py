"""`orchestrator flows`: which there are, and how they stand."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.framework.command_groups import NounGroup
from orchestrator.cli.framework.runner import at_ledger
from orchestrator.cli.output import streams, tables
from orchestrator.core.pipelines.flow_lifecycle import FlowState
from orchestrator.core.text.durations import rough_duration
from orchestrator.core.text.figures import minute, money
from orchestrator.core.text.local_time import local
from orchestrator.core.text.wording import counted
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.units import SECOND_US

if TYPE_CHECKING:
    # at run time `--help` would pay for it
    from orchestrator.api.flows.lineage import Lineage, RowOfFlow
    from orchestrator.api.flows.triggers import Rerun
    from orchestrator.views.flows import FlowShown, FlowStatus, NotificationStatus, StageStatus
    from orchestrator.views.pages.pipelines import BackfillLine

FlowName = Annotated[str, typer.Argument(metavar="FLOW", help="The flow, or the beginning of its name.")]
RowId = Annotated[str, typer.Argument(metavar="ID", help="The custom_id of a row, in whichever stage.")]
SomePipeline = Annotated[str | None, typer.Argument(metavar="NAME", help="The pipeline. Default: all of them.")]
States = Annotated[
    list[FlowState] | None, typer.Option("--state", metavar="STATE", help="Only those in this state; may be repeated.")
]
FromStage = Annotated[
    str, typer.Option("--from", metavar="STAGE", help="The stage from which on there are new runs, called STAGE~2.")
]
OnlyFailed = Annotated[
    bool,
    typer.Option("--failed", help="Take over what has succeeded with the same input, and pay for the rest."),
]
Number = Annotated[int, typer.Option("--most", metavar="N", min=1, max=100_000, help="So many at most, newest first.")]


commands = typer.Typer(
    cls=NounGroup,
    rich_markup_mode="rich",
    help="The executions of pipelines. Without a verb they are listed.\n\nA flow is named after its pipeline and"
    " its fire, in UTC. [bold]orchestrator pause[/], [bold]unpause[/], [bold]cancel[/] and [bold]results[/] take"
    " flows, too.",
)


_shared = at_ledger("JSON on standard output.")


@commands.command("list")
@_shared
async def flows_list(
    name: SomePipeline = None, state: States = None, most: Number = 20, *, ledger: LedgerAddress, as_json: bool
) -> None:
    """Show flows and how they stand, newest fires first.

    Example: orchestrator flows captions --state failed
    """
    from orchestrator.api.flows.flows import flows_list

    show_flows(await flows_list(ledger, name, state or [], most), as_json=as_json)


@commands.command("show")
@_shared
async def flow_show(flow: FlowName, *, ledger: LedgerAddress, as_json: bool) -> None:
    """Show a flow and each of its stages: rows in, waiting, outstanding, done and failed, speed and time left.

    Example: orchestrator flows show captions@20260329T003000Z
    """
    from orchestrator.api.flows.flows import flow_show

    show_flow(await flow_show(ledger, flow), as_json=as_json)


@commands.command("lineage")
@_shared
async def flow_lineage(flow: FlowName, custom_id: RowId, *, ledger: LedgerAddress, as_json: bool) -> None:
    """Show what a row of a flow was made of, and what has become of it, stage by stage.

    Example: orchestrator flows lineage captions@20260329T003000Z night-17
    """
    from orchestrator.api.flows.lineage import flow_lineage

    show_lineage(await flow_lineage(ledger, flow, custom_id), as_json=as_json)


@commands.command("rerun")
@_shared
async def flow_rerun(
    flow: FlowName, from_: FromStage, failed: OnlyFailed = False, *, ledger: LedgerAddress, as_json: bool
) -> None:
    """Carry out a flow that has ended anew from a stage on; the runs that there are stay as they are.

    Example: orchestrator flows rerun captions@20260329T003000Z --from embed --failed
    """
    from orchestrator.api.flows.triggers import flow_rerun

    show_rerun(await flow_rerun(ledger, flow, from_, only_failed=failed), as_json=as_json)


@commands.command("backfills")
@_shared
async def flow_backfills(name: SomePipeline = None, *, ledger: LedgerAddress, as_json: bool) -> None:
    """Show the backfills that have not ended, each as one line: flows done, speed, time left, and what was spent.

    Example: orchestrator flows backfills captions
    """
    from orchestrator.api.flows.backfills import backfills_list

    show_backfills(await backfills_list(ledger, name), as_json=as_json)


def show_backfills(found: "Sequence[BackfillLine]", *, as_json: bool) -> None:
    """Prints backfills and how far they are."""
    tables.put_list(
        found,
        as_json=as_json,
        none="no backfill is under way",
        headings=("PIPELINE", "STATE", "FLOWS DONE", "JOBS DONE", "SPEED", "DONE (UTC)", "SPENT"),
        row=_backfill_row,
    )


def _backfill_row(line: "BackfillLine") -> Iterable[str]:
    flows = f"{line.ended:,} of {line.flows:,}{f', {line.failed:,} not whole' if line.failed else ''}"
    jobs = "-" if line.total is None else f"{line.done:,} of {line.total:,}"
    speed = "-" if not line.jobs_per_s else f"{line.jobs_per_s:,.1f}/s"
    done_at = "-" if line.eta_at is None else minute(line.eta_at)
    spent = "-" if line.spent is None else money(line.spent.amount)
    return line.name, line.standing, flows, jobs, speed, done_at, spent


def show_rerun(found: "Rerun", *, as_json: bool) -> None:
    """Prints the new runs of a flow, and who goes on with it."""
    if as_json:
        streams.put_json(found)
        return
    who = f"{found.holder} goes on with it" if found.holder else "it goes on with the next orchestrator serve or tick"
    streams.say(f"{found.flow} is carried out anew: {', '.join(found.runs)}; {who}")


def show_flows(found: "Sequence[FlowStatus]", *, as_json: bool) -> None:
    """Prints flows and how they stand."""
    tables.put_list(
        found,
        as_json=as_json,
        none="there are no such flows",
        headings=("FLOW", "STATE", "STARTED (UTC)", "TOOK", "WHY"),
        row=_row,
    )


def _row(flow: "FlowStatus") -> Iterable[str]:
    started = "-" if flow.started_at is None else local(flow.started_at, "UTC")
    took = "-" if flow.started_at is None or flow.ended_at is None else rough_duration(flow.ended_at - flow.started_at)
    return flow.name, f"{flow.state}{', late' if flow.late else ''}", started, took, flow.why


def show_flow(found: "FlowShown", *, as_json: bool) -> None:
    """Prints a flow and each of its stages."""
    if as_json:
        streams.put_json(found)
        return
    tables.put_parts(tables.lines(_lines(found)))
    if found.stages:
        headings = ("STAGE", "ROWS IN", "WAITING", "OUTSTANDING", "DONE", "FAILED", "REUSED", "SPEED", "LEFT")
        tables.put_parts(tables.columns(headings, map(_stage_row, found.stages)))


def _lines(found: "FlowShown") -> Iterator[tuple[str, str]]:
    flow = found.flow
    yield "flow", flow.name
    yield "state", f"{flow.state}{f': {flow.why}' if flow.why else ''}{'; late' if flow.late else ''}"
    yield "asked for", f"{flow.kind}, by version {found.version} of {flow.pipeline}"
    yield "fire", local(flow.fire_at, "UTC")
    for what, at in (("began", flow.started_at), ("ended", flow.ended_at)):
        if at is not None:
            yield what, local(at, "UTC")
    if found.awaits is not None:
        yield "waits for", f"{found.awaits.path}, until {local(found.awaits.until, 'UTC')}"
    for stage in found.stages:
        yield f"input of {stage.stage}", f"{stage.source}{f' (SHA-256 {stage.sha256})' if stage.sha256 else ''}"
        if stage.run is None:
            yield f"rows of {stage.stage}", "they are not kept any more"
        if stage.why_blocked is not None:
            yield f"{stage.stage} waits", stage.why_blocked
    for told in found.notifications:
        yield f"{told.news} told", _told(told)


def _told(told: "NotificationStatus") -> str:
    if told.taken_at is not None:
        return local(told.taken_at, "UTC")
    if told.given_up_at is not None:
        return f"to nobody, and given up: {told.problem}"
    tried = f", after {counted(told.tries, 'try', 'tries')}: {told.problem}" if told.tries else ""
    return f"to nobody yet{tried}"


def _stage_row(stage: "StageStatus") -> Iterable[str]:
    figures = (stage.rows_in, stage.waiting, stage.outstanding, stage.done, stage.failed, stage.reused)
    speed = "-" if not stage.jobs_per_s else f"{stage.jobs_per_s:,.1f}/s"
    left = "-" if stage.eta_s is None else rough_duration(int(stage.eta_s * SECOND_US))
    name = stage.stage if stage.run is None else stage.run.rpartition("/")[2]  # with the number of a rerun
    return name, *(f"{n:,}" for n in figures), speed, left


def show_lineage(found: "Lineage", *, as_json: bool) -> None:
    """Prints what a row was made of, and what has become of it."""
    if as_json:
        streams.put_json(found)
        return
    headings = ("STAGE", "ROW", "STATE", "MADE OF", "BECAME")
    tables.put_parts(tables.columns(headings, map(_relative, found.rows)))
    if told := [(f"{row.stage} {row.custom_id}", said) for row in found.rows if (said := _reused(row))]:
        tables.put_parts(tables.lines(told))
    if not found.is_all:
        streams.warn(f"there are more rows than these {len(found.rows):,}")


def _reused(row: "RowOfFlow") -> str:
    if row.reused is not None:
        return f"has the result of {row.reused.custom_id} of {row.reused.run}"
    return f"was sent: {row.not_reused}" if row.not_reused else ""


def _relative(row: "RowOfFlow") -> Iterable[str]:
    state = f"{row.state} ({row.class_})" if row.class_ else row.state
    became = "" if row.became is None else f"{row.became:,} {'row' if row.became == 1 else 'rows'}"
    made_of = [*row.made_of, *([f"{row.of_others:,} more"] if row.of_others else [])]
    return row.stage, row.custom_id, state, ", ".join(made_of) or "the input", became
