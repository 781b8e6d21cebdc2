"""`orchestrator results`."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.cli import options, printing
from orchestrator.cli.config import choose
from orchestrator.cli.execution import App, execute, explain
from orchestrator.cli.request import ledger_of
from orchestrator.errors import UsageError


def add_results(commands: typer.Typer, load: Callable[[], App]) -> None:
    """Registers `results`."""

    @commands.command()
    def results(
        name: options.RunName,
        errors: Annotated[
            bool, typer.Option("--errors", metavar="", help="The failed and cancelled jobs instead.")
        ] = False,
        ledger: options.Ledger = None,
        config: options.Config = None,
    ) -> None:
        """Print a run's results so far as JSON lines, in input order; at any time, also while it runs."""
        try:
            path = ledger_of(choose({"ledger": ledger, "config": config}, os.environ))
        except UsageError as error:
            raise typer.Exit(explain(error)) from None
        raise typer.Exit(execute(partial(_results, load, path, name, errors), ledger=path))


async def _results(load: Callable[[], App], ledger: Path, name: str, errors: bool) -> int:
    count = await load().results(ledger, name, printing.put, errors=errors)
    printing.flush()
    if not count:
        printing.say(f"{name} has no {'failed or cancelled jobs' if errors else 'results'} yet")
    return 0
