"""When schedules fire, in particular where clocks are turned. `calendar_oracle` compares with brute force."""

import time
from datetime import UTC, datetime
from itertools import pairwise

import pytest

from orchestrator.core.pipelines.pipeline import Schedule
from orchestrator.core.pipelines.schedule_calendar import (
    Fire,
    check_cron,
    fires_between,
    fires_from,
    instant_of,
    next_fires,
    previous_fire,
)
from orchestrator.units import HOUR_US, MINUTE_US, SECOND_US
from tests.core.calendar_oracle import SECONDS_MAX, cases, check
from tests.costs import slowness

DAY_US = 24 * HOUR_US


def us(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * SECOND_US


def utc(at_us: int) -> str:
    return f"{datetime.fromtimestamp(at_us / SECOND_US, UTC):%m-%d %H:%M}"


def crons(*expressions: str, zone: str = "UTC", jitter_us: int = 0) -> Schedule:
    return Schedule(cron=expressions, zone=zone, jitter_us=jitter_us)


@pytest.mark.no_cover
def test_random_schedules_fire_as_brute_force_says() -> None:
    """A short form; `python -m tests.core.calendar_oracle` takes 20,000."""
    assert max(check(case) for case in cases(40, seed=12)) < SECONDS_MAX * slowness()


@pytest.mark.parametrize(
    ("expression", "zone", "after", "expected"),
    [
        ("30 2 * * *", "Europe/Berlin", "2027-03-27T00:00", ["03-27 01:30", "03-28 01:00", "03-29 00:30"]),
        ("10,30,50 2 * * *", "Europe/Berlin", "2027-03-27T01:45", ["03-27 01:50", "03-28 01:00", "03-29 00:10"]),
        ("0,30 2,3 * * *", "Europe/Berlin", "2027-03-28T00:00", ["03-28 01:00", "03-28 01:30", "03-29 00:00"]),
        ("*/30 2 * * *", "Europe/Berlin", "2027-03-27T00:45", ["03-27 01:00", "03-27 01:30", "03-29 00:00"]),
        ("30 2 * * *", "Europe/Berlin", "2027-10-30T12:00", ["10-31 00:30", "11-01 01:30"]),
        ("*/30 2 * * *", "Europe/Berlin", "2027-10-30T12:00", ["10-31 00:00", "10-31 00:30", "10-31 01:00"]),
        ("30 */1 * * *", "Europe/Berlin", "2027-10-30T23:45", ["10-31 00:30", "10-31 01:30", "10-31 02:30"]),
        ("57 */3 * * *", "Pacific/Chatham", "2026-04-04T08:00", ["04-04 08:12", "04-04 11:12", "04-04 15:12"]),
        ("42 * * * *", "Australia/Lord_Howe", "2028-09-30T14:00", ["09-30 14:12", "09-30 15:12", "09-30 15:42"]),
        ("0 12 * * *", "Pacific/Apia", "2011-12-29T00:00", ["12-29 22:00", "12-30 10:00", "12-30 22:00"]),
    ],
    ids=lambda value: value.replace("/", " ") if isinstance(value, str) else "",
)
def test_where_the_clock_is_turned(expression: str, zone: str, after: str, expected: list[str]) -> None:
    """The last is a gap of a whole day, 2011-12-30: its noon is fired for at its end."""
    found = next_fires(crons(expression, zone=zone), us(after), len(expected))
    assert [utc(fire) for fire in found] == expected


@pytest.mark.parametrize("start", ["2027-03-28T01:00", "2027-03-28T00:59"])
def test_the_end_of_a_gap_fires_for_who_begins_there(start: str) -> None:
    schedule = crons("30 2 * * *", zone="Europe/Berlin")
    assert utc(next(fires_from(schedule, us(start)))) == "03-28 01:00"
    assert utc(next(fires_from(schedule, us("2027-03-28T01:00") + 1))) == "03-29 00:30"


def test_who_begins_in_the_second_of_two_hours_gets_no_fire_of_the_first() -> None:
    named, shown = (crons(cron, zone="Europe/Berlin") for cron in ("45 2 * * *", "*/45 2 * * *"))
    assert utc(next(fires_from(named, us("2027-10-31T01:15")))) == "11-01 01:45"
    assert utc(next(fires_from(shown, us("2027-10-31T01:15")))) == "10-31 01:45"


def test_several_crons_are_one_schedule_and_fire_once_together() -> None:
    found = next_fires(crons("0 6 * * *", "0 */6 * * *", "30 7 * * MON"), us("2027-03-01T00:00"), 5)
    assert [utc(fire) for fire in found] == ["03-01 06:00", "03-01 07:30", "03-01 12:00", "03-01 18:00", "03-02 00:00"]


def test_every_is_counted_from_1970_and_counts_elapsed_time() -> None:
    schedule = Schedule(every_us=6 * HOUR_US, offset_us=15 * MINUTE_US)
    assert [utc(fire) for fire in next_fires(schedule, us("2027-03-28T00:15"), 2)] == ["03-28 06:15", "03-28 12:15"]
    assert next(fires_from(schedule, us("2027-03-28T00:15"))) == us("2027-03-28T00:15")
    assert next(fires_from(schedule, -1)) == 15 * MINUTE_US
    assert previous_fire(schedule, us("2027-03-28T06:15")) == us("2027-03-28T00:15")


@pytest.mark.parametrize(
    ("expression", "before", "expected"),
    [
        ("* * * * *", "2027-03-28T01:00", "2027-03-28T00:59"),
        ("30 2 * * *", "2027-03-28T01:01", "2027-03-28T01:00"),
        ("30 2 * * *", "2027-03-28T01:00", "2027-03-27T01:30"),
        ("0 0 * 2 MON#5", "2027-03-28T00:00", "2016-02-28T23:00"),
        ("* * * 2 *", "2027-06-28T00:00", "2027-02-28T22:59"),
    ],
)
def test_the_fire_before_is_found_however_long_ago(expression: str, before: str, expected: str) -> None:
    assert previous_fire(crons(expression, zone="Europe/Berlin"), us(before)) == us(expected)


def test_the_fire_before_is_always_the_one_that_the_next_comes_after() -> None:
    schedule = crons("*/7 1-4 * * *", "0 5 * * *", zone="America/New_York")
    for before, fire in pairwise(next_fires(schedule, us("2027-03-13T00:00"), 80)):
        assert previous_fire(schedule, fire) == before
        assert previous_fire(schedule, before + 1) == before


@pytest.mark.parametrize("expression", ["0 0 */31 2 MON#5", "* 0 */31 2 MON#5"])
def test_a_day_that_never_comes_is_looked_for_in_vain_not_for_ever(expression: str) -> None:
    assert next_fires(crons(expression), us("2027-03-01T00:00"), 1) == []
    assert previous_fire(crons(expression), us("2027-03-01T00:00")) is None


def test_jitter_is_the_same_each_time_differs_between_pipelines_and_keeps_the_order() -> None:
    schedule = crons("*/10 * * * *", jitter_us=5 * MINUTE_US)
    start_us, end_us = us("2027-03-28T00:00"), us("2027-03-29T00:00")
    fires = fires_between(schedule, "captions", start_us, end_us, 1_000)

    assert fires == fires_between(schedule, "captions", start_us, end_us, 1_000)
    assert fires != fires_between(schedule, "others", start_us, end_us, 1_000)
    assert all(0 <= fire.due_us - fire.at_us < 5 * MINUTE_US for fire in fires)
    assert len({fire.due_us - fire.at_us for fire in fires}) > 100
    assert [fire.due_us for fire in fires] == sorted(fire.due_us for fire in fires)


def test_a_fire_belongs_to_the_look_that_has_its_time_whatever_its_jitter() -> None:
    schedule = crons("*/10 * * * *", jitter_us=5 * MINUTE_US)
    start_us, end_us = us("2027-03-28T00:00"), us("2027-03-28T06:00")
    looks = [
        fires_between(schedule, "captions", at_us, at_us + MINUTE_US, 9) for at_us in range(start_us, end_us, MINUTE_US)
    ]

    assert [fire for look in looks for fire in look] == fires_between(schedule, "captions", start_us, end_us, 1_000)
    assert [fire.at_us for look in looks for fire in look] == next_fires(schedule, start_us, 36)


def test_without_jitter_a_fire_is_due_at_its_time_and_so_many_are_taken() -> None:
    found = fires_between(crons("0 * * * *"), "captions", us("2027-03-28T00:00"), us("2027-03-28T02:00"), 9)
    assert found == [
        Fire(us("2027-03-28T01:00"), us("2027-03-28T01:00")),
        Fire(us("2027-03-28T02:00"), us("2027-03-28T02:00")),
    ]
    assert len(fires_between(crons("* * * * *"), "captions", 0, DAY_US, 10)) == 10


def test_a_gap_of_a_year_is_counted_in_a_second() -> None:
    began = time.process_time()
    found = fires_between(
        crons("* * * * *", zone="Europe/Berlin"), "captions", us("2026-01-01T00:00"), us("2027-01-01T00:00"), 10_000
    )
    assert len(found) == 10_000
    assert time.process_time() - began < slowness()


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("0 30 2 * * *", "five fields"),
        ("@daily", "five fields"),
        ("61 2 * * *", "bad minute"),
        ("0 0 30 2 *", "bad day-of-month"),
        ("0 0 */31 2 MON#5", "never comes"),
    ],
    ids=str,
)
def test_what_is_no_cron_is_refused_with_its_reason(expression: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        check_cron(expression)


def test_what_comes_once_in_28_years_is_a_cron() -> None:
    check_cron("0 0 * 2 MON#5")


def test_no_jitter_carries_a_fire_beyond_the_next() -> None:
    schedule = crons("0,1 * * * *", jitter_us=30 * MINUTE_US)
    fires = fires_between(schedule, "captions", us("2027-03-28T00:00"), us("2027-03-29T00:00"), 1_000)
    assert len(fires) in (47, 48)
    assert all(before.due_us < after.at_us for before, after in pairwise(fires))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2027-03-28T03:30", "2027-03-28T01:30"),
        ("2027-03-28", "2027-03-27T23:00"),
        ("2027-10-31T02:30+01:00", "2027-10-31T01:30"),
        ("2027-10-31T02:30Z", "2027-10-31T02:30"),
    ],
)
def test_a_time_is_meant_in_the_zone_unless_it_has_an_offset(text: str, expected: str) -> None:
    assert instant_of(text, "Europe/Berlin") == us(expected)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("2027-03-28T02:30", "does not exist in Europe/Berlin"),
        ("2027-10-31T02:30", "comes twice in Europe/Berlin"),
        ("tomorrow", "is no time"),
        ("1969-01-01", "the year has to be"),
        ("9999-01-01", "the year has to be"),
    ],
)
def test_a_time_that_does_not_exist_or_comes_twice_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        instant_of(text, "Europe/Berlin")
