"""Asking something of a run, beside whoever works on it."""

from pathlib import Path

from orchestrator.api.look import unknown_run
from orchestrator.clock import SystemClock
from orchestrator.ledger import command_ledger, holder
from orchestrator.settings import Wish
from orchestrator.views import RunControl


async def control(ledger: Path, name: str, wish: Wish) -> RunControl:
    """Asks `wish` of the run `name`; whoever works on it follows within a second. Raises `UsageError`."""
    async with command_ledger(ledger, clock=SystemClock()) as opened:
        run = await opened.runs.named(name)
        if run is None:
            raise unknown_run(name, ledger, await opened.runs.all())
        await opened.runs.wish(run.id, wish)
        wishes = await opened.runs.wishes(run=run.id)
        return RunControl(run=name, paused=wishes.pause, cancelled=wishes.cancel, held_by=holder(ledger))
