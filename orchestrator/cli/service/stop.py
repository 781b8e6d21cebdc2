"""`orchestrator stop`: ends whoever works on a ledger."""

from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.cli.framework.runner import at_ledger
from orchestrator.cli.output import streams

if TYPE_CHECKING:
    from orchestrator.api.admin.process_stop import Stopped  # at run time `--help` would pay for it

BUSY_EXIT_CODE = 4


@at_ledger("What came of it, as JSON.")
async def stop(*, ledger: Path, as_json: bool) -> int:
    """End the process that works on a ledger, as Ctrl-C there would.

    Those that wait for its place end, too. Its runs go on with `resume` or `serve`. To hold one run only, see
    `pause`.

    Example: orchestrator stop
    """
    from orchestrator.api.admin.process_stop import stop

    return show_stopped(await stop(ledger), as_json=as_json)


def show_stopped(found: "Stopped", *, as_json: bool) -> int:
    """Prints what came of it; returns the exit code."""
    if as_json:
        streams.put_json(found)
    streams.say(_told(found))
    return 0 if found.ended else BUSY_EXIT_CODE


def _told(found: "Stopped") -> str:
    if found.was is None:
        return f"nobody works on {found.ledger}"
    if not found.ended:
        how = "has not answered" if found.outcome is None else "has not ended yet"
        return f"{found.was} {how}; it was asked to end, and will once it can. To end it at once, kill that process"
    went_on = f"; by now it is {found.holder} that works on {found.ledger}" if found.holder else ""
    return f"{found.was} has ended{went_on}"
