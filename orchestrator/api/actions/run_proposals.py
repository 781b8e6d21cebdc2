"""What is asked of a whole run: to pause, to go on, to be cancelled, other brakes, another priority."""

from collections.abc import Mapping

from orchestrator.api.actions.proposal import (
    FREE,
    GoneError,
    Proposal,
    ProposalRequest,
    named_resume_command,
    once_at_work,
    typed_command,
)
from orchestrator.api.admin.brakes import brakes_of, brakes_set
from orchestrator.api.pages.runs.payload_policy import are_texts_hidden
from orchestrator.api.runs.process_commands import control_run, prioritize
from orchestrator.api.runs.run_costs import run_costs
from orchestrator.core.jobs.lifecycle import State, unfinished
from orchestrator.core.limits.fair_share import PRIORITY_MAX, PRIORITY_MIN
from orchestrator.core.text.figures import money
from orchestrator.core.text.wording import counted
from orchestrator.ledger import Ledger
from orchestrator.ledger.actions.action_rows import Act, SubjectKind
from orchestrator.ledger.commands.command_types import Action
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings.command_requests import ControlAction
from orchestrator.settings.run_settings import BRAKES
from orchestrator.settings.words_and_defaults import LOCAL
from orchestrator.views.actions import AskedField
from orchestrator.views.costs import CostView


async def run_meant(ledger: Ledger, number: int) -> Run:
    """The run of that number. Raises `GoneError` where there is none."""
    found = await ledger.runs.all([number])
    if not found:
        raise GoneError(f"There is no run {number} any more.")
    return found[0]


async def pause_run(request: ProposalRequest) -> Proposal:
    """Nothing more of it is sent."""
    run, counts = await _run_of(request)
    at_service = _at_service(counts)
    return Proposal(
        act=_act(run, Action.PAUSE),
        do=lambda given: control_run(request.path, run.name, ControlAction.PAUSE, given),
        title=f"Pause {run.name}?",
        button="Pause",
        command=typed_command(request.path, "pause", run.name),
        says=(
            "Nothing more of it is sent until somebody has it go on.",
            f"What is at the service ({at_service:,}) goes on there, and is collected.",
        ),
        paid=f"Nothing new: what is at the service ({at_service:,}) is paid as before." if at_service else FREE,
    )


async def continue_run(request: ProposalRequest) -> Proposal:
    """It goes on after a pause, or is not to be cancelled any more."""
    run, counts = await _run_of(request)
    controls = await request.ledger.runs.controls(run.id)
    was = "paused" if controls.pause else "to be cancelled" if controls.cancel else "held, or neither"
    return Proposal(
        act=_act(run, Action.CONTINUE),
        do=lambda given: control_run(request.path, run.name, ControlAction.CONTINUE, given),
        title=f"Let {run.name} go on?",
        button="Let it go on",
        command=typed_command(request.path, "unpause", run.name),
        says=(f"It is {was}.", f"{counted(counts.get(State.QUEUED, 0), 'queued job')} will be sent."),
        paid=await _to_come(request, run, counts),
        when=await _sending(request, run),
    )


async def release_run(request: ProposalRequest) -> Proposal:
    """It goes on though its breaker, its canary or `max-failures` holds it."""
    run, counts = await _run_of(request)
    stands = await brakes_of(request.ledger, run)
    why = stands.breaker_why or stands.why_blocked
    if why and are_texts_hidden(request.shows):  # it may repeat what a worker said
        why = "its page says by what"
    cause = (f"It is held: {why}",) if why else ("Nothing that is known now holds it.",)
    return Proposal(
        act=_act(run, Action.CONTINUE),
        do=lambda given: control_run(request.path, run.name, ControlAction.CONTINUE, given),
        title=f"Let {run.name} go on past what holds it?",
        button="Let it go on all the same",
        command=typed_command(request.path, "unpause", run.name),
        says=(
            *cause,
            "Mend the cause first: what fails for the same reason fails again.",
            f"{counted(counts.get(State.QUEUED, 0), 'queued job')} will be sent.",
        ),
        paid=await _to_come(request, run, counts),
        when=await _sending(request, run),
    )


