"""Asking something of a run, beside whoever works on it."""

from functools import partial
from pathlib import Path

from orchestrator.api.look import unknown_run
from orchestrator.clock import SystemClock
from orchestrator.ledger import command_ledger, holder, reports
from orchestrator.ledger.control import wish_set, wishes_of
from orchestrator.settings import Wish
from orchestrator.views import RunControl


async def control(ledger: Path, name: str, wish: Wish) -> RunControl:
    """Asks `wish` of the run `name`; whoever works on it follows within a second. Raises `UsageError`."""
    async with command_ledger(ledger, clock=SystemClock()) as opened:
        run = await opened.run_named(name)
        if run is None:
            raise unknown_run(name, ledger, await opened.read(reports.runs_all))
        await opened.write(lambda transaction: wish_set(transaction.connection, run.id, wish))
        wishes = await opened.read(partial(wishes_of, run=run.id))
        return RunControl(run=name, paused=wishes.pause, cancelled=wishes.cancel, held_by=holder(ledger))
