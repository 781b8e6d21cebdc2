"""`orchestrator watch`: the display of `run` from any process."""

import sys
from collections.abc import Callable
from typing import Final

import msgspec

from orchestrator.cli.framework import flags
from orchestrator.cli.framework.runner import at_ledger
from orchestrator.cli.output import streams
from orchestrator.cli.output.consoles import QuietConsole, console_for_stderr, progress_line
from orchestrator.cli.output.status_texts import total
from orchestrator.cli.runs.run import FAILURES_EXIT_CODE, SIGNAL_EXIT_CODE_BASE
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.views.status import Snapshot

LINE_EVERY_S: Final = 1.0
"""As JSON how it stands is told no more often, and not unless it has changed."""


@at_ledger("How it stands as JSON lines, whenever that has changed.")
async def watch(name: flags.OnlyRun = None, *, ledger: LedgerAddress, as_json: bool) -> int:
    """Show how a run goes on; Ctrl-C ends the watching only.

    It ends once each job has its outcome.

    Example: orchestrator watch prompts
    """
    from orchestrator.api.foreground.watch import watch
    from orchestrator.cli.framework.signals import stop_on_signals

    console = JsonConsole() if as_json else console_for_stderr(quiet=False)
    async with stop_on_signals(console) as stop:
        last = await watch(ledger, name, console, stop=stop)
    if as_json:
        streams.put_json(last)
    elif streams.can_draw(sys.stderr):  # the display is gone by now
        streams.say(progress_line(last))
    if console.signal is not None:
        return SIGNAL_EXIT_CODE_BASE + console.signal
    return 0 if last.counts["succeeded"] == total(last.counts) else FAILURES_EXIT_CODE


class JsonConsole(QuietConsole):
    """A line of JSON on standard output each time that something has changed."""

    def info(self, line: str) -> None:
        """One line of information."""
        streams.say(line)

    async def follow(self, look: Callable[[], Snapshot]) -> None:
        """Prints lines until it is cancelled."""
        import anyio

        shown: Snapshot | None = None
        while True:
            snapshot = look()
            if shown is None or msgspec.structs.replace(snapshot, wall_s=shown.wall_s) != shown:
                shown = snapshot
                streams.put_json(snapshot)
            await anyio.sleep(LINE_EVERY_S)
