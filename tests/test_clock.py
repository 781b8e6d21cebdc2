"""The system's clock: it never goes back, its errors are early, and it says when the wall clock jumps."""

import logging
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.clock import JUMP_US_MIN, SystemClock, WaryElapsedClock, elapsed_us
from orchestrator.units import SECOND_US

START_US = 1_767_225_600 * SECOND_US


class Hands:
    """Where the wall and the monotonic clock stand, moved by the test."""

    def __init__(self) -> None:
        self.wall_us = START_US
        self.monotonic_us = 5 * SECOND_US
        self.clock = SystemClock(wall_ns=lambda: self.wall_us * 1000, monotonic_ns=lambda: self.monotonic_us * 1000)

    def move(self, wall_us: int, monotonic_us: int) -> int:
        self.wall_us += wall_us
        self.monotonic_us += monotonic_us
        return self.clock.now()


def test_the_clock_tells_the_systems_time_in_microseconds() -> None:
    before_us = time.time_ns() // 1000  # noqa: TID251  it is the system that is asked
    now = SystemClock().now()

    assert before_us <= now < before_us + 60 * SECOND_US


@given(st.lists(st.tuples(st.integers(-(10**9), 10**9), st.integers(0, 10**9)), min_size=1))
def test_the_clock_never_stands_still_and_is_never_far_behind_either_of_its_hands(moves: list[tuple[int, int]]) -> None:
    hands = Hands()
    times = [hands.clock.now()]
    for wall_us, monotonic_us in moves:
        times.append(hands.move(wall_us, monotonic_us))
        assert times[-1] >= hands.wall_us - JUMP_US_MIN
        assert times[-1] >= START_US + hands.monotonic_us - 5 * SECOND_US

    advances = [later - earlier for earlier, later in pairwise(times)]
    assert all(advance >= monotonic_us for advance, (_, monotonic_us) in zip(advances, moves, strict=True))


def test_a_wall_clock_set_forward_and_back_does_not_stop_the_time() -> None:
    hands = Hands()
    assert hands.move(3_600 * SECOND_US, 0) == START_US + 3_600 * SECOND_US
    assert hands.move(-3_600 * SECOND_US, 0) == START_US + 3_600 * SECOND_US
    assert hands.move(SECOND_US, SECOND_US) == START_US + 3_601 * SECOND_US


def test_a_wall_clock_set_back_makes_no_deadline_late() -> None:
    assert Hands().move(-3_600 * SECOND_US, 10 * SECOND_US) == START_US + 10 * SECOND_US


def test_a_machine_that_slept_knows_that_time_has_passed() -> None:
    assert Hands().move(3_600 * SECOND_US, 0) == START_US + 3_600 * SECOND_US


def test_a_jump_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    hands = Hands()
    with caplog.at_level(logging.WARNING):
        hands.move(JUMP_US_MIN, 0)
        assert caplog.messages == []
        hands.move(60 * SECOND_US, 0)
        hands.move(SECOND_US, SECOND_US)
        hands.move(-60 * SECOND_US, 0)

    assert caplog.messages == ["the wall clock jumped by +61.0 s", "the wall clock jumped by -60.0 s"]


# --- what has elapsed


def test_what_elapses_never_goes_back_and_is_that_of_the_system() -> None:
    found = [elapsed_us() for _ in range(100)]
    assert found == sorted(found)


@given(st.lists(st.tuples(st.integers(-(10**9), 10**9), st.integers(0, 10**9)), min_size=1))
def test_who_is_wary_counts_whichever_clock_has_advanced_further(moves: list[tuple[int, int]]) -> None:
    wall_us, passed_us = START_US, 7 * SECOND_US
    clock = WaryElapsedClock(elapsed=lambda: passed_us, wall_ns=lambda: wall_us * 1000)
    before = clock.now()
    for wall, passed in moves:
        wall_us += wall
        passed_us += passed
        now = clock.now()
        assert now - before == max(wall, passed)
        before = now
