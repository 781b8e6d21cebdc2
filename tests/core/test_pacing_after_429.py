"""What a 429 does to the pacing: a pause, one cut for each episode, a slow recovery."""

import pytest

from orchestrator.core.pacing import (
    BACKOFF_US_MAX,
    CUT,
    RECOVERY_PER_WINDOW,
    RETRY_AFTER_S_MAX,
    SHARE_MIN,
    Limit,
    Pacer,
)

MILLISECOND = 1_000
SECOND = 1_000_000
START = 1_700_000_000 * SECOND


def busy_pacer(requests: int = 100, used: int = 90) -> Pacer:
    """A pacer whose allowance is mostly used, so that a 429 is about the rate."""
    pacer = Pacer(Limit(requests, 10), "window")
    for _ in range(used):
        pacer.take(START)
        pacer.answered(START, START, 200)
    return pacer


def throttle(pacer: Pacer, sent_at: int, now: int, retry_after_s: float | None = None) -> None:
    pacer.take(sent_at)
    pacer.answered(now, sent_at, 429, retry_after_s)


def test_nothing_is_sent_before_retry_after() -> None:
    pacer = busy_pacer()
    throttle(pacer, START, START + 1, retry_after_s=2.5)
    assert pacer.available(START + 1, 2 * SECOND) == 0
    assert pacer.figures(START + 1).free_at is not None
    assert (pacer.figures(START + 1).free_at or 0) >= START + 1 + 2_500_000
    assert pacer.figures(START + 1).throttled == 1


def test_an_absurd_retry_after_is_an_hour_and_a_negative_one_nothing() -> None:
    pacer = Pacer(Limit(100, 10), "window")
    throttle(pacer, START, START, retry_after_s=1e12)
    assert pacer.wait_us(START) == RETRY_AFTER_S_MAX * SECOND
    pacer = Pacer(Limit(100, 10), "window")
    throttle(pacer, START, START, retry_after_s=-5)
    assert pacer.wait_us(START) == 0


def test_the_rate_is_cut_once_for_all_requests_that_left_before_the_cut() -> None:
    pacer = busy_pacer()
    for n in range(5):
        throttle(pacer, START, START + n, retry_after_s=0)
    assert pacer.allowance == 70
    throttle(pacer, START + 9 * SECOND, START + 9 * SECOND, retry_after_s=0)
    assert pacer.figures(START + 9 * SECOND).share < 0.71, "within one window of the cut: no second one"
    assert pacer.figures(START + 9 * SECOND).share >= CUT


def test_the_rate_is_cut_again_when_429s_go_on_after_a_window() -> None:
    pacer = Pacer(Limit(2, 10), "window")
    now = START
    for _ in range(20):
        throttle(pacer, now, now, retry_after_s=0)
        now += 11 * SECOND
    assert pacer.figures(now).share == pytest.approx(SHARE_MIN + 1.1 * RECOVERY_PER_WINDOW)
    assert pacer.allowance == 1, "never nothing"


def test_the_rate_recovers_slowly_and_wholly() -> None:
    pacer = busy_pacer()
    throttle(pacer, START, START, retry_after_s=0)
    assert pacer.figures(START + 100 * SECOND).share == pytest.approx(CUT + 10 * RECOVERY_PER_WINDOW)
    assert pacer.figures(START + 150 * SECOND).share > CUT + 15 * RECOVERY_PER_WINDOW, "faster after ten windows"
    assert pacer.figures(START + 180 * SECOND).share == 1
    assert pacer.allowance == 100


def test_even_pacing_is_stretched_by_a_cut() -> None:
    pacer = Pacer(Limit(1, 10))
    throttle(pacer, START, START, retry_after_s=0)
    whole = pacer.wait_us(START)
    assert whole is not None
    now = START + whole
    assert pacer.wait_us(now) == 0, "the request before the cut was paced as ever"
    pacer.take(now)
    pacer.not_sent()
    windows = whole / (10 * SECOND)
    wait = pacer.wait_us(now)
    assert wait == pytest.approx(whole / (CUT + windows * RECOVERY_PER_WINDOW), rel=0.02)


def test_without_retry_after_the_pause_doubles_up_to_a_minute_and_ends_with_the_first_good_answer() -> None:
    pacer = Pacer(Limit(1000, 1), "window")
    now, pauses = START, []
    for _ in range(8):
        throttle(pacer, now, now + 1)
        pauses.append(pacer.wait_us(now + 1))
        now += 2 * BACKOFF_US_MAX
    assert pauses == [n * SECOND for n in (1, 2, 4, 8, 16, 32, 60, 60)]
    pacer.take(now)
    pacer.answered(now, now, 200)
    throttle(pacer, now + 1, now + 1)
    assert pacer.wait_us(now + 1) == SECOND


def test_429s_to_requests_that_left_before_the_pause_do_not_double_it() -> None:
    pacer = busy_pacer()
    for n in range(5):
        throttle(pacer, START, START + n)
    after_the_window = START + 10 * SECOND + 4
    throttle(pacer, after_the_window, after_the_window)
    assert pacer.wait_us(after_the_window) == 2 * SECOND, "the second pause, not the sixth"


def test_a_good_answer_to_an_older_request_ends_no_pause() -> None:
    pacer = Pacer(Limit(1000, 10), "window")
    pacer.take(START)
    throttle(pacer, START, START + 10)
    pacer.answered(START + 20, START, 200)
    assert pacer.wait_us(START + 20) == SECOND - 10
    assert pacer.figures(START + 20).queue_full


def test_a_full_queue_gets_one_request_at_a_time_until_it_takes_one() -> None:
    pacer = busy_pacer(used=10)
    throttle(pacer, START + 1, START + 2)
    now = START + 2 + SECOND
    assert (pacer.wait_us(now), pacer.available(now, SECOND)) == (0, 1)
    pacer.take(now)
    assert (pacer.wait_us(now), pacer.available(now, SECOND)) == (None, 0), "what the one comes to has to be seen"
    pacer.answered(now + 1, now, 429)
    assert pacer.wait_us(now + 1) == 2 * SECOND, "still full"
    now += 1 + 2 * SECOND
    pacer.take(now)
    pacer.not_sent()
    assert pacer.wait_us(now) == 0, "one that never left says nothing of the queue"
    pacer.take(now)
    pacer.answered(now, now, 200)
    assert pacer.available(now, 0) > 10


def test_what_the_service_says_is_left_is_obeyed_with_those_in_flight_in_mind() -> None:
    pacer = Pacer(Limit(100, 10), "window")
    pacer.take(START)
    pacer.take(START)
    pacer.observe_remaining(START, 3, START + 5 * SECOND)
    assert pacer.wait_us(START) == 0
    pacer.observe_remaining(START, 2, START + 5 * SECOND)
    assert pacer.wait_us(START) == 5 * SECOND
    pacer.observe_remaining(START, 0, START + 10**15)
    assert pacer.wait_us(START) == RETRY_AFTER_S_MAX * SECOND


def test_a_429_far_below_the_allowance_means_a_full_queue_and_cuts_nothing() -> None:
    pacer = busy_pacer(used=10)
    throttle(pacer, START + 1, START + 2)
    assert pacer.figures(START + 2).queue_full
    assert pacer.figures(START + 2).share == 1
    later = START + 3 * SECOND
    pacer.take(later)
    pacer.answered(later, later, 200)
    assert not pacer.figures(later).queue_full
