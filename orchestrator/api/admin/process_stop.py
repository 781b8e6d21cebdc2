"""Ends whoever works on a ledger, in order: what is in flight gets a while, and everything so far is written down."""

from pathlib import Path
from typing import Final

import anyio
import msgspec

from orchestrator.api.runs.commands import ask_process, beside
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.ledger import holder
from orchestrator.ledger.commands.command import Action
from orchestrator.settings.values import IN_FLIGHT_S_MAX

ENDED_S_MAX: Final = 2 * IN_FLIGHT_S_MAX
"""So long its end is waited for: what is in flight may take half of it."""

LOOK_S: Final = 0.1


class Stopped(msgspec.Struct, frozen=True, kw_only=True):
    """What came of asking for the end of whoever works on a ledger."""

    ledger: str
    was: str | None
    """Who worked on it; None where nobody did."""

    ended: bool
    """Whether nothing of that is left. Else it was asked, and has not ended yet."""

    outcome: str | None = None
    """What it answered; None where it has not."""

    holder: str | None = msgspec.field(default=None, name="held_by")
    """Who works on the ledger now, if anybody does."""


async def stop(ledger: Path, dependencies: Dependencies | None = None) -> Stopped:
    """Asks whoever works on the ledger to end, and whoever waits to take its place, and waits for it for a while.

    Raises `UsageError` where there is no ledger, and where a program of somebody's works on it, which ends itself.
    """
    async with beside(ledger, dependencies) as opened:
        was = holder(ledger)
        if was is None:
            return Stopped(ledger=str(ledger), was=None, ended=True)
        answer = await ask_process(opened, Action.STOP)
        with anyio.move_on_after(ENDED_S_MAX):
            while holder(ledger) == was:  # noqa: ASYNC110  the system has no event for it
                await anyio.sleep(LOOK_S)
        now = holder(ledger)
        return Stopped(ledger=str(ledger), was=was, ended=now != was, outcome=answer.outcome, holder=now)
