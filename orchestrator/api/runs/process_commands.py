"""Asks something of whoever works on a ledger (pause, cancel, retry, resend, another endpoint), and what came of it."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final

import msgspec

from orchestrator.api.runs.job_progress import resumable
from orchestrator.api.runs.run_lookup import run_named
from orchestrator.core.pipelines.flow_lifecycle import LIVE, FlowState
from orchestrator.core.pools.member import is_member
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.ports.local_endpoints import absolute_endpoint, is_local
from orchestrator.errors import LedgerBusyError, UsageError
from orchestrator.ledger import Ledger, command_ledger
from orchestrator.ledger.actions.action_rows import Act, Ended, SubjectKind
from orchestrator.ledger.actions.asker import Asker
from orchestrator.ledger.commands.command_repository import ANSWER_S
from orchestrator.ledger.commands.command_types import (
    NOT_TAKEN_IN,
    Action,
    Argument,
    CancelledJobs,
    CancelledRun,
    Command,
    NewEndpoint,
    NewPriority,
    ReplyCode,
)
from orchestrator.ledger.commands.ledger_changes import LEDGER_CHANGES
from orchestrator.ledger.flows.flow_rows import Flow
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings import run_request
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.settings.command_requests import ControlAction, RetryChoice
from orchestrator.settings.words_and_defaults import IN_FLIGHT_S_MAX, POOL
from orchestrator.views.status import RunControl

REBOUND_S_MAX: Final = ANSWER_S + IN_FLIGHT_S_MAX
"""How long it may take to give a run another endpoint: requests under way are waited for."""


_ADVICE: Final[Mapping[ReplyCode | None, str]] = {
    ReplyCode.JOBS_AT_SERVICE: "; delete it once they have ended (orchestrator cancel gives them up)",
    ReplyCode.PODS_PAID: "; whoever works on the ledger ends it within minutes once the run has nothing to do"
    " (orchestrator cancel); delete the run then",
}


class Acknowledged(msgspec.Struct, frozen=True, kw_only=True):
    """What came of asking for something."""

    by: str | None
    """Who carries it out: whoever has the endpoint that it is about, else whoever works on the ledger; None where
    nobody does.
    """

    outcome: str | None
    """None while nobody has acknowledged it."""

    code: ReplyCode | None = None

    so_far: int | None = None
    """How many jobs it has changed, where it was begun and is not done."""


async def control(
    ledger: LedgerAddress,
    name: str,
    action: ControlAction,
    dependencies: Dependencies | None = None,
    *,
    grace_us: int = 0,
) -> RunControl:
    """Asks `action` of the run `name`, or of the flow of that name with its runs. To be cancelled, the resumable jobs
    of a run may take so long to their next checkpoint.

    Raises `UsageError` where there is no such run, and for a grace where its jobs are not resumable.
    """
    async with beside(ledger, dependencies) as opened:
        if (flow := await opened.flows.named(name)) is not None:
            if grace_us:
                raise UsageError(f"{name} is a flow; time to the next checkpoint is given to one of its runs")
            return await control_flow(opened, flow, action, asker_of(dependencies))
    return await control_run(ledger, name, action, dependencies, grace_us=grace_us)


async def control_run(
    ledger: LedgerAddress,
    name: str,
    action: ControlAction,
    dependencies: Dependencies | None = None,
    *,
    grace_us: int = 0,
) -> RunControl:
    """The same of a run, whatever flows are called."""
    argument = CancelledRun(grace_us) if grace_us else None
    return await _control(ledger, name, dependencies, Action(action.value), argument)


async def control_flow(ledger: Ledger, flow: Flow, action: ControlAction, asked: Asker) -> RunControl:
    """Whoever works on the ledger sees what was `asked` of the flow in its rows. Raises `UsageError` where it cannot be
    done, which is written, too.
    """
    act = Act(verb=action.value, subject=SubjectKind.FLOW, number=flow.id, name=flow.name)
    async with refusals_noted(ledger, asked, act):
        found = await _control_flow(ledger, flow, action, asked)
    if found.has_ended:
        await ledger.actions.note(asked, act, Ended(f"it had ended, and is {flow.state}"))
    return found


async def _control_flow(ledger: Ledger, flow: Flow, action: ControlAction, asked: Asker) -> RunControl:
    if action is ControlAction.PAUSE:
        done = await ledger.flows.pause(flow.id, f"paused by {asked.name}", asked=asked)
    elif action is ControlAction.CANCEL:
        done = await ledger.flows.cancel(flow.id, f"cancelled by {asked.name}", asked=asked)
    else:
        done = await ledger.flows.proceed(flow.id, asked=asked)
    now = await ledger.flows.named(flow.name)
    assert now is not None
    has_ended = now.state not in LIVE and not done
    if not done and not has_ended:
        raise UsageError(f"{flow.name} is {now.state}: {_CANNOT[action]}")
    return RunControl(
        run=flow.name,
        paused=now.state is FlowState.ON_HOLD,
        cancelled=now.is_cancelled or now.state is FlowState.CANCELLED,
        holder=await ledger.holder(),
        outcome=f"the flow is {now.state}{', and ends once its runs have' if now.is_cancelled else ''}",
        has_ended=has_ended,
    )


_CANNOT: Final = {
    ControlAction.PAUSE: "only a flow that runs can be paused; one that waits can be cancelled",
    ControlAction.CONTINUE: "only a flow that is held can be continued",
    ControlAction.CANCEL: "it is being cancelled already",
}


async def prioritize(
    ledger: LedgerAddress, name: str, priority: int, dependencies: Dependencies | None = None
) -> RunControl:
    """Gives the run `name` another weight in the turns at its endpoint. Raises like `control`."""
    return await _control(ledger, name, dependencies, Action.PRIORITY, NewPriority(priority))


async def retry(
    ledger: LedgerAddress, name: str, dependencies: Dependencies | None = None, *, chosen: RetryChoice | None = None
) -> RunControl:
    """Asks for the failed and cancelled jobs of the run `name` to be queued again, or for those that are `chosen`, with
    settings of their own. Raises like `control`, and `UsageError` for what the service would refuse.
    """
    return await _control(ledger, name, dependencies, Action.RETRY, chosen or RetryChoice())


async def resend(ledger: LedgerAddress, name: str, dependencies: Dependencies | None = None) -> RunControl:
    """Asks for the outstanding jobs of the run `name` to be sent anew, since the service has them no more.

    Raises like `control`.
    """
    return await _control(ledger, name, dependencies, Action.RESEND)


async def cancel_jobs(
    ledger: LedgerAddress, name: str, where: str, dependencies: Dependencies | None = None
) -> RunControl:
    """Asks for the unfinished jobs of the run `name` that the filter `where` means to be cancelled. Raises like
    `control`.
    """
    return await _control(ledger, name, dependencies, Action.CANCEL_JOBS, CancelledJobs(where))


async def rebind(
    ledger: Ledger, run: Run, service_url: str, endpoint: str, *, wake: Callable[[], None] = lambda: None
) -> None:
    """Has whoever works give `run` another endpoint.

    Raises `UsageError` where the former may have taken a job of it, and `LedgerBusyError` where nobody answers.
    """
    there = NewEndpoint(service_url, endpoint)
    done = await ask_process(ledger, Action.REBIND, run=run.id, argument=there, wake=wake, within_s=REBOUND_S_MAX)
    if done.outcome is None or done.code is ReplyCode.ASKED_ANOTHER:
        raise LedgerBusyError(
            f"{done.by or 'the process that works on this ledger'} has not answered whether {run.name} can be given the"
            f" endpoint {endpoint}; try again in a moment"
        )


def asker_of(dependencies: Dependencies | None) -> Asker:
    """Who asks: without anything else the command line."""
    return (dependencies or Dependencies()).asked


@asynccontextmanager
async def refusals_noted(ledger: Ledger, asked: Asker, act: Act) -> AsyncIterator[None]:
    """Writes that `act` was refused, where the block raises `UsageError`, which goes on."""
    try:
        yield
    except UsageError as error:
        await ledger.actions.note(asked, act, Ended(error.message, is_refused=True))
        raise


def beside(ledger: LedgerAddress, dependencies: Dependencies | None) -> AbstractAsyncContextManager[Ledger]:
    """The ledger, opened as `dependencies` say, to leave a word in. Raises like `command_ledger`."""
    given = dependencies or Dependencies()
    return command_ledger(ledger, clock=given.clock, connect=given.connect_to(ledger))


def _single_endpoint(run: Run, endpoint: str) -> str:
    """The endpoint at which jobs of `run` are to be tried again, as the ledger has it. Raises `UsageError`."""
    members = run.settings.members
    known = ", ".join(each.endpoint for each in members) or run.endpoint
    if endpoint.startswith(POOL) or "," in endpoint:
        raise UsageError(
            f"{run_request.ENDPOINT} {endpoint}: jobs are tried again at one endpoint; {run.name} has {known}"
        )
    if not is_local(endpoint):
        return endpoint
    function = absolute_endpoint(endpoint)
    if function != run.endpoint and not is_member(function, members):
        raise UsageError(f"{run_request.ENDPOINT} {endpoint} is no member of the pool of {run.name}, which has {known}")
    return function


async def _control(
    ledger: LedgerAddress,
    name: str,
    dependencies: Dependencies | None,
    action: Action,
    argument: Argument | None = None,
) -> RunControl:
    async with beside(ledger, dependencies) as opened:
        run = await run_named(opened, name, not_accepted=True)
        if not run.accepted:  # it may be refused yet, and then it is gone with all that was asked of it
            raise UsageError(f"{run.name}: {NOT_TAKEN_IN}")
        if isinstance(argument, CancelledRun):
            resumable(run)
        if isinstance(argument, RetryChoice) and argument.endpoint is not None:
            argument = msgspec.structs.replace(argument, endpoint=_single_endpoint(run, argument.endpoint))
        acknowledged = await ask_process(opened, action, run=run.id, argument=argument, asked=asker_of(dependencies))
        controls = await opened.runs.controls(run.id)
        return RunControl(
            run=run.name,
            paused=controls.pause,
            cancelled=controls.cancel,
            holder=acknowledged.by,
            outcome=acknowledged.outcome,
            so_far=acknowledged.so_far,
            has_ended=acknowledged.code is ReplyCode.HAD_ENDED,
            flow=None if (part := await opened.flows.part(run.id)) is None else part.flow,
        )


async def ask_process(
    ledger: Ledger,
    action: Action,
    *,
    run: int | None = None,
    endpoint: int | None = None,
    argument: Argument | None = None,
    asked: Asker | None = None,
    wake: Callable[[], None] = lambda: None,
    within_s: float = ANSWER_S,
) -> Acknowledged:
    """Asks whoever works on the ledger, or at the endpoint of the `run`, and waits `within_s` seconds for the
    acknowledgement. What is somebody's wish, who `asked`, is written as an action. `wake` is called once it is asked:
    an engine of this program's notices only by itself what others ask.

    Where nobody is there to do it, what only changes the ledger is done here; the rest waits for the next process.
    Where others work on the ledger it is waited for all the same: one of them may be about to take that part. Raises
    `UsageError` for what is refused, but for what concerned another process alone, which has ended, and `AskedBefore`.
    """
    number = await ledger.commands.ask(action, run=run, endpoint=endpoint, argument=argument, asked=asked)
    wake()
    command = await ledger.commands.one(number)
    if (held_by := await ledger.holder()) is not None:
        command = await ledger.commands.answer(number, within_s=within_s)
        held_by = await _carried_out_by(ledger, command)  # who has ended meanwhile answers no more
    if command.done_at is None and held_by is None:
        for each in await ledger.commands.pending():  # what was asked before comes first
            if each.id <= number and each.action in LEDGER_CHANGES and await _carried_out_by(ledger, each) is None:
                await ledger.commands.change_ledger(each)
        command = await ledger.commands.one(number)
    if command.is_refused and command.code is not ReplyCode.ASKED_ANOTHER:
        raise UsageError(f"{action} was refused: {command.outcome}{_ADVICE.get(command.code, '')}")
    is_begun = command.taken_at is not None and command.done_at is None
    return Acknowledged(
        by=held_by,
        outcome=command.outcome,
        code=command.code,
        so_far=command.progress if is_begun else None,
    )


async def _carried_out_by(ledger: Ledger, command: Command) -> str | None:
    """Who carries `command` out, as text for people; None if nobody does."""
    if command.at_endpoint is None:
        return await ledger.holder()
    owner = await ledger.holder(command.at_endpoint)
    return await ledger.holder() if owner is None and command.action in LEDGER_CHANGES else owner
