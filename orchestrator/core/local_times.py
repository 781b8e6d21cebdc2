"""Times as people write them: an instant with its offset, or what the clock of a zone shows, if it shows that once."""

from datetime import datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from orchestrator.core.pipelines import EPOCH
from orchestrator.units import SECOND_US

_MICROSECOND: Final = timedelta(microseconds=1)


def instant(text: str, zone: str) -> int:
    """The instant that `text` (ISO 8601: `2026-03-29T02:30`, `2026-03-29`, `2026-03-29T01:30:00Z`) means, microseconds
    UTC; without an offset it is the time of `zone`. Raises `ValueError`, also where the clock there never shows it, or
    shows it twice.
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f'"{text:.40}" is no time; write 2026-03-29T02:30, 2026-03-29 or 2026-03-29T01:30:00Z'
        ) from None
    if found.tzinfo is not None:
        return (found - EPOCH) // _MICROSECOND
    first, second = (_whole(found.replace(tzinfo=ZoneInfo(zone), fold=fold)) for fold in (0, 1))
    if first == second:
        return first
    later, earlier = max(first, second), min(first, second)
    if _shows(earlier, zone) == found:
        raise ValueError(
            f"{text} comes twice in {zone}; say which: {_with_offset(earlier, zone)} or {_with_offset(later, zone)}"
        )
    raise ValueError(f"{text} does not exist in {zone}: the clock goes from before it to after it at once")


def _whole(at: datetime) -> int:
    return (at - EPOCH) // _MICROSECOND


def _shows(at_us: int, zone: str) -> datetime:
    return (EPOCH + timedelta(microseconds=at_us)).astimezone(ZoneInfo(zone)).replace(tzinfo=None)


def _with_offset(at_us: int, zone: str) -> str:
    return (EPOCH + timedelta(microseconds=at_us)).astimezone(ZoneInfo(zone)).isoformat()


def local(at_us: int, zone: str) -> str:
    """An instant as the clock of `zone` shows it, with its offset."""
    return _with_offset(at_us // SECOND_US * SECOND_US, zone)
