"""What a 429 does to the pacing: pauses where all are refused, or where the service wishes one."""

import pytest

from orchestrator.core.limits.rate_pacer import Limit, Pacer
from orchestrator.core.limits.service_pauses import BACKOFF_US_MAX, BACKOFF_US_MIN, REFUSED_IN_ROW, RETRY_AFTER_S_MAX

MILLISECOND = 1_000
SECOND = 1_000_000
START = 1_700_000_000 * SECOND


def busy_pacer(requests: int = 100, used: int = 90) -> Pacer:
    """A pacer whose allowance is mostly used, so that 429s are about the rate."""
    pacer = Pacer(Limit(requests, 10), "window")
    for _ in range(used):
        pacer.take(START)
        pacer.answered(START, START, 200)
    return pacer


def throttle(pacer: Pacer, sent_at: int, now: int, retry_after_s: float | None = None, *, times: int = 1) -> None:
    for _ in range(times):
        pacer.take(sent_at)
        pacer.answered(now, sent_at, 429, retry_after_s)


def shut(pacer: Pacer, now: int) -> None:
    throttle(pacer, now, now, times=REFUSED_IN_ROW)


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


@pytest.mark.parametrize("times", [1, REFUSED_IN_ROW - 1])
def test_a_few_429s_are_no_reason_for_a_pause_or_a_lower_rate(times: int) -> None:
    pacer = busy_pacer(used=50)
    throttle(pacer, START, START, times=times)
    figures = pacer.figures(START)
    assert (pacer.wait_us(START), figures.share, figures.queue_full) == (0, 1, False)


def test_one_that_is_taken_between_begins_the_row_of_429s_anew() -> None:
    pacer = busy_pacer(used=50)
    throttle(pacer, START, START, times=REFUSED_IN_ROW - 1)
    pacer.take(START)
    pacer.answered(START, START, 200)
    throttle(pacer, START, START, times=REFUSED_IN_ROW - 1)
    assert pacer.wait_us(START) == 0


def test_where_all_are_refused_the_pause_doubles_up_to_a_minute_and_ends_with_the_first_good_answer() -> None:
    pacer = Pacer(Limit(1000, 1), "window")
    now, pauses = START, []
    throttle(pacer, now, now + 1, times=REFUSED_IN_ROW - 1)
    for _ in range(9):
        throttle(pacer, now, now + 1)
        pauses.append(pacer.wait_us(now + 1))
        now += 2 * BACKOFF_US_MAX
    assert pauses == [n * SECOND // 2 for n in (1, 2, 4, 8, 16, 32, 64, 120, 120)]
    pacer.take(now)
    pacer.answered(now, now, 200)
    assert pacer.wait_us(now) is not None
    shut(pacer, now + 1)
    assert pacer.wait_us(now + 1) == BACKOFF_US_MIN


def test_429s_to_requests_that_left_before_the_pause_do_not_double_it() -> None:
    pacer = busy_pacer(used=50)
    throttle(pacer, START, START + 1, times=REFUSED_IN_ROW + 3)
    assert pacer.wait_us(START + 1) == BACKOFF_US_MIN
    throttle(pacer, START + SECOND, START + SECOND)
    assert pacer.wait_us(START + SECOND) == 2 * BACKOFF_US_MIN, "the second pause, not the fifth"


def test_a_good_answer_to_an_older_request_ends_no_pause() -> None:
    pacer = Pacer(Limit(1000, 10), "window")
    pacer.take(START)
    throttle(pacer, START, START + 10, times=REFUSED_IN_ROW)
    pacer.answered(START + 20, START, 200)
    assert pacer.wait_us(START + 20) == BACKOFF_US_MIN - 10
    assert pacer.figures(START + 20).queue_full


def test_a_full_queue_gets_one_request_at_a_time_until_it_takes_one() -> None:
    pacer = busy_pacer(used=10)
    throttle(pacer, START + 1, START + 2, times=REFUSED_IN_ROW)
    assert pacer.figures(START + 2).queue_full
    now = START + 2 + SECOND
    assert (pacer.wait_us(now), pacer.available(now, SECOND)) == (0, 1)
    pacer.take(now)
    assert (pacer.wait_us(now), pacer.available(now, SECOND)) == (None, 0), "what the one comes to has to be seen"
    pacer.answered(now + 1, now, 429)
    assert pacer.wait_us(now + 1) == SECOND, "still full"
    now += 1 + 2 * SECOND
    pacer.take(now)
    pacer.not_sent()
    assert pacer.wait_us(now) == 0, "one that never left says nothing of the queue"
    pacer.take(now)
    pacer.answered(now, now, 200)
    assert pacer.available(now, 0) > 10
    assert (pacer.figures(now).share, pacer.figures(now).queue_full) == (1, False)


def test_where_the_allowance_was_in_use_the_rate_is_what_was_taken_until_then_and_sent_evenly() -> None:
    pacer = busy_pacer(used=60)
    at = START + 9 * SECOND
    shut(pacer, at)
    assert not pacer.figures(at).queue_full
    pacer.take(at + SECOND)
    pacer.answered(at + SECOND, at + SECOND, 200)
    assert pacer.figures(at + SECOND).share == pytest.approx(0.6, rel=0.03)
    pacer.take(at + SECOND)
    wait = pacer.wait_us(at + SECOND)
    assert wait is not None
    assert wait > 100 * MILLISECOND, "bursts would have whole windows of them refused"


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
