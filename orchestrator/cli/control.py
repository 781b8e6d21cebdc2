"""`orchestrator pause`, `continue` and `cancel`: what can be asked of a run while it goes on."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer

from orchestrator import declared
from orchestrator.cli import options, printing
from orchestrator.cli.execution import App, AtLedger, carry_out_at_ledger
from orchestrator.cli.sharing import also
from orchestrator.settings import Wish

Json = Annotated[bool | None, options.option(declared.JSON, "How the run stands, as JSON.")]

_DONE: Final = {Wish.PAUSE: "paused", Wish.CONTINUE: "to continue", Wish.CANCEL: "cancelled"}


def add_control(commands: typer.Typer, load: Callable[[], App]) -> None:
    """Registers the three commands."""
    shared = also(carry_out_at_ledger, **options.flags_of(declared.LEDGER, declared.CONFIG), json=Json)

    @commands.command()
    @shared
    def pause(name: options.RunName) -> AtLedger:
        """Send no more jobs of a run; what is at the service is still collected."""
        return partial(_control, load, name, Wish.PAUSE)

    @commands.command("continue")
    @shared
    def continue_(name: options.RunName) -> AtLedger:
        """Lift a pause, or end the cancelling of a run."""
        return partial(_control, load, name, Wish.CONTINUE)

    @commands.command()
    @shared
    def cancel(name: options.RunName) -> AtLedger:
        """Cancel what a run has not finished, here and at the service; results that still arrive count."""
        return partial(_control, load, name, Wish.CANCEL)


async def _control(load: Callable[[], App], name: str, wish: Wish, ledger: Path, as_json: bool) -> int:
    found = await load().control(ledger, name, wish)
    if as_json:
        printing.put_json(found)
    takes = f"{found.held_by} follows within a second" if found.held_by else "it holds from the next start"
    printing.say(f"{found.run} is {_DONE[wish]}; {takes}")
    return 0
