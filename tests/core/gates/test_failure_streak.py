"""A run whose executions fail is noticed early, and once."""

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.gates.failure_streak import EARLY_MAX, EARLY_MIN, FAILED_SHARE, Alarm, Streak


def alarms(ends: list[bool], stop_after: int | None = None) -> list[tuple[int, Alarm]]:
    streak = Streak()
    found = [(n, streak.observe(failed=failed, stop_after=stop_after)) for n, failed in enumerate(ends, start=1)]
    return [(n, alarm) for n, alarm in found if alarm is not None]


def test_twenty_failures_at_the_beginning_are_said_once() -> None:
    assert alarms([True] * 100) == [(20, Alarm.EARLY)]


def test_a_success_or_two_among_them_change_nothing_and_a_tenth_does() -> None:
    assert alarms([False, *[True] * 100]) == [(20, Alarm.EARLY)]
    assert alarms([False, False, *[True] * 100]) == [(21, Alarm.EARLY)]
    assert alarms([False] * 20 + [True] * 1_000) == []


def test_so_many_failures_in_a_row_are_enough_and_a_success_begins_anew() -> None:
    assert alarms([True, True, False, True, True, True], stop_after=3) == [(6, Alarm.ENOUGH)]
    assert alarms([True], stop_after=1) == [(1, Alarm.ENOUGH)]


@given(ends=st.lists(st.booleans(), max_size=400))
def test_it_is_said_at_the_first_moment_at_which_it_is_true(ends: list[bool]) -> None:
    expected = [
        n
        for n in range(EARLY_MIN, min(EARLY_MAX, len(ends)) + 1)
        if sum(ends[:n]) > FAILED_SHARE * n
    ]  # fmt: skip
    assert alarms(ends) == [(n, Alarm.EARLY) for n in expected[:1]]
