"""Figures as people read them, in a terminal and on a page."""

import math
from datetime import timedelta
from typing import Final

from orchestrator.units import EPOCH, KIB, MIB, SECOND_US

_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400

_ROUGH_MINUTES_FROM: Final = 2 * _MINUTE
_ROUGH_HOURS_FROM: Final = 2 * _HOUR
_ROUGH_DAYS_FROM: Final = 2 * _DAY

_NEVER_QUITE_ALL: Final = 0.999
"""A share below 1 is shown as no more than this: 100 % means all."""

_SMALLEST_SHARE: Final = 0.001


def percent(part: int, whole: int) -> str:
    """Rounded down, so that 100 % means all."""
    return f"{100 * part // whole if whole else 0} %"


def lasting(seconds: float) -> str:
    """A duration to two places: "3.2 s", "41 s", "12 min 30 s", "2 h 05 min", "3 d 04 h"."""
    if seconds < 10:  # noqa: PLR2004  below ten seconds a tenth matters
        return f"{math.floor(10 * max(seconds, 0)) / 10:g} s"
    whole = int(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE:02} s"
    if whole < _DAY:
        return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE:02} min"
    return f"{whole // _DAY} d {whole % _DAY // _HOUR:02} h"


def second(at: int) -> str:
    """A moment to the second, in UTC."""
    return f"{EPOCH + timedelta(microseconds=at):%Y-%m-%d %H:%M:%S}"


def minute(at: int) -> str:
    """A moment to the minute, in UTC."""
    return second(at).rpartition(":")[0]


def rate(per_s: float) -> str:
    """Jobs a second, or a minute or hour where a second is too short to say anything."""
    if per_s >= 1 or per_s == 0:
        return f"{per_s:,.1f} jobs/s"
    if per_s * _MINUTE >= 1:
        return f"{per_s * _MINUTE:.1f} jobs/min"
    return f"{per_s * _HOUR:.1f} jobs/h"


def rough_lasting(seconds: float) -> str:
    """A duration in one unit, for what is looked at again and again: "0.4 s", "41 s", "7 min", "2 h 05 min", "3 d"."""
    if seconds < _ROUGH_MINUTES_FROM:
        return f"{int(seconds)} s" if seconds >= _MINUTE else lasting(seconds)
    if seconds < _ROUGH_HOURS_FROM:
        return f"{int(seconds) // _MINUTE} min"
    return lasting(seconds) if seconds < _ROUGH_DAYS_FROM else f"{int(seconds) // _DAY} d"


def brief_rate(per_s: float) -> str:
    """So many a second, or a minute or hour where a second is too short to say anything: "92/s", "9.2/s", "5.4/min"."""
    for each, seconds in (("s", 1), ("min", _MINUTE)):
        if not per_s or per_s * seconds >= 1:
            return f"{per_s * seconds:,.{0 if per_s * seconds >= 10 or not per_s else 1}f}/{each}"  # noqa: PLR2004
    return f"{per_s * _HOUR:.1f}/h"


def share_text(share: float) -> str:
    """A share of 1 to a tenth of a percent: neither all nor nothing is said of what is not quite that."""
    if 0 < share < _SMALLEST_SHARE:
        return f"< {100 * _SMALLEST_SHARE:.1f} %"
    kept = share if share >= 1 else min(share, _NEVER_QUITE_ALL)
    return "0 %" if not kept else "100 %" if kept == 1 else f"{100 * kept:.1f} %"


def size_text(size_bytes: int) -> str:
    """A size: "512 B", "3.4 KiB", "36 MiB", "1.2 GiB"."""
    for unit, unit_bytes in (("GiB", MIB * KIB), ("MiB", MIB), ("KiB", KIB)):
        if size_bytes >= unit_bytes:
            count = size_bytes / unit_bytes
            return f"{count:,.{0 if count >= 10 else 1}f} {unit}"  # noqa: PLR2004  two digits say enough
    return f"{size_bytes} B"


def distance_text(at_us: int, now_us: int) -> str:
    """How far a moment is from now: "2 s ago", "in 7 min"; what clocks may differ by is "just now"."""
    apart_s = (now_us - at_us) / SECOND_US
    if abs(apart_s) < 1:
        return "just now"
    said = rough_lasting(float(int(abs(apart_s))))
    return f"{said} ago" if apart_s > 0 else f"in {said}"


def money(amount: float) -> str:
    """An amount for people: to the hundredth, and what is small to two digits."""
    if abs(amount) >= 1 or not amount:
        return f"{amount:,.2f}"
    digits = max(2, 1 - math.floor(math.log10(abs(amount))))
    return "0.00" if digits > SMALLEST_DIGIT else f"{amount:.{digits}f}"


SMALLEST_DIGIT: Final = 7
"""So many digits behind the point are shown of an amount; what is less is nothing."""
