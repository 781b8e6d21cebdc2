"""What is asked of a pipeline: to fire now, flows for past fires, its schedule to pause or to go on."""

from typing import Final

from orchestrator.api.actions.proposal import FREE, GoneError, Proposal, ProposalRequest, typed_command
from orchestrator.api.flows.schedule_changes import schedules_continue, schedules_pause
from orchestrator.api.flows.triggers import BackfillFires, backfill, fires_meant, trigger
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.text.local_time import local
from orchestrator.core.text.wording import counted
from orchestrator.errors import UsageError
from orchestrator.ledger.actions.action_rows import Act, SubjectKind, Verb
from orchestrator.ledger.flows.pipelines import Defined
from orchestrator.settings.command_flags import NOTE
from orchestrator.views.actions import AskedField

PARALLEL_MAX: Final = 1_000
SAMPLE: Final = 5


async def fire_now(request: ProposalRequest) -> Proposal:
    """A flow of it for now, or for another time."""
    of = await _pipeline_of(request)
    at = request.text("at")
    zone = _zone(of)
    stages = [each.name for each in of.pipeline.stages]
    return Proposal(
        act=_act(of, Verb.FIRE),
        do=lambda given: trigger(request.path, of.name, at or None, given),
        title=f"Fire {of.name} now?",
        button="Fire it",
        command=typed_command(request.path, "trigger", of.name, *(["--at", at] if at else [])),
        says=(f"One flow of it is made, for {at or 'now'}: {', '.join(stages)}. The schedule is not touched.",),
        paid=await _paid(request, of, 1),
        when=_begins(request),
        inputs=(
            AskedField(name="at", label="For the time", value=at, note=f"Empty: now. As 2027-03-29T02:30, in {zone}."),
        ),
    )


async def make_up(request: ProposalRequest) -> Proposal:
    """Flows for the fires of a past time."""
    of = await _pipeline_of(request)
    since, until = request.text("from"), request.text("to")
    again, parallel_text = request.is_on("again"), request.text("parallel") or "1"
    problem, fires = "", BackfillFires(pipeline=of.name, fires=(), known=0, zone=_zone(of))
    if since and until:
        try:
            fires = await fires_meant(request.ledger, of.name, (since, until), ("From", "To"))
        except UsageError as error:
            problem = error.message
    parallel = int(parallel_text) if parallel_text.isascii() and parallel_text.isdigit() else 0
    if not 1 <= parallel <= PARALLEL_MAX:
        problem = f"At once: a whole number from 1 to {PARALLEL_MAX:,}, not {parallel_text}."
    new = len(fires.fires) if again else len(fires.fires) - fires.known
    if since and until and not problem and not new:
        problem = f"All {fires.known:,} fires of this time have a flow." if fires.known else "There is no fire in it."
    known = f" {fires.known:,} of them have a flow already." if fires.known else ""
    flags = ["--parallel", str(parallel), *(["--again"] if again else [])]
    return Proposal(
        act=_act(of, Verb.BACKFILL),
        do=lambda given: backfill(request.path, fires, parallel=parallel, again=again, dependencies=given),
        title=f"Make up for fires of {of.name}?",
        button=f"Begin {counted(new, 'flow')}" if new else "Count them",
        command=typed_command(request.path, "backfill", of.name, "--from", since or "T", "--to", until or "T", *flags),
        says=(f"Its flows come behind those of the schedule, {counted(parallel, 'flow')} at once.{known}",),
        paid=await _paid(request, of, new) if new else FREE,
        when=_begins(request),
        count=new,
        of="flows",
        scope=f"{since} {until} {again}",
        sample=tuple(local(fire, fires.zone) for fire in fires.fires[:SAMPLE]),
        inputs=(
            AskedField(
                name="from", label="From", value=since, note=f"As 2027-03-01 or 2027-03-01T02:30, in {_zone(of)}."
            ),
            AskedField(name="to", label="To", value=until, note="Included."),
            AskedField(name="parallel", label="At once", value=parallel_text, kind="number"),
            AskedField(name="again", label="Also fires that have a flow", value="on" if again else "", kind="checkbox"),
        ),
        is_ready=bool(new) and not problem,
        problem=problem,
    )


async def pause_schedule(request: ProposalRequest) -> Proposal:
    """It does not fire, until then or until somebody has it go on."""
    of = await _pipeline_of(request)
    note, until = request.text("note"), request.text("until")
    flags = [str(NOTE), note or "WHY", *(["--until", until] if until else [])]
    return Proposal(
        act=_act(of, Verb.SCHEDULE_PAUSE),
        do=lambda given: schedules_pause(request.path, of.name, note, until or None, given),
        title=f"Pause the schedule of {of.name}?",
        button="Pause the schedule",
        command=typed_command(request.path, "schedules", "pause", of.name, *flags),
        says=("It does not fire. Flows that have begun go on; each of them can be paused by itself.",),
        inputs=(
            AskedField(name="note", label="Why", value=note, note="For whoever looks."),
            AskedField(
                name="until", label="Until", value=until, note=f"Empty: until somebody has it go on. In {_zone(of)}."
            ),
        ),
        problem="Say why it is paused." if request.is_on("confirmed") and not note else "",
    )


async def continue_schedule(request: ProposalRequest) -> Proposal:
    """It fires again."""
    of = await _pipeline_of(request)
    catch_up = request.is_on("catch_up")
    return Proposal(
        act=_act(of, Verb.SCHEDULE_CONTINUE),
        do=lambda given: schedules_continue(request.path, of.name, catch_up=catch_up, dependencies=given),
        title=f"Let the schedule of {of.name} go on?",
        button="Let it go on",
        command=typed_command(request.path, "schedules", "continue", of.name, *(["--catch-up"] if catch_up else [])),
        says=(f"It was paused: {of.note}" if of.note else "It is not paused, as far as is known.",),
        paid="Each flow that it begins is paid. What was due meanwhile is left out, unless it is to be made up for.",
        when=_begins(request),
        inputs=(
            AskedField(
                name="catch_up",
                label="Make up for what was due meanwhile",
                value="on" if catch_up else "",
                kind="checkbox",
            ),
        ),
    )


async def _paid(request: ProposalRequest, of: Defined, flows: int) -> str:
    """What these flows will come to, by the last one that ended."""
    each = "All of its rows are executed, and paid." if flows == 1 else "All of their rows are executed, and paid."
    ended = await request.ledger.flows.latest(1, pipeline=of.id)
    if not ended:
        return each
    stages = await request.ledger.flows.stages([ended[0].id])
    counts = await request.ledger.runs.counts_by_run([stage.run for stage in stages if stage.run is not None])
    rows = sum(sum(n for name, n in by_name.items() if name in tuple(State)) for by_name in counts.values())
    return f"{each} The latest one had {counted(rows, 'job')} in all of its stages." if rows else each


async def _pipeline_of(request: ProposalRequest) -> Defined:
    of = await request.ledger.flows.pipelines.numbered(request.number)
    if of is None:
        raise GoneError(f"There is no pipeline {request.number}.")
    return of


def _act(of: Defined, verb: Verb) -> Act:
    return Act(verb=verb, subject=SubjectKind.PIPELINE, number=of.id, name=of.name)


def _zone(of: Defined) -> str:
    return "UTC" if of.pipeline.schedule is None else of.pipeline.schedule.zone


def _begins(request: ProposalRequest) -> str:
    if request.holder is not None:
        return ""
    command = typed_command(request.path, "tick")
    return f"Nobody works on this ledger: it begins with the next orchestrator serve, or now with {command}"
