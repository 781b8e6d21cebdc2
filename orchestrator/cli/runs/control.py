"""`orchestrator pause`, `unpause`, `cancel`, `runs priority`, `runs resend`: what can be asked of a run that goes on.

The first three are verbs of `orchestrator runs`, too.
"""

from collections.abc import Mapping
from typing import Annotated, Final

import typer

from orchestrator.api.runs.keyword_options import grace_of
from orchestrator.cli.framework import flags
from orchestrator.cli.framework.runner import at_ledger
from orchestrator.cli.framework.service_access import Yes, confirm
from orchestrator.cli.output import streams
from orchestrator.cli.output.status_texts import finished
from orchestrator.core.limits.fair_share import PRIORITY_MAX, PRIORITY_MIN
from orchestrator.core.pipelines.flow_lifecycle import ENDED
from orchestrator.core.text.wording import counted
from orchestrator.errors import UsageError
from orchestrator.settings import command_flags
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.settings.command_requests import ControlAction
from orchestrator.views.status import RunControl

Weight = Annotated[
    int, typer.Argument(metavar="N", min=PRIORITY_MIN, max=PRIORITY_MAX, help="The weight: from -10 (least) to 10.")
]

Grace = Annotated[str | None, flags.option(command_flags.GRACE, command_flags.GRACE.help)]

Outstanding = Annotated[
    bool, typer.Option("--outstanding", metavar="", help="What the service has accepted and not finished.")
]

TAKES_NEGATIVE: Final = {"ignore_unknown_options": True}
"""For a command that takes -5, which is no option."""

_DONE: Final = {ControlAction.PAUSE: "paused", ControlAction.CONTINUE: "to continue", ControlAction.CANCEL: "cancelled"}


JSON: Final = "How the run stands, as JSON."

_shared = at_ledger(JSON)


@_shared
async def pause(name: flags.RunName, *, ledger: LedgerAddress, as_json: bool) -> None:
    """Send no more jobs of a run.

    What is at the service is still collected.

    Example: orchestrator pause prompts
    """
    await _control(ledger, name, ControlAction.PAUSE, as_json=as_json)


@_shared
async def unpause(name: flags.RunName, *, ledger: LedgerAddress, as_json: bool) -> None:
    """Lift a pause, or end the cancelling of a run.

    Example: orchestrator unpause prompts
    """
    await _control(ledger, name, ControlAction.CONTINUE, as_json=as_json)


@_shared
async def cancel(
    name: flags.RunName, grace: Grace = None, yes: Yes = False, *, ledger: LedgerAddress, as_json: bool
) -> None:
    """Cancel what a run has not finished, here and at the service.

    Results that still arrive count.

    Example: orchestrator cancel prompts
    """
    from orchestrator.api.flows.flows import flow_called
    from orchestrator.api.inspect.status import show

    grace_us = grace_of(grace, str)
    if (flow := await flow_called(ledger, name)) is not None:
        name = flow.name
        if flow.state not in ENDED:
            confirm(f"cancel {name}, which is {flow.state}, with its runs?", yes=yes)
    else:
        run = await show(ledger, name)
        name = run.run
        if finished(run.jobs) < run.jobs["total"]:
            confirm(f"cancel {name}: {unfinished_text(run.jobs)}?", yes=yes)
    await _control(ledger, name, ControlAction.CANCEL, grace_us=grace_us, as_json=as_json)


async def _control(
    ledger: LedgerAddress, name: str, action: ControlAction, *, grace_us: int = 0, as_json: bool
) -> None:
    from orchestrator.api.runs.process_commands import control

    found = await control(ledger, name, action, grace_us=grace_us)
    show_control(found, _DONE[action], verb=action, as_json=as_json)


@_shared
async def priority(name: flags.RunName, weight: Weight, *, ledger: LedgerAddress, as_json: bool) -> None:
    """Give a run another weight beside the other runs of its endpoint.

    Example: orchestrator runs priority prompts 5
    """
    from orchestrator.api.runs.process_commands import prioritize

    show_control(await prioritize(ledger, name, weight), f"of priority {weight}", as_json=as_json)


def unfinished_text(jobs: Mapping[str, int]) -> str:
    """How many jobs have no outcome yet, by where they are."""
    at_service = jobs["submitting"] + jobs["uncertain"] + jobs["outstanding"]
    return f"{jobs['queued']:,} queued and {at_service:,} at the service have no outcome yet"


@_shared
async def resend(
    name: flags.RunName, outstanding: Outstanding = False, yes: Yes = False, *, ledger: LedgerAddress, as_json: bool
) -> None:
    """Send jobs anew that the service has no more, after a purge or where an endpoint was made again.

    Example: orchestrator runs resend prompts --outstanding
    """
    from orchestrator.api.inspect.status import show
    from orchestrator.api.runs.process_commands import resend

    if not outstanding:
        raise UsageError("say what is to be sent anew: --outstanding")
    run = await show(ledger, name)
    if not (number := run.jobs["outstanding"]):
        if as_json:
            streams.put_json(run)
        streams.say(f"{run.run} has no outstanding jobs; nothing to resend")
        return
    each = (
        "it is paid twice if the service still has it"
        if number == 1
        else "each that the service still has is paid twice"
    )
    confirm(f"send {counted(number, 'outstanding job')} of {run.run} anew; {each}?", yes=yes)
    show_control(await resend(ledger, run.run), "to send them anew", as_json=as_json)


def show_control(found: RunControl, done: str, *, as_json: bool, verb: str = "do") -> None:
    """Prints what came of asking."""
    if as_json:
        streams.put_json(found)
    if found.has_ended:
        streams.say(f"{found.run} has finished; nothing to {verb}")
    else:
        streams.say(f"{found.run} is {done}; {acknowledgement(found.holder, found.outcome, so_far=found.so_far)}")


def when_set(held_by: str | None, outcome: str | None) -> str:
    """When what was set in the ledger holds: what comes of it at once is for whoever works on the ledger to say."""
    return "they hold from the next start" if held_by is None else acknowledgement(held_by, outcome)


def acknowledgement(held_by: str | None, outcome: str | None, *, so_far: int | None = None) -> str:
    """What whoever works on the ledger makes of what was asked, if anybody does; `so_far`: of how many jobs by now."""
    begun = "" if so_far is None else f"{counted(so_far, 'job')} so far"
    if held_by is None:
        told = outcome or begun
        return f"it holds from the next start{f': {told}' if told else ''}"
    if outcome is None and begun:
        return f"{held_by} has begun: {begun}, and it goes on"
    if outcome is None:
        return f"{held_by} has not answered yet, and will follow once it does"
    return f"{held_by} follows: {outcome}"
