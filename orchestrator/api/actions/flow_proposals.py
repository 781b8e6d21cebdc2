"""What is asked of a flow: to pause, to go on, to be cancelled, or to be carried out again from a stage on."""

from typing import Final

from orchestrator.api.actions.proposal import GoneError, Proposal, ProposalRequest, typed_command
from orchestrator.api.flows.triggers import flow_rerun
from orchestrator.api.runs.process_commands import control
from orchestrator.core.jobs.lifecycle import State, unfinished
from orchestrator.core.pipelines.flow_lifecycle import LIVE
from orchestrator.core.pipelines.stage_graph import ancestors
from orchestrator.core.text.wording import counted
from orchestrator.errors import UsageError
from orchestrator.ledger.actions.action_rows import Act, SubjectKind, Verb
from orchestrator.ledger.flows.flow_rows import Flow
from orchestrator.settings.command_requests import ControlAction
from orchestrator.views.actions import AskedField


async def pause_flow(request: ProposalRequest) -> Proposal:
    """Nothing more of it is sent."""
    flow = await _flow_of(request)
    return Proposal(
        act=_act(flow, Verb.PAUSE),
        do=lambda given: control(request.path, flow.name, ControlAction.PAUSE, given),
        title=f"Pause {flow.name}?",
        button="Pause",
        command=typed_command(request.path, "pause", flow.name),
        says=("Nothing more of its stages is sent; what is at the service is collected.",),
        paid="Nothing new: what is at the service is paid as before.",
    )


async def continue_flow(request: ProposalRequest) -> Proposal:
    """It goes on, and its runs with it, past what holds them."""
    flow = await _flow_of(request)
    why = (f"It is held: {flow.why}",) if flow.why else ()
    return Proposal(
        act=_act(flow, Verb.CONTINUE),
        do=lambda given: control(request.path, flow.name, ControlAction.CONTINUE, given),
        title=f"Let {flow.name} go on?",
        button="Let it go on",
        command=typed_command(request.path, "unpause", flow.name),
        says=(*why, "Its runs go on past their brakes, too. Mend the cause first, where there is one."),
        paid="Each job that is sent is paid.",
        when=_begins(request),
    )


async def cancel_flow(request: ProposalRequest) -> Proposal:
    """It is cancelled with its runs."""
    flow = await _flow_of(request)
    stages = await request.ledger.flows.stages([flow.id])
    counts = await request.ledger.runs.counts_by_run([each.run for each in stages if each.run is not None])
    return Proposal(
        act=_act(flow, Verb.CANCEL),
        do=lambda given: control(request.path, flow.name, ControlAction.CANCEL, given),
        title=f"Cancel {flow.name}?",
        button="Cancel the flow",
        command=typed_command(request.path, "cancel", flow.name),
        says=(
            "What its stages have not finished is cancelled, here and at the service; results that still arrive count.",
            "Stages that have not begun do not begin.",
        ),
        paid="What a worker has done by then is paid. A rerun pays again for what is cancelled now.",
        count=sum(unfinished(each) for each in counts.values()),
        of="jobs without an outcome",
        may_shrink=True,
        typed=flow.name,
        problem="" if flow.state in LIVE else f"It has ended: it is {flow.state}.",
    )


async def rerun_flow(request: ProposalRequest) -> Proposal:
    """It goes on with new runs from a stage on, of all rows or, where nothing else is said, of those that failed."""
    flow = await _flow_of(request)
    [pipeline] = (await request.ledger.flows.pipelines.definitions([flow.definition])).values()
    names = [each.name for each in pipeline.stages]
    stage = request.text("stage") or names[0]
    if stage not in names:
        raise UsageError(f"{flow.name} has no stage {stage}; it has {', '.join(names)}")
    again = [each for each in names if each == stage or stage in ancestors(pipeline.stages, each)]
    without = await _rows_again(request, flow, again, only_failed=True)
    failed = (request.text("rows") or (ONLY_FAILED if without else ALL)) == ONLY_FAILED
    count = without if failed else await _rows_again(request, flow, again, only_failed=False)
    ended = flow.state not in LIVE
    return Proposal(
        act=_act(flow, Verb.RERUN),
        do=lambda given: flow_rerun(request.path, flow.name, stage, only_failed=failed, dependencies=given),
        title=f"Carry {flow.name} out again from {stage} on?",
        button=f"Again from {stage} on",
        command=typed_command(
            request.path, "flows", "rerun", flow.name, "--from", stage, *(["--failed"] if failed else [])
        ),
        says=(
            f"It goes on with new runs of {', '.join(again)}; the old ones stay as they are.",
            "What has succeeded with the same input is taken over." if failed else "All of their rows are done again.",
        ),
        paid=_paid_again(count, only_failed=failed),
        when=_begins(request),
        count=count,
        scope=f"{stage} {failed}",
        of="rows that these stages had" if not failed else "rows without a result",
        inputs=(
            AskedField(name="stage", label="From stage", value=stage, kind="select", choices=tuple(names)),
            AskedField(
                name="rows",
                label="Which rows",
                note="failed: those without a result; all: whatever came of them.",
                value=ONLY_FAILED if failed else ALL,
                kind="select",
                choices=(ONLY_FAILED, ALL),
            ),
        ),
        problem="" if ended else f"It has not ended: it is {flow.state}. Wait until it has, or cancel it first.",
    )


ONLY_FAILED: Final = "failed"
ALL: Final = "all"
"""Which rows are done again, as a form has it."""

NO_RESULT: Final = (State.FAILED, State.CANCELLED)


async def _rows_again(request: ProposalRequest, flow: Flow, again: list[str], *, only_failed: bool) -> int:
    """How many rows the latest runs of these stages have, or have without a result."""
    latest = {each.stage: each for each in await request.ledger.flows.stages([flow.id])}
    runs = [each.run for name in again if (each := latest.get(name)) is not None and each.run is not None]
    counts = (await request.ledger.runs.counts_by_run(runs)).values()
    states = NO_RESULT if only_failed else tuple(State)
    return sum(each.get(state, 0) for each in counts for state in states)


def _paid_again(count: int, *, only_failed: bool) -> str:
    if only_failed:
        return f"{counted(count, 'row')} without a result, and whatever comes of them in later stages, are paid again."
    return f"All {counted(count, 'row')} of these stages are executed, and paid, again."


async def _flow_of(request: ProposalRequest) -> Flow:
    flow = await request.ledger.flows.numbered(request.number)
    if flow is None:
        raise GoneError(f"There is no flow {request.number} any more.")
    return flow


def _act(flow: Flow, verb: Verb) -> Act:
    return Act(verb=verb, subject=SubjectKind.FLOW, number=flow.id, name=flow.name)


def _begins(request: ProposalRequest) -> str:
    if request.holder is not None:
        return ""
    command = typed_command(request.path, "tick")
    return f"Nobody works on this ledger: it goes on with the next orchestrator serve, or now with {command}"
