"""Moments as people write them: a time of day, the next one, or a time stamp; always of a zone that is known."""

import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

from orchestrator.units import SECOND_US

_TIME: Final = re.compile(r"(\d{1,2}):(\d{2})(Z|[+-]\d{2}:\d{2})?(?:\s+([A-Za-z][A-Za-z0-9_+/-]*))?")
_HELP: Final = "write 06:00, 06:00 Europe/Berlin, 06:00Z, or a time stamp with its zone, as 2026-11-23T06:00+01:00"


def parse_moment(text: str, *, now: int, zone: tzinfo) -> int:
    """The moment that `text` means, in microseconds UTC: of a time of day the next one after `now`, in `zone` where it
    names none. Raises `ValueError`.
    """
    match = _TIME.fullmatch(text.strip())
    if match is None:
        return _stamped(text.strip(), now)
    hour, minute, offset, name = int(match[1]), int(match[2]), match[3], match[4]
    if hour > 23 or minute > 59 or (offset and name):  # noqa: PLR2004
        raise ValueError(f'"{text:.60}" is no time of day; {_HELP}')
    if offset:
        zone = _offset(offset, text)
    elif name:
        zone = _named(name)
    return _next(hour, minute, zone, now)


def _next(hour: int, minute: int, zone: tzinfo, now: int) -> int:
    """The next time that clocks of `zone` show that; where they are put forward over it, as they then go on."""
    today = datetime.fromtimestamp(now // SECOND_US, zone).date()
    days = (today, today + timedelta(days=1))
    shown = [datetime(day.year, day.month, day.day, hour, minute, tzinfo=zone) for day in days]
    first, second = (int(each.timestamp()) * SECOND_US for each in shown)
    return first if first > now else second


def _stamped(text: str, now: int) -> int:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f'"{text:.60}" is no time; {_HELP}') from None
    if found.tzinfo is None:
        raise ValueError(f'"{text:.60}" names no zone; {_HELP}')
    at = int(found.timestamp() * SECOND_US)
    if at <= now:
        raise ValueError(f'"{text:.60}" is over')
    return at


def _offset(text: str, whole: str) -> tzinfo:
    try:
        found = datetime.fromisoformat(f"2000-01-01T00:00{text}").tzinfo
    except ValueError:
        found = None
    if found is None:
        raise ValueError(f'"{whole:.60}" has no zone; {_HELP}')
    return found


def _named(name: str) -> tzinfo:
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        raise ValueError(f'there is no time zone "{name:.40}"; write it as Europe/Berlin') from None


def format_moment(at: int) -> str:
    """A moment as a time stamp, which means the same everywhere."""
    return datetime.fromtimestamp(at // SECOND_US, UTC).isoformat().replace("+00:00", "Z")
