"""`orchestrator brakes`: show and set the brakes of a run, also while it goes on."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import typer

from orchestrator.cli.framework import flags
from orchestrator.cli.framework.command_groups import ShownGroup
from orchestrator.cli.framework.runner import at_ledger
from orchestrator.cli.output import streams, tables
from orchestrator.cli.runs.control import when_set
from orchestrator.core.gates.costs import Cost
from orchestrator.errors import UsageError
from orchestrator.settings import run_settings
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.settings.sources import Choices

if TYPE_CHECKING:
    from orchestrator.api.admin.brakes import RunBrakeStatus
    from orchestrator.views.costs import CostView

_JSON: Final = "The brakes as JSON on standard output."

commands = typer.Typer(
    cls=ShownGroup,
    help="Show and change what stops a run before it burns money.\n\nAlso what it has cost, and while it goes on."
    " Without a verb they are shown.",
)


@commands.command("show")
@at_ledger(_JSON)
async def brakes(name: flags.OnlyRun = None, *, ledger: LedgerAddress, as_json: bool) -> None:
    """Show how the brakes of a run stand, what it has cost, and what is expected of what is outstanding.

    Example: orchestrator brakes show prompts
    """
    from orchestrator.api.admin.brakes import brakes

    show_brakes(await brakes(ledger, name), as_json=as_json)


@commands.command("set")
@at_ledger(_JSON, *run_settings.BRAKES)
async def brakes_set(name: flags.RunName, *, choices: Choices, ledger: LedgerAddress, as_json: bool) -> None:
    """Change brakes of a run, as in: brakes set captions --budget 50. Who works on it goes by them within a second.

    `off` takes one away.

    Example: orchestrator brakes set prompts --budget 50
    """
    from orchestrator.api.admin.brakes import brakes_set

    show_brakes_set(await brakes_set(ledger, name, changed_brakes(choices)), as_json=as_json)


def changed_brakes(choices: Choices) -> Mapping[str, str]:
    """The brakes that were given, as they are written."""
    given = {
        each.key: each.value_type.write(choices[each]) for each in run_settings.BRAKES if choices.is_from_flag(each)
    }
    if not given:
        raise UsageError(f"nothing is to be changed; give one of {', '.join(map(str, run_settings.BRAKES))}")
    return {key: " ".join(map(str, texts)) for key, texts in given.items()}


def show_brakes_set(found: "RunBrakeStatus", *, as_json: bool) -> None:
    """Prints the brakes that were set, and when they hold."""
    show_brakes(found, as_json=as_json)
    streams.say(f"brakes set; {when_set(found.holder, found.outcome)}")


def show_brakes(found: "RunBrakeStatus", *, as_json: bool) -> None:
    """Prints how the brakes of a run stand."""
    if as_json:
        streams.put_json(found)
        return
    streams.headline(found.run)
    stands = {
        run_settings.BREAKER.key: "" if found.breaker == "off" else found.breaker,
        run_settings.CANARY.key: found.canary or "",
        run_settings.MAX_FAILURES.key: f"{found.failed:,} failed",
        run_settings.BUDGET.key: _cost(found),
    }
    rows = [(key, text, stands.get(key, "")) for key, text in found.settings.items()]
    tables.put_parts(tables.columns(("brake", "set to", "now"), rows))
    if (why := found.why_blocked or found.breaker_why) is not None:
        streams.say(why)


def _cost(found: "RunBrakeStatus") -> str:
    """What was spent and is expected; without a price, for how long workers were busy."""
    if found.spent is None or found.expected is None:
        return f"{found.execution_s:,.1f} s in {found.executions:,} executions"
    return f"{_amount(found.spent)} spent, {_amount(found.expected)} expected of {found.outstanding:,} outstanding"


def _amount(cost: "CostView") -> str:
    return str(Cost(cost.amount, cost.error))
