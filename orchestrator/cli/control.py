"""`orchestrator pause`, `continue` and `cancel`: what can be asked of a run while it goes on."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer

from orchestrator import declared
from orchestrator.cli import options, printing
from orchestrator.cli.config import choose
from orchestrator.cli.execution import App, execute, explain
from orchestrator.cli.request import ledger_of
from orchestrator.errors import UsageError
from orchestrator.settings import Wish

Json = Annotated[bool | None, options.option(declared.JSON, "How the run stands, as JSON.")]

_DONE: Final = {Wish.PAUSE: "paused", Wish.CONTINUE: "to continue", Wish.CANCEL: "cancelled"}


def add_control(commands: typer.Typer, load: Callable[[], App]) -> None:
    """Registers the three commands."""

    @commands.command()
    def pause(
        name: options.RunName, ledger: options.Ledger = None, config: options.Config = None, json: Json = None
    ) -> None:
        """Send no more jobs of a run; what is at the service is still collected."""
        _carry_out(load, locals(), name, Wish.PAUSE)

    @commands.command("continue")
    def continue_(
        name: options.RunName, ledger: options.Ledger = None, config: options.Config = None, json: Json = None
    ) -> None:
        """Lift a pause, or end the cancelling of a run."""
        _carry_out(load, locals(), name, Wish.CONTINUE)

    @commands.command()
    def cancel(
        name: options.RunName, ledger: options.Ledger = None, config: options.Config = None, json: Json = None
    ) -> None:
        """Cancel what a run has not finished, here and at the service; results that still arrive count."""
        _carry_out(load, locals(), name, Wish.CANCEL)


def _carry_out(load: Callable[[], App], flags: dict[str, object], name: str, wish: Wish) -> None:
    try:
        choices = choose({key: value for key, value in flags.items() if key != "name"}, os.environ)
        path, as_json = ledger_of(choices), choices.is_on(declared.JSON)
    except UsageError as error:
        raise typer.Exit(explain(error)) from None
    raise typer.Exit(execute(partial(_control, load, path, name, wish, as_json=as_json), ledger=path))


async def _control(load: Callable[[], App], ledger: Path, name: str, wish: Wish, *, as_json: bool) -> int:
    found = await load().control(ledger, name, wish)
    if as_json:
        printing.put_json(found)
    takes = f"{found.held_by} follows within a second" if found.held_by else "it holds from the next start"
    printing.say(f"{found.run} is {_DONE[wish]}; {takes}")
    return 0
