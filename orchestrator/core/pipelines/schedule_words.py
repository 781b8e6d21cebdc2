"""When a schedule fires, in words: what most crons say can be said shorter; the others stand as they are."""

import re
from collections.abc import Sequence
from typing import Final

from orchestrator.core.pipelines.pipeline import Schedule, when_it_fires

_DAYS: Final = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_EVERY: Final = "*"
_NUMBER: Final = re.compile(r"\d{1,2}")
_STEPS: Final = re.compile(r"\*/(\d{1,2})")
_DAY: Final = re.compile(r"[0-7]|mon|tue|wed|thu|fri|sat|sun", re.IGNORECASE)
_TIMES_MAX: Final = 4


def schedule_in_words(schedule: Schedule | None) -> str:
    """As "daily at 04:45 in Asia/Tokyo", "Mon to Fri at 03:15 UTC", "every 6 h", "when it is triggered"."""
    if schedule is None or schedule.every_us is not None:
        return when_it_fires(schedule)
    zone = schedule.zone if schedule.zone == "UTC" else f"in {schedule.zone}"
    return f"{' and '.join(map(cron_in_words, schedule.cron))} {zone}"


def cron_in_words(expression: str) -> str:
    """One expression of five fields; itself where it says more than words would."""
    minute, hour, day, month, weekday = expression.split()
    at = _at(minute, hour)
    if at is None or month != _EVERY or (_EVERY not in (day, weekday)):
        return expression
    if weekday != _EVERY:
        days = _weekdays(weekday)
        return expression if days is None else f"{days} {at}"
    if day == _EVERY:
        return f"daily {at}" if at.startswith("at") else at
    numbers = _numbers(day)
    return expression if numbers is None else f"on day {_listed(list(map(str, numbers)))} of each month {at}"


def _at(minute: str, hour: str) -> str | None:
    """At what times of a day; None where there are too many to name."""
    if (steps := _STEPS.fullmatch(minute)) and hour == _EVERY:
        return f"every {steps[1]} min"
    minutes = _numbers(minute)
    if minutes is None or len(minutes) > 1:
        return None
    if hour == _EVERY:
        return f"each hour at minute {minutes[0]}"
    hours = _numbers(hour)
    if hours is None or len(hours) > _TIMES_MAX:
        return None
    return f"at {_listed([f'{each:02}:{minutes[0]:02}' for each in hours])}"


def _numbers(field: str) -> list[int] | None:
    parts = field.split(",")
    return [int(each) for each in parts] if all(map(_NUMBER.fullmatch, parts)) else None


def _weekdays(field: str) -> str | None:
    first, is_range, last = field.partition("-")
    if is_range:
        return f"{_day(first)} to {_day(last)}" if _DAY.fullmatch(first) and _DAY.fullmatch(last) else None
    parts = field.split(",")
    return _listed(list(map(_day, parts))) if all(map(_DAY.fullmatch, parts)) else None


def _day(text: str) -> str:
    return _DAYS[int(text)] if text.isdigit() else text.capitalize()


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
