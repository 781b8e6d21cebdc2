"""The brakes of runs, and who is told of what they stop, declared as all settings are."""

from collections.abc import Callable
from typing import Any, Final

from orchestrator.settings import parsers
from orchestrator.settings.setting import SWITCH, Group, Kind, Setting, parsed
from orchestrator.settings.structs import RunSettings

PANEL: Final = "Brakes"

_brake: Final = Group(RunSettings, PANEL)

BREAKER: Final = _brake(
    "breaker",
    parsed("FIRST:SHARE/LAST|off", parsers.breaker, parsers.breaker_text),
    "When [the breaker](brakes.md#the-breaker) trips: as the FIRST executions of the run have failed, or more than this"
    " share of the LAST ones, most of them in one way. Then one job a minute is sent, until one succeeds.",
)
CANARY: Final = _brake(
    "canary",
    parsed("K[:SHARE]|off", parsers.canary, parsers.canary_text, kind=Kind.WHOLE_OR_TEXT),
    "Sends K rows first, spread over the input; the rest once they have succeeded, or this share of them.",
    default="none go first",
)
MAX_FAILURES: Final = _brake(
    "max-failures",
    parsed("N|P%|off", parsers.max_failures, parsers.max_failures_text, kind=Kind.WHOLE_OR_TEXT),
    "Holds the run once more than N rows have failed for good, or P percent of those that have ended (from 20 on):"
    " nothing more is sent, and what is outstanding is collected.",
    default="any number may fail",
)
PRICE_PER_SECOND: Final = _brake(
    "price-per-second",
    parsers.amount("PRICE"),
    "What a second of execution costs at the endpoint, in whatever currency: [costs](brakes.md#costs) are told by it.",
    more="Best set for each endpoint in the [file](#configuration).",
    default="costs are not told",
    brief="What a second of execution costs",
)

BUDGET: Final = _brake(
    "budget",
    parsers.amount("AMOUNT|off", may_be_off=True),
    "Sends no more once what [was spent, and is expected](brakes.md#budgets) of what is outstanding, reaches this"
    " amount. Needs a price.",
    default="any amount",
    brief="Sends no more once this much is spent or expected",
)
BUDGET_PER_DAY: Final = _brake(
    "budget-per-day",
    parsers.amount("AMOUNT|off", may_be_off=True),
    "The same of all runs of the ledger at the endpoint, for each day (UTC).",
    more="Best set for each endpoint in the [file](#configuration).",
    default="any amount",
)
FINISH_BY: Final = _brake(
    "finish-by",
    parsed("TIME|off", parsers.finish_by, parsers.finish_by_text),
    "When the run is to be finished: `06:00` (the next one, here), `06:00 Europe/Berlin`, `06:00Z`, or a time stamp"
    " with its zone. You are told as soon as it will be missed, and what would be needed.",
    default="whenever",
    brief="Warns, and says what helps, if it will be missed",
)
STOP_LATE: Final = Setting(
    "stop-late",
    SWITCH,
    "Does not send what would not be finished by `--finish-by`.",
    of=RunSettings,
    panel=PANEL,
)

NOTIFY: Final = Setting(
    "notify",
    parsed("URL|COMMAND", parsers.notify),
    "Who is [told](how-it-works.md#who-is-told-of-a-run) that the run is over, a brake has stopped it, or going on is"
    " pointless: a URL, `env:NAME` of the variable that holds one, or a command that gets it on its input, as JSON.",
    of=RunSettings,
    default="nobody",
    panel="When things go wrong",
)

BRAKES: Final[tuple[Setting[Any], ...]] = (
    *(BREAKER, CANARY, MAX_FAILURES),
    *(PRICE_PER_SECOND, BUDGET, BUDGET_PER_DAY, FINISH_BY, STOP_LATE),
)
"""What can be changed while a run goes on."""

OF_ENDPOINTS: Final[tuple[Setting[Any], ...]] = (PRICE_PER_SECOND, BUDGET_PER_DAY)
"""What the configuration file can say of single endpoints."""


def check_brakes(settings: RunSettings, name: Callable[[Setting[Any]], str] = str) -> None:
    """Raises `ValueError` where brakes of a run lack what they go by; `name` is how a setting is named."""
    for setting in (BUDGET, BUDGET_PER_DAY):
        if getattr(settings, setting.name) and settings.price_per_second is None:
            raise ValueError(f"{name(setting)} needs to know what a second costs; give {name(PRICE_PER_SECOND)} too")
    if settings.stop_late and not settings.finish_by:
        raise ValueError(f"{name(STOP_LATE)} needs to know when the run is to be finished; give {name(FINISH_BY)} too")
