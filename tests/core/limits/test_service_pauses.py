"""Requests that leave although the service wants none: what their answers make of the pause, and of the rate."""

from orchestrator.core.limits.rate_pacer import Limit, Pacer

S = 1_000_000
START = 1_700_000_000 * S
HOUR_S = 3_600.0


def pausing(pacer: Pacer | None = None) -> Pacer:
    """A pacer of a service that has wanted an hour's rest at `START`."""
    pacer = pacer or Pacer(Limit(100, 10), queues=False)
    pacer.take(START - S)
    pacer.answered(START, START - S, 429, HOUR_S)
    return pacer


def single(pacer: Pacer, at: int, status: int, retry_after_s: float | None = None) -> None:
    assert pacer.wait_us(at, past_throttle=True) == 0
    pacer.take(at)
    pacer.answered(at + 1, at, status, retry_after_s)


def test_a_request_may_leave_past_the_pause_but_not_past_our_limits() -> None:
    pacer = pausing(Pacer(Limit(2, 10), queues=False))
    assert pacer.throttled_until == START + round(HOUR_S) * S
    pacer.observe_remaining(START, 0, START + S)
    assert pacer.throttled_until == START + round(HOUR_S) * S, "the longer one holds"
    assert pacer.wait_us(START + S) == round(HOUR_S - 1) * S
    wait_us = pacer.wait_us(START, past_throttle=True)
    assert wait_us
    assert wait_us < 20 * S
    pacer.take(START + 20 * S)
    assert pacer.wait_us(START + 20 * S, past_throttle=True) != 0


def test_one_that_is_answered_ends_the_pause() -> None:
    pacer = pausing()
    single(pacer, START + 600 * S, 200)
    assert pacer.wait_us(START + 601 * S) == 0


def test_one_that_is_refused_lets_the_pause_stand_and_cuts_nothing() -> None:
    pacer = pausing()
    share = pacer.figures(START + 600 * S).share
    for n in range(30):
        single(pacer, START + (600 + 20 * n) * S, 429, HOUR_S)
    assert pacer.figures(START + 1_200 * S).share >= share
    assert pacer.throttled_until == START + (600 + 20 * 29 + round(HOUR_S)) * S + 1
    single(pacer, START + 1_201 * S, 200)
    assert pacer.figures(START + 1_202 * S).share >= share, "nor does it, once one is answered"


def test_the_answer_to_one_that_left_before_the_pause_does_not_end_it() -> None:
    pacer = Pacer(Limit(100, 10), "window", queues=False)
    pacer.take(START)
    pacer.take(START)
    pacer.observe_remaining(START + S, 0, START + 100 * S)
    pacer.answered(START + 2 * S, START, 200)
    assert pacer.wait_us(START + 2 * S) == 98 * S
    pacer.answered(START + 60 * S, START + 50 * S, 200)
    assert pacer.wait_us(START + 60 * S) == 0
