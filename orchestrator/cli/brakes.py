"""`orchestrator brakes`: show and set the brakes of a run, also while it goes on."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator import declared, declared_brakes
from orchestrator.api.config import Choices
from orchestrator.cli import options, printing, tables
from orchestrator.cli.control import when_set
from orchestrator.cli.execution import App, AtLedger, carry_out_at_ledger
from orchestrator.cli.nouns import ShownGroup
from orchestrator.cli.options import also
from orchestrator.core.costs import Cost
from orchestrator.errors import UsageError

if TYPE_CHECKING:
    from orchestrator.api.braking import CostView, RunBrakes

Json = Annotated[bool | None, options.option(declared.JSON, "The brakes as JSON on standard output.")]


def add_brakes(commands: typer.Typer, load: Callable[[], App]) -> None:
    """Registers `brakes` and its commands."""
    brakes = typer.Typer(
        cls=ShownGroup,
        help="What stops a run before it burns money, what it has cost, and how to change that, also while it goes on."
        " Without a verb they are shown.",
    )
    commands.add_typer(brakes, name="brakes")
    at_ledger = options.flags_of(declared.LEDGER, declared.CONFIG)

    @brakes.command()
    @also(carry_out_at_ledger, **at_ledger, json=Json)
    def show(name: options.OnlyRun = None) -> AtLedger:
        """Show how the brakes of a run stand, what it has cost, and what is expected of what is outstanding."""
        return partial(_show, load, name)

    @brakes.command("set")
    @also(carry_out_at_ledger, **options.flags_of(*declared_brakes.BRAKES), **at_ledger, json=Json)
    def set_(name: options.RunName, *, choices: Choices) -> AtLedger:
        """Change brakes of a run, as in: brakes set captions --budget 50. Who works on it goes by them within a second.

        `off` takes one away.
        """
        return partial(_set, load, name, choices)


async def _show(load: Callable[[], App], name: str | None, ledger: Path, as_json: bool) -> int:
    _put(await load().brakes(ledger, name), as_json=as_json)
    return 0


async def _set(load: Callable[[], App], name: str, choices: Choices, ledger: Path, as_json: bool) -> int:
    told = {each.key: each.form.write(choices[each]) for each in declared_brakes.BRAKES if choices.is_told(each)}
    if not told:
        raise UsageError(f"nothing is to be changed; give one of {', '.join(map(str, declared_brakes.BRAKES))}")
    found = await load().brakes_set(ledger, name, {key: " ".join(map(str, texts)) for key, texts in told.items()})
    _put(found, as_json=as_json)
    printing.say(f"brakes set; {when_set(found.held_by, found.outcome)}")
    return 0


def _put(found: "RunBrakes", *, as_json: bool) -> None:
    if as_json:
        printing.put_json(found)
        return
    printing.headline(found.run)
    stands = {
        declared_brakes.BREAKER.key: "" if found.breaker == "off" else found.breaker,
        declared_brakes.CANARY.key: found.canary or "",
        declared_brakes.MAX_FAILURES.key: f"{found.failed:,} failed",
        declared_brakes.BUDGET.key: _cost(found),
    }
    rows = [(key, text, stands.get(key, "")) for key, text in found.settings.items()]
    tables.put(tables.columns(("brake", "set to", "now"), rows))
    if (why := found.held_up or found.breaker_why) is not None:
        printing.say(why)


def _cost(found: "RunBrakes") -> str:
    """What was spent and is expected; without a price, for how long workers were busy."""
    if found.spent is None or found.expected is None:
        return f"{found.execution_s:,.1f} s in {found.executions:,} executions"
    return f"{_amount(found.spent)} spent, {_amount(found.expected)} expected of {found.outstanding:,} outstanding"


def _amount(cost: "CostView") -> str:
    return str(Cost(cost.amount, cost.error))
