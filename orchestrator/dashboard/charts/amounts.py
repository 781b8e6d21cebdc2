"""Values as they stand at an axis or in a legend: short, in their unit."""

from typing import Final

from orchestrator.views.series import Unit

_LARGE: Final = ((1e12, "T"), (1e9, "G"), (1e6, "M"))
_SIZES: Final = ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"))
_TIMES: Final = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"))

_WRITTEN_OUT: Final = 1e15
"""From here on a number is written with its power of ten."""


def amount_text(value: float, unit: Unit) -> str:
    """`value` in `unit`, to three digits: "92/s", "1.5 min", "3.1 %", "36 MiB", "1.2 M"."""
    match unit:
        case Unit.PER_SECOND:
            return f"{_number(value)}/s"
        case Unit.SHARE:
            return f"{_number(100 * value)} %"
        case Unit.SECONDS:
            return f"{_number(1000 * value)} ms" if 0 < abs(value) < 1 else _scaled(value, _TIMES, "s")
        case Unit.BYTES:
            return _scaled(value, _SIZES, "B")
        case Unit.MONEY:
            return f"{value:,.2f}" if 0.01 <= abs(value) < _WRITTEN_OUT else _number(value)  # noqa: PLR2004  a cent
        case Unit.NUMBER:
            return _number(value)


def _scaled(value: float, steps: tuple[tuple[float, str], ...], smallest: str) -> str:
    for size, name in steps:
        if abs(value) >= size:
            return f"{_number(value / size)} {name}"
    return f"{_number(value)} {smallest}"


def _number(value: float) -> str:
    if abs(value) >= _WRITTEN_OUT:
        return f"{value:.3g}"
    for size, letter in _LARGE:
        if abs(value) >= size:
            return f"{_digits(value / size)} {letter}"
    return _digits(value)


def _digits(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"  # noqa: PLR2004  three digits
