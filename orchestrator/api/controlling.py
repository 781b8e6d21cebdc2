"""Asking something of whoever works on a ledger, and what came of it."""

from pathlib import Path

from orchestrator.api.look import unknown_run
from orchestrator.clock import SystemClock
from orchestrator.errors import UsageError
from orchestrator.ledger import Ledger, command_ledger, holder
from orchestrator.ledger.commands import OBEYED, Action, Argument, NewPriority, Retried
from orchestrator.settings import Wish
from orchestrator.views import Acknowledged, RunControl


async def control(ledger: Path, name: str, wish: Wish) -> RunControl:
    """Asks `wish` of the run `name`. Raises `UsageError` where there is no such run."""
    return await _control(ledger, name, Action(wish.value))


async def prioritize(ledger: Path, name: str, priority: int) -> RunControl:
    """Gives the run `name` another weight in the turns at its endpoint. Raises like `control`."""
    return await _control(ledger, name, Action.PRIORITY, NewPriority(priority))


async def retry(ledger: Path, name: str) -> RunControl:
    """Asks for the failed and cancelled jobs of the run `name` to be queued again. Raises like `control`."""
    return await _control(ledger, name, Action.RETRY, Retried())


async def _control(ledger: Path, name: str, action: Action, argument: Argument | None = None) -> RunControl:
    async with command_ledger(ledger, clock=SystemClock()) as opened:
        run = await opened.runs.named(name)
        if run is None:
            raise unknown_run(name, ledger, await opened.runs.all())
        acknowledged = await asked(opened, action, run=run.id, argument=argument)
        wishes = await opened.runs.wishes(run.id)
        return RunControl(
            run=name,
            paused=wishes.pause,
            cancelled=wishes.cancel,
            held_by=acknowledged.by,
            outcome=acknowledged.outcome,
        )


async def asked(
    ledger: Ledger,
    action: Action,
    *,
    run: int | None = None,
    endpoint: int | None = None,
    argument: Argument | None = None,
) -> Acknowledged:
    """Asks whoever works on the ledger, and waits a while for the acknowledgement.

    Where nobody works, what only changes the ledger is done here; the rest waits for the next process. Raises
    `UsageError` for what is refused.
    """
    number = await ledger.commands.ask(action, run=run, endpoint=endpoint, argument=argument)
    command = await ledger.commands.one(number)
    if (held_by := holder(ledger.path)) is not None:
        command = await ledger.commands.answer(number)
        held_by = holder(ledger.path)  # who has ended meanwhile answers no more
    if command.done_at is None and held_by is None and action in OBEYED:
        await ledger.commands.obey(command)
        command = await ledger.commands.one(number)
    if command.is_refused:
        raise UsageError(f"{action} was refused: {command.outcome}")
    return Acknowledged(by=held_by, outcome=command.outcome)
