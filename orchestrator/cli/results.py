"""`orchestrator results`."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from orchestrator import declared
from orchestrator.api.config import Choices
from orchestrator.cli import options, printing
from orchestrator.cli.execution import App, Work, carry_out
from orchestrator.cli.options import also
from orchestrator.cli.request import ledger_of


def add_results(commands: typer.Typer, load: Callable[[], App]) -> None:
    """Registers `results`."""

    @commands.command()
    @also(carry_out, **options.flags_of(declared.LEDGER, declared.CONFIG))
    def results(
        name: options.OnlyRun = None,
        errors: Annotated[
            bool, typer.Option(str(declared.ERRORS), metavar="", help="The failed and cancelled jobs instead.")
        ] = False,
        *,
        choices: Choices,
    ) -> tuple[Work, Path]:
        """Print a run's results so far as JSON lines, in input order; at any time, also while it runs."""
        ledger = ledger_of(choices)
        return partial(_results, load, ledger, name, errors), ledger


async def _results(load: Callable[[], App], ledger: Path, name: str | None, errors: bool) -> int:
    count = await load().results(ledger, name, printing.put, errors=errors)
    printing.flush()
    if not count:
        printing.say(f"{name or 'the run'} has no {'failed or cancelled jobs' if errors else 'results'} yet")
    return 0
