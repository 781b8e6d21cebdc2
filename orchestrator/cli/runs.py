"""`orchestrator runs`: the runs of a ledger, and what can be done with one."""

from collections.abc import Callable

import typer

from orchestrator.cli.control import add_control
from orchestrator.cli.execution import App
from orchestrator.cli.nouns import NounGroup
from orchestrator.cli.status import add_list_and_show


def add_runs(commands: typer.Typer, load: Callable[[], App]) -> None:
    """Registers `runs` and its verbs."""
    runs = typer.Typer(
        cls=NounGroup,
        rich_markup_mode="rich",
        help="The runs of a ledger. Without a verb they are listed.\n\nA run is named by its name, or by as much of it"
        " as no other run begins with.",
    )
    commands.add_typer(runs, name="runs")
    add_list_and_show(runs, load)
    add_control(runs, load)
