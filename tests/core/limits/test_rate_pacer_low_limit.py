"""A service that takes far less than the limit that we know of: a lower limit, or a queue that is full."""

import heapq
from collections.abc import Callable
from typing import NamedTuple

import pytest

from orchestrator.core.limits.rate_pacer import Limit, Pacer
from orchestrator.core.limits.rate_sample import SHARE_MIN
from orchestrator.core.limits.service_pauses import REFUSED_IN_ROW
from tests.limits.simulated import SECOND, START, servers

WINDOW = 10 * SECOND
ROUND_TRIP = SECOND // 10
KNOWN = Limit(1000, 10)


class Outcome(NamedTuple):
    """How many requests were taken, and how many refused, in each window."""

    taken: list[int]
    refused: list[int]


def drive(pacer: Pacer, allows: Callable[[int], bool], *, windows: int) -> Outcome:
    """Sends as fast as `pacer` lets it; `allows` is asked when a request arrives."""
    outcome = Outcome([0] * windows, [0] * windows)
    answers: list[tuple[int, int, int]] = []
    now, wake = START, START
    while now < START + windows * WINDOW:
        while pacer.wait_us(now) == 0:
            pacer.take(now)
            is_taken = allows(now + ROUND_TRIP // 2)
            (outcome.taken if is_taken else outcome.refused)[(now - START) // WINDOW] += 1
            heapq.heappush(answers, (now + ROUND_TRIP, now, 200 if is_taken else 429))
        wait = pacer.wait_us(now)
        wake = answers[0][0] if wait is None else now + wait
        if answers and answers[0][0] <= wake:
            now, sent_at, status = heapq.heappop(answers)
            pacer.answered(now, sent_at, status)
        else:
            now = wake
    return outcome


class Queue:
    """Holds `available` jobs at most, of which `per_s` leave in a second."""

    def __init__(self, available: int, per_s: float) -> None:
        self._room, self._per_s = available, per_s
        self._jobs, self._at = 0.0, START
        self.missing = 0.0

    def allows(self, at: int) -> bool:
        worked_off = (at - self._at) * self._per_s / SECOND
        self.missing += max(0.0, worked_off - self._jobs)
        self._jobs, self._at = max(0.0, self._jobs - worked_off), at
        if self._jobs >= self._room:
            return False
        self._jobs += 1
        return True


@pytest.mark.no_cover
@pytest.mark.parametrize("limit", [100, 300])
@pytest.mark.parametrize("server", servers(KNOWN))
def test_a_limit_far_below_the_known_one_is_found_whatever_the_way_of_counting(server: str, limit: int) -> None:
    outcome = drive(Pacer(KNOWN), servers(Limit(limit, 10))[server].allows, windows=20)
    later = slice(8, None)
    assert sum(outcome.refused[later]) <= 0.03 * sum(outcome.taken[later])
    assert sum(outcome.taken[later]) >= 0.85 * limit * 12


@pytest.mark.no_cover
@pytest.mark.parametrize(("available", "per_s"), [(1500, 10.0), (1500, 45.0), (300, 5.0)])
def test_a_full_queue_is_asked_seldom_and_kept_from_running_dry(available: int, per_s: float) -> None:
    queue = Queue(available, per_s)
    outcome = drive(Pacer(KNOWN), queue.allows, windows=20)
    assert sum(outcome.refused[8:]) <= 24
    assert queue.missing <= 10, "its workers always had something to do"


def refused(pacer: Pacer, now: int) -> None:
    for _ in range(REFUSED_IN_ROW):
        pacer.take(now)
        pacer.answered(now, now, 429)


def taken(pacer: Pacer, now: int, requests: int) -> None:
    for _ in range(requests):
        pacer.take(now)
        pacer.answered(now, now, 200)


def test_the_third_full_queue_in_a_row_cuts_the_rate_to_what_was_taken() -> None:
    pacer = Pacer(KNOWN, "window")
    for second in (0, 2, 4):
        assert pacer.figures(START).share == 1
        taken(pacer, START + second * SECOND, 80)
        refused(pacer, START + (second + 1) * SECOND)
    assert not pacer.figures(START + 5 * SECOND).queue_full
    taken(pacer, START + 6 * SECOND, 1)
    assert pacer.figures(START + 6 * SECOND).share == pytest.approx(0.24, rel=0.03)


def test_a_queue_that_is_full_for_long_but_only_once_cuts_nothing() -> None:
    pacer = Pacer(KNOWN, "window")
    for second in range(0, 600, 60):
        refused(pacer, START + second * SECOND)
    assert pacer.figures(START + 600 * SECOND).share == 1
    for second in range(600, 900, 30):
        taken(pacer, START + second * SECOND, 50)
        refused(pacer, START + (second + 29) * SECOND)
    taken(pacer, START + 900 * SECOND, 1)
    assert pacer.figures(START + 900 * SECOND).share == 1, "each a good while after the one before"


def test_the_rate_is_never_cut_to_nothing() -> None:
    pacer = Pacer(KNOWN, "window", queues=False)
    refused(pacer, START)
    taken(pacer, START + SECOND, 1)
    assert pacer.figures(START + SECOND).share == SHARE_MIN


def test_under_a_low_limit_one_request_leaves_in_each_window_whatever_is_refused() -> None:
    pacer = Pacer(Limit(18, 2), queues=False)
    refused(pacer, START)
    taken(pacer, START + SECOND, 1)
    assert pacer.figures(START + SECOND).share == SHARE_MIN
    now = START + 10 * SECOND
    taken(pacer, now, 1)
    wait_us = pacer.wait_us(now)
    assert wait_us is not None
    assert 0 < wait_us <= 2 * SECOND


def test_what_goes_into_no_queue_finds_none_full() -> None:
    pacer = Pacer(KNOWN, queues=False)
    refused(pacer, START)
    assert not pacer.figures(START).queue_full
