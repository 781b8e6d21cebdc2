"""The calendar against brute force: `python -m tests.core.calendar_oracle [--cases 20000] [--seed 0]`.

Written a second time from the rules, without cronsim and without knowing when a clock is turned: each minute of UTC is
looked at, with what the clock of the zone shows then and showed before. Half of the cases begin where it is turned.
"""

import argparse
import calendar
import random
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import count as count_up
from itertools import islice, pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo, available_timezones

from orchestrator.core.pipelines.pipeline import Schedule
from orchestrator.core.pipelines.schedule_calendar import fires_from, previous_fire
from orchestrator.units import MINUTE_US, SECOND_US

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY_US = 24 * 60 * MINUTE_US
SECONDS_MAX = 0.05
MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
WEEKDAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]


class Case(NamedTuple):
    expression: str
    zone: str
    start_us: int
    days: int

    def __str__(self) -> str:
        return f"{self.expression!r} in {self.zone} for {self.days} days from {EPOCH + timedelta(microseconds=self.start_us)}"


# --- brute force


def numbers(field: str, low: int, high: int) -> set[int]:
    found = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        begin = low if span == "*" else int(first)
        end = high if span == "*" or (step and not last) else int(last or first)
        found |= set(range(begin, end + 1, int(step or 1)))
    return found


@lru_cache(maxsize=4096)
def fields_of(expression: str) -> tuple[list[set[int]], bool, bool]:
    """Minutes, hours, months; whether both of the day fields have to fit; whether the time is named."""
    minute, hour, day, month, weekday = expression.split()
    for number, name in enumerate(MONTHS, start=1):
        month = month.replace(name, str(number))
    found = [numbers(minute, 0, 59), numbers(hour, 0, 23), numbers(month, 1, 12)]
    return found, "*" in (day[0], weekday[0]), "*" not in (minute[0], hour[0])


def fits_day(field: str, day: date) -> bool:
    last = calendar.monthrange(day.year, day.month)[1]
    if field == "L":
        return day.day == last
    if field == "LW":
        weekdays = [each for each in range(1, last + 1) if date(day.year, day.month, each).weekday() < 5]
        return day.day == weekdays[-1]
    return day.day in numbers(field, 1, 31)


def fits_weekday(field: str, day: date) -> bool:
    for number, name in enumerate(WEEKDAYS):
        field = field.replace(name, str(number))
    here = day.isoweekday() % 7
    if "#" in field:
        weekday, _, which = field.partition("#")
        return here == int(weekday) % 7 and (day.day - 1) // 7 + 1 == int(which)
    if field.endswith("L"):
        return here == int(field[:-1]) % 7 and (day + timedelta(days=7)).month != day.month
    return here in {number % 7 for number in numbers(field, 0, 7)}


@lru_cache(maxsize=65536)
def is_on(expression: str, day: date) -> bool:
    (_, _, months), both, _ = fields_of(expression)
    _, _, in_month, _, in_week = expression.split()
    fits = fits_day(in_month, day), fits_weekday(in_week, day)
    return day.month in months and (all(fits) if both else any(fits))


def is_shown(expression: str, shown: datetime) -> bool:
    (minutes, hours, _), _, _ = fields_of(expression)
    return shown.minute in minutes and shown.hour in hours and is_on(expression, shown.date())


