"""One look at a schedule: what is due, what was missed, what a pause left out, and where the watermark stands then."""

from itertools import takewhile

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.pipelines.due_fires import (
    COUNTED_MAX,
    Gap,
    GapKind,
    Watermark,
    gap,
    is_set_back,
    look,
)
from orchestrator.core.pipelines.pipeline import Schedule
from orchestrator.core.pipelines.schedule_calendar import fires_from
from orchestrator.units import HOUR_US, MINUTE_US

DAY_US = 24 * HOUR_US
HOURLY = Schedule(every_us=HOUR_US, catch_up_us=24 * HOUR_US)
T = 1_000_000 * HOUR_US
MANY = 1_000


def test_a_look_finds_what_is_due_since_the_watermark_that_moves_to_now() -> None:
    found = look(HOURLY, "p", Watermark(T), T + 2 * HOUR_US + 5, MANY)
    assert [fire.at_us for fire in found.fires] == [T + HOUR_US, T + 2 * HOUR_US]
    assert (found.gaps, found.until_us, found.is_all) == ((), T + 2 * HOUR_US + 5, True)
    assert look(HOURLY, "p", Watermark(T + 5), T + 6, MANY).fires == ()


def test_the_jitter_puts_off_when_a_flow_begins_and_nothing_else() -> None:
    spread = Schedule(every_us=HOUR_US, jitter_us=30 * MINUTE_US)
    [fire] = look(spread, "p", Watermark(T), T + HOUR_US, MANY).fires
    assert fire.at_us == T + HOUR_US < fire.due_us < T + HOUR_US + 30 * MINUTE_US
    assert look(spread, "p", Watermark(T + HOUR_US), fire.due_us, MANY).fires == ()


def test_what_is_overdue_for_longer_than_catch_up_is_missed_to_the_microsecond() -> None:
    now = T + 30 * HOUR_US
    found = look(HOURLY, "p", Watermark(T), now, MANY)
    assert found.gaps == (Gap(GapKind.MISSED, T, now - 24 * HOUR_US - 1, T + HOUR_US, 5),)
    assert found.fires[0].at_us == now - 24 * HOUR_US
    assert len(found.fires) == 25


def test_a_look_takes_no_more_than_it_may_and_the_next_one_goes_on() -> None:
    first = look(HOURLY, "p", Watermark(T), T + 5 * HOUR_US + 5, 3)
    assert ([fire.at_us for fire in first.fires], first.is_all) == ([T + n * HOUR_US for n in (1, 2, 3)], False)
    assert first.until_us == T + 3 * HOUR_US
    second = look(HOURLY, "p", Watermark(first.until_us), T + 5 * HOUR_US + 5, 3)
    assert ([fire.at_us for fire in second.fires], second.is_all) == ([T + n * HOUR_US for n in (4, 5)], True)


def test_a_pause_that_has_ended_by_itself_is_a_gap_up_to_its_end() -> None:
    paused = Watermark(T, T, T + 3 * HOUR_US)
    assert paused.is_paused(T + 3 * HOUR_US - 1)
    assert not paused.is_paused(T + 3 * HOUR_US)
    found = look(HOURLY, "p", paused, T + 5 * HOUR_US, MANY)
    assert found.gaps == (Gap(GapKind.PAUSED, T, T + 3 * HOUR_US, T + HOUR_US, 3),)
    assert [fire.at_us for fire in found.fires] == [T + 4 * HOUR_US, T + 5 * HOUR_US]


def test_a_pause_without_an_end_lasts_until_somebody_continues() -> None:
    assert Watermark(T, T).is_paused(T + 99 * DAY_US)
    assert not Watermark(T).is_paused(T)


def test_a_gap_without_a_fire_is_none_and_a_long_one_is_counted_up_to_a_bound() -> None:
    assert gap(GapKind.PAUSED, HOURLY, "p", T, T + 1) is None
    minutely = Schedule(every_us=MINUTE_US)
    long = gap(GapKind.MISSED, minutely, "p", T, T + 365 * DAY_US)
    assert long is not None
    assert long.fires == COUNTED_MAX


def test_a_clock_behind_the_watermark_fires_nothing_and_an_hour_is_told() -> None:
    found = look(HOURLY, "p", Watermark(T), T - 5 * HOUR_US, MANY)
    assert (found.fires, found.gaps, found.until_us, found.is_all) == ((), (), T, True)
    assert is_set_back(T, T - HOUR_US - 1)
    assert not is_set_back(T, T - HOUR_US)


def next_fires_until(schedule: Schedule, until: int) -> list[int]:
    return list(takewhile(lambda at: at <= until, fires_from(schedule, T + 1)))


@given(
    st.integers(1, 90),
    st.integers(0, 200),
    st.lists(st.tuples(st.integers(-90, 500), st.booleans()), min_size=1, max_size=8),
    st.integers(1, 7),
)
def test_each_fire_is_found_once_or_lies_in_one_gap(
    every: int, catch_up: int, looks: list[tuple[int, bool]], most: int
) -> None:
    """However late the looks come, whatever is paused between them, and should the clock be set back."""
    schedule = Schedule(every_us=every * MINUTE_US, catch_up_us=catch_up * MINUTE_US, jitter_us=every * MINUTE_US // 2)
    watermark, now = Watermark(T), T
    fires: list[int] = []
    gaps: list[Gap] = []
    for minutes, pauses in looks:
        now += minutes * MINUTE_US
        is_all = False
        while not is_all:
            found = look(schedule, "p", watermark, now, most)
            assert len(found.fires) <= most
            fires += [fire.at_us for fire in found.fires]
            gaps += found.gaps
            watermark, is_all = Watermark(found.until_us), found.is_all
        if pauses:
            watermark = Watermark(watermark.at_us, now, max(now, watermark.at_us) + 30 * MINUTE_US)
            now += 60 * MINUTE_US
    due = next_fires_until(schedule, watermark.at_us)
    held = {at: sum(each.after_us < at <= each.until_us for each in gaps) for at in due}
    assert len(fires) == len(set(fires))
    assert all(held[at] + (at in set(fires)) == 1 for at in due)
    assert set(fires) <= set(due)
    assert sum(each.fires for each in gaps) == sum(held.values())
