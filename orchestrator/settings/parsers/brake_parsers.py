"""How brakes are written, when a run is to stop by itself: shares, amounts (budget), numbers of rows, a time."""

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from orchestrator.clock import SystemClock, local_zone
from orchestrator.core.gates.brake_gates import Canary, MaxFailures
from orchestrator.core.gates.failure_breaker import OFF as BREAKER_OFF
from orchestrator.core.gates.failure_breaker import BreakerRules
from orchestrator.core.text.time_of_day import format_moment, parse_moment
from orchestrator.settings.value_types import OFF, Kind, ValueType
from orchestrator.units import WHOLE

AMOUNT_MAX: Final = 1_000_000_000
ROWS_MAX: Final = 1_000_000_000
CANARY_MAX: Final = 10_000
"""They are asked for one by one."""
BREAKER_MAX: Final = 10_000
PERCENT: Final = WHOLE // 100
_PERCENTAGE: Final = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,4})?)%")
_AMOUNT: Final = re.compile(r"[0-9]{1,10}(\.[0-9]{1,15})?")
_BREAKER: Final = re.compile(r"([0-9]{1,6}):([^/]+)/([0-9]{1,6})")


def parse_percentage(text: str) -> int:
    """A percentage, in millionths of the whole."""
    match = _PERCENTAGE.fullmatch(text)
    found = round(Decimal(match[1]) * PERCENT) if match else WHOLE + 1
    if found > WHOLE:
        raise ValueError(f'"{text:.40}" is no share; write a percentage up to 100, as in "5%"')
    return found


def format_percentage(found: int) -> str:
    """The same as it is written."""
    return f"{found / PERCENT:g}%"


def amount(metavar: str, *, may_be_off: bool = False) -> ValueType[float]:
    """Amounts of money, and prices, in whatever currency: more than nothing, or 0 where that is `off`."""

    def parse(texts: Sequence[str]) -> float:
        if may_be_off and texts[-1] == OFF:
            return 0.0
        found = float(texts[-1]) if _AMOUNT.fullmatch(texts[-1]) else 0.0
        if not 0 < found <= AMOUNT_MAX:
            raise ValueError(f'"{texts[-1]:.40}" is no amount; write a number like 25 or 0.00031, without a currency')
        return found

    def write(value: float) -> Sequence[str]:
        return (format(Decimal(repr(value)).normalize(), "f") if value else OFF,)

    return ValueType(Kind.NUMBER, metavar, parse, write)


def parse_breaker(text: str) -> BreakerRules:
    """When the breaker trips."""
    if text == OFF:
        return BREAKER_OFF
    match = _BREAKER.fullmatch(text)
    rules = BreakerRules(int(match[1]), parse_percentage(match[2]), int(match[3])) if match else BREAKER_OFF
    if not 1 <= rules.first <= BREAKER_MAX or not 1 <= rules.window <= BREAKER_MAX:
        raise ValueError(
            f'"{text:.40}" is no rule for the breaker; write off, or FIRST:SHARE/LAST with numbers from 1 to'
            f" {BREAKER_MAX:,}, as in {format_breaker(BreakerRules())}"
        )
    return rules


def format_breaker(rules: BreakerRules) -> str:
    """The same as it is written."""
    return f"{rules.first}:{format_percentage(rules.share)}/{rules.window}" if rules.first else OFF


def parse_canary(text: str) -> Canary:
    """How many rows go first, and which share of them has to succeed."""
    if text == OFF:
        return Canary()
    rows, colon, part = text.partition(":")
    if not (rows.isascii() and rows.isdecimal() and 1 <= int(rows[:9]) <= CANARY_MAX) or (colon and not part):
        raise ValueError(f'"{text:.40}" is no canary; write 1 to {CANARY_MAX:,} rows, as in 10 or 10:80%, or off')
    found = Canary(int(rows), parse_percentage(part) if colon else WHOLE)
    if not found.share:
        raise ValueError(f'"{text:.40}" is no canary: none of its rows would have to succeed')
    return found


def format_canary(value: Canary) -> str:
    """The same as it is written."""
    if not value.rows:
        return OFF
    return str(value.rows) if value.share == WHOLE else f"{value.rows}:{format_percentage(value.share)}"


def parse_max_failures(text: str) -> MaxFailures:
    """How many rows may fail, or which share of them."""
    if text == OFF:
        return MaxFailures()
    if text.endswith("%"):
        return MaxFailures(share=parse_percentage(text))
    if not (text.isascii() and text.isdecimal() and len(text) < len(str(ROWS_MAX))):
        raise ValueError(f'"{text:.40}" is neither a number of rows nor a share of them; write 50, 5% or off')
    return MaxFailures(rows=int(text))


def format_max_failures(value: MaxFailures) -> str:
    """The same as it is written."""
    if value.rows is not None:
        return str(value.rows)
    return OFF if value.share is None else format_percentage(value.share)


def parse_finish_by(text: str) -> int:
    """When a run is to be finished, from now on, in the zone of this machine where none is named."""
    return 0 if text == OFF else parse_moment(text, now=SystemClock().now(), zone=local_zone())


def format_finish_by(at: int) -> str:
    """The same as it is written."""
    return format_moment(at) if at else OFF