def brute_force(case: Case) -> Iterator[int]:
    """All fires from the start on, for so many days."""
    zone = ZoneInfo(case.zone)
    end_us = case.start_us + case.days * DAY_US
    *_, is_named = fields_of(case.expression)
    for day_us in range(case.start_us // DAY_US * DAY_US, end_us, DAY_US):
        dates = [(EPOCH + timedelta(microseconds=day_us, days=off)).date() for off in (-2, -1, 0, 1, 2)]
        if not any(is_on(case.expression, day) for day in dates):
            continue
        shown = [
            (at_us, (EPOCH + timedelta(microseconds=at_us)).astimezone(zone).replace(tzinfo=None))
            for at_us in range(day_us - (DAY_US + MINUTE_US if is_named else 0), day_us + DAY_US, MINUTE_US)
        ]
        for at_us in once_each(case.expression, shown) if is_named else each(case.expression, shown):
            if max(day_us, case.start_us) <= at_us < end_us:
                yield at_us


def each(expression: str, shown: list[tuple[int, datetime]]) -> Iterator[int]:
    return (at_us for at_us, clock in shown if is_shown(expression, clock))


def once_each(expression: str, shown: list[tuple[int, datetime]]) -> Iterator[int]:
    latest = shown[0][1]
    for (_, before), (at_us, clock) in pairwise(shown):
        jumped_over = range(1, max(1, (clock - before) // timedelta(minutes=1)))
        if any(is_shown(expression, before + timedelta(minutes=minute)) for minute in jumped_over) or (
            clock > latest and is_shown(expression, clock)
        ):
            yield at_us
        latest = max(latest, clock)


# --- cases


def drawn_field(chance: random.Random, low: int, high: int, *, likely: int) -> str:
    def number() -> int:
        return chance.randint(low, min(high, likely) if chance.random() < 0.7 else high)

    first, second = sorted((number(), number()))
    kinds = ["*", f"*/{chance.randint(1, 20)}", str(first), f"{first},{second}", f"{first}-{second}"]
    kinds += [f"{first}-{high}/{chance.randint(1, 9)}", f"{first}/{chance.randint(1, 9)}", str(second)]
    return chance.choice(kinds)


def drawn_case(chance: random.Random, zones: list[str]) -> Case:
    minute = drawn_field(chance, 0, 59, likely=59)
    hour = drawn_field(chance, 0, 23, likely=4)
    day, month, weekday = "*", "*", "*"
    if chance.random() < 0.3:
        day = chance.choice([drawn_field(chance, 1, 31, likely=31), "L", "LW", "29", "31"])
    if chance.random() < 0.2:
        month = chance.choice([drawn_field(chance, 1, 12, likely=12), chance.choice(MONTHS)])
    if chance.random() < 0.3:
        special = [
            f"{chance.randint(0, 7)}#{chance.randint(1, 4)}",
            f"{chance.randint(0, 7)}L",
            chance.choice(WEEKDAYS),
        ]
        weekday = chance.choice([drawn_field(chance, 0, 7, likely=7), *special])
    zone = chance.choice(zones)
    start_us = chance.randrange(5 * 365, 90 * 365) * DAY_US + chance.randrange(DAY_US)
    if chance.random() < 0.6:
        turned_us = turn_after(zone, start_us)
        near = [-1, 0, 1, chance.randrange(-DAY_US, DAY_US), chance.randrange(-2 * 60, 2 * 60) * MINUTE_US]
        start_us = turned_us + chance.choice(near)
    is_rare = {day, month, weekday} != {"*"} and chance.random() < 0.2
    return Case(f"{minute} {hour} {day} {month} {weekday}", zone, start_us, 60 if is_rare else chance.choice([1, 2, 3]))


def turn_after(zone: str, start_us: int) -> int:
    """When the clock of `zone` is turned next, within two years; `start_us` where it is not."""
    clock = ZoneInfo(zone)

    def offset(at_us: int) -> timedelta | None:
        return (EPOCH + timedelta(microseconds=at_us)).astimezone(clock).utcoffset()

    before_us = next(
        (at for at in range(start_us, start_us + 730 * DAY_US, DAY_US) if offset(at) != offset(at + DAY_US)), None
    )
    if before_us is None:
        return start_us
    after_us = before_us + DAY_US
    while after_us - before_us > 1:
        middle_us = (before_us + after_us) // 2
        before_us, after_us = (before_us, middle_us) if offset(middle_us) == offset(after_us) else (middle_us, after_us)
    return after_us


def cases(count: int, seed: int) -> Iterator[Case]:
    """So many random ones, none of which names a day that never comes."""
    chance = random.Random(seed)
    zones = sorted(zone for zone in available_timezones() if "/" in zone)
    drawn = (drawn_case(chance, zones) for _ in count_up())
    return islice((case for case in drawn if comes(case.expression)), count)


def comes(expression: str) -> bool:
    return any(is_on(expression, date(2000, 1, 1) + timedelta(days=day)) for day in range(400 * 4))


def check(case: Case) -> float:
    """Raises `AssertionError` where the two differ; returns the longest that one answer took, in seconds of CPU."""
    schedule = Schedule(cron=(case.expression,), zone=case.zone)
    end_us = case.start_us + case.days * DAY_US
    began = time.process_time()
    fires = fires_from(schedule, case.start_us)
    found = [first] if (first := next(fires, end_us)) < end_us else []
    seconds = time.process_time() - began
    while found and (fire := next(fires, end_us)) < end_us:
        found.append(fire)
    assert found == list(brute_force(case)), case
    if found:
        began = time.process_time()
        assert previous_fire(schedule, end_us) == found[-1], case
        seconds = max(seconds, time.process_time() - began)
        assert all(fire % SECOND_US == 0 for fire in found), case
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    longest = max((check(case), case) for case in cases(given.cases, given.seed))
    print(f"{given.cases:,} cases equal brute force; the longest answer took {longest[0] * 1000:.1f} ms: {longest[1]}")
    assert longest[0] < SECONDS_MAX


if __name__ == "__main__":
    main()
