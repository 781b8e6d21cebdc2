"""What is asked of an endpoint: other limits, or those that its runs were started with."""

from orchestrator.api.actions.proposal import GoneError, Proposal, ProposalRequest, typed_command
from orchestrator.api.actions.run_proposals import run_meant
from orchestrator.api.admin.limits import limits_reset, limits_set
from orchestrator.core.limits.limit_text import format_limit, parse_limit
from orchestrator.core.limits.rate_pacer import CONTRACT_LIMITS, Limit, Operation
from orchestrator.ledger.actions.action_rows import Act, SubjectKind
from orchestrator.ledger.commands.command_types import Action
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings import run_request
from orchestrator.views.actions import AskedField


async def set_limits(request: ProposalRequest) -> Proposal:
    """Other limits for some operations."""
    return await _set(request, await _run_at(request))


async def set_limits_of_run(request: ProposalRequest) -> Proposal:
    """The same of the endpoint of a run."""
    return await _set(request, await run_meant(request.ledger, request.number))


async def _set(request: ProposalRequest, run: Run) -> Proposal:
    now = await _limits_now(request, run.endpoint_id)
    chosen: dict[Operation, Limit] = {}
    problem = ""
    for operation, was in now.items():
        text = request.text(operation)
        if text and text != was:
            try:
                read, limit = parse_limit(f"{operation}={text}")
                chosen[read] = limit
            except ValueError as error:
                problem = str(error)
    if request.is_on("confirmed") and not chosen and not problem:
        problem = "Nothing was changed."
    words = [format_limit(operation, limit) for operation, limit in chosen.items()]
    return Proposal(
        act=_act(run, Action.LIMITS_SET),
        do=lambda given: limits_set(request.path, run.name, chosen, given, endpoint=run.endpoint),
        title=f"Other limits for {run.endpoint}?",
        button="Set them",
        command=typed_command(request.path, "limits", "set", run.name, *words, *_elsewhere(run)),
        says=("Whoever works on it takes them on within a second; they stay until they are reset.",),
        paid="Nothing by itself: requests leave more slowly, or faster.",
        inputs=tuple(
            AskedField(
                name=operation,
                label=f"/{operation}",
                value=request.text(operation) or was,
                note=f"Requests/seconds:at once; it is {was}.",
            )
            for operation, was in now.items()
        ),
        problem=problem,
    )


async def reset_limits(request: ProposalRequest) -> Proposal:
    """What was set is forgotten."""
    run = await _run_at(request)
    chosen = sorted((await request.ledger.runs.limits.all()).get(request.number, {}))
    return Proposal(
        act=_act(run, Action.LIMITS_RESET),
        do=lambda given: limits_reset(request.path, run.name, (), given, endpoint=run.endpoint),
        title=f"Reset the limits of {run.endpoint}?",
        button="Reset them",
        command=typed_command(request.path, "limits", "reset", run.name, *_elsewhere(run)),
        says=("They are again those that its runs were started with.",),
        problem="" if chosen else "No limit of it was set: there is nothing to reset.",
    )


async def _run_at(request: ProposalRequest) -> Run:
    """A run as it is at that endpoint, the latest one. Raises `UsageError` where there is none."""
    runs = [*await request.ledger.runs.elsewhere(), *await request.ledger.runs.all()]
    there = [run for run in runs if run.endpoint_id == request.number and run.accepted]
    if not there:
        raise GoneError(f"No run of this ledger is at endpoint {request.number}.")
    return there[-1]


async def _limits_now(request: ProposalRequest, endpoint: int) -> dict[Operation, str]:
    chosen = (await request.ledger.runs.limits.all()).get(endpoint, {})
    limits = {each: chosen[each].limit if each in chosen else CONTRACT_LIMITS[each] for each in Operation}
    return {each: format_limit(each, limit).partition("=")[2] for each, limit in limits.items()}


def _act(run: Run, action: Action) -> Act:
    return Act(verb=action.value, subject=SubjectKind.ENDPOINT, number=run.endpoint_id, name=run.endpoint)


def _elsewhere(run: Run) -> tuple[str, str]:
    return str(run_request.ENDPOINT), run.endpoint