async def cancel_run(request: ProposalRequest) -> Proposal:
    """What it has not finished is cancelled, here and at the service."""
    run, counts = await _run_of(request)
    at_service, left = _at_service(counts), unfinished(counts)
    return Proposal(
        act=_act(run, Action.CANCEL),
        do=lambda given: control_run(request.path, run.name, ControlAction.CANCEL, given),
        title=f"Cancel {run.name}?",
        button="Cancel the run",
        command=typed_command(request.path, "cancel", run.name),
        says=(
            f"{left - at_service:,} queued and {at_service:,} at the service have no outcome yet.",
            "They are cancelled, here and at the service. Results that still arrive count.",
            "What is finished stays as it is.",
        ),
        paid="What a worker has done by then is paid. Who has a cancelled job tried again later pays for it again.",
        when="" if request.holder or not at_service else once_at_work(None, await _resume(request, run)),
        count=left,
        of="jobs without an outcome",
        may_shrink=True,
        typed=run.name,
    )


async def change_priority(request: ProposalRequest) -> Proposal:
    """Another weight in the turns at its endpoint."""
    run, _ = await _run_of(request)
    given = request.text("priority") or str(run.settings.priority)
    known = {str(each): each for each in range(PRIORITY_MIN, PRIORITY_MAX + 1)}
    priority = known.get(given, run.settings.priority)
    told = f"The priority is a whole number from {PRIORITY_MIN} to {PRIORITY_MAX}, not {given}."
    problem = "" if given in known else told
    note = f"From {PRIORITY_MIN} (least) to {PRIORITY_MAX}; it is {run.settings.priority} now."
    return Proposal(
        act=_act(run, Action.PRIORITY),
        do=lambda given: prioritize(request.path, run.name, priority, given),
        title=f"Another priority for {run.name}?",
        button="Change it",
        command=typed_command(request.path, "runs", "priority", run.name, str(priority)),
        says=("It weighs its turns beside the other runs of its endpoint. Nothing else changes.",),
        inputs=(AskedField(name="priority", label="Priority", value=given, note=note),),
        problem=problem,
    )


async def change_brakes(request: ProposalRequest) -> Proposal:
    """Other brakes: those that the form says otherwise than they are."""
    run, _ = await _run_of(request)
    now = (await brakes_of(request.ledger, run)).settings
    changed = {key: request.text(key) for key in now if request.text(key) not in ("", now[key])}
    problem = ""
    for each in BRAKES:
        if each.key in changed:
            try:
                each.value_type.read((changed[each.key],))
            except ValueError as error:
                problem = f"{each.key}: {error}"
    if request.is_on("confirmed") and not changed and not problem:
        problem = "Nothing was changed."
    flags = [word for key, value in changed.items() for word in (f"--{key}", value)]
    return Proposal(
        act=_act(run, Action.BRAKES),
        do=lambda given: brakes_set(request.path, run.name, changed, given),
        title=f"Other brakes for {run.name}?",
        button="Change them",
        command=typed_command(request.path, "brakes", "set", run.name, *flags),
        says=("Whoever works on it goes by them within a second; “off” takes one away.",),
        paid="Looser brakes let more be sent, and paid; tighter ones stop it earlier.",
        inputs=tuple(
            AskedField(name=key, label=key, value=request.text(key) or value, note=f"It is {value}.")
            for key, value in now.items()
        ),
        problem=problem,
    )


async def _run_of(request: ProposalRequest) -> tuple[Run, Mapping[str, int]]:
    run = await run_meant(request.ledger, request.number)
    return run, await request.ledger.runs.counts(run.id)


def _act(run: Run, action: Action) -> Act:
    return Act(verb=action.value, subject=SubjectKind.RUN, number=run.id, name=run.name)


def _at_service(counts: Mapping[str, int]) -> int:
    return sum(counts.get(state, 0) for state in (State.SUBMITTING, State.UNCERTAIN, State.OUTSTANDING))


async def _to_come(request: ProposalRequest, run: Run, counts: Mapping[str, int]) -> str:
    """What is paid where it goes on."""
    if run.service_url == LOCAL:
        return "Nothing is paid: it runs on this machine."
    each = "Each job that is sent is paid."
    costs = await run_costs(request.ledger, run, counts)
    if costs.spent is None or costs.at_end is None:
        return each
    left = CostView(amount=costs.at_end.amount - costs.spent.amount, error=costs.at_end.error)
    return f"{each} As it went so far, what is left will come to about {money(left.amount)}."


async def _sending(request: ProposalRequest, run: Run) -> str:
    """When it is sent, where nobody works."""
    if request.holder is not None:
        return ""
    return f"Nobody works on this ledger: nothing is sent before somebody does: {await _resume(request, run)}"


async def _resume(request: ProposalRequest, run: Run) -> str:
    return await named_resume_command(request.ledger, run.id, run.name)
