"""A process that goes on in the place of one that let go in order: exactly as that one would have."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.limits.rate_pacer import Limit, Pacer
from orchestrator.core.limits.request_slots import PacerLeft, SlotsLeft
from orchestrator.core.polling.admission import Throughput
from tests.limits.simulated import SECOND, START

LIMITS = (Limit(1000, 10, 200), Limit(100, 10, 20), Limit(10, 10, 2), Limit(1, 1))


def driven(pacer: Pacer, now: int, trips: list[int]) -> tuple[list[int], int]:
    """When requests left that were sent as soon as they might be, each once the one before was answered."""
    left = []
    for trip in trips:
        wait = pacer.wait_us(now)
        assert wait is not None
        now += wait
        pacer.take(now)
        left.append(now)
        now += trip
        pacer.answered(now, now - trip, 200)
    return left, now


@given(
    limit=st.sampled_from(LIMITS),
    before=st.lists(st.integers(1, SECOND), max_size=40),
    after=st.lists(st.integers(1, SECOND), min_size=1, max_size=20),
    is_eased=st.booleans(),
    lost=st.integers(0, 2),
)
def test_it_sends_when_the_other_one_would_have(
    limit: Limit, before: list[int], after: list[int], *, is_eased: bool, lost: int
) -> None:
    one, other = Pacer(limit), Pacer(limit)
    if is_eased:
        one.ease_in(START)
    _, now = driven(one, START, before)
    for _ in range(lost):
        if one.wait_us(now) == 0:
            one.take(now)
            one.given_up(now)
    other.go_on(one.left(now), now)
    assert other.available(now, SECOND) == one.available(now, SECOND)
    if one.wait_us(now) is not None:
        assert driven(other, now, after) == driven(one, now, after)


def test_what_is_on_its_way_counts_as_given_up() -> None:
    pacer, other = Pacer(Limit(100, 10, 1), "window"), Pacer(Limit(100, 10, 1), "window")
    pacer.take(START)
    assert pacer.wait_us(START) is None
    other.go_on(pacer.left(START), START)
    assert other.wait_us(START) == 10 * SECOND


def test_a_pause_that_the_service_wants_and_a_lower_rate_go_on() -> None:
    pacer, other = Pacer(Limit(100, 10)), Pacer(Limit(100, 10))
    left = PacerLeft(SlotsLeft(), next_in_ns=0, trip=1_000, paused_for=3 * SECOND, share=0.5, stray=0.01)
    other.go_on(left, START)
    assert other.throttled_until == START + 3 * SECOND
    assert (other.figures(START).share, other.figures(START).stray) == (0.5, 0.01)
    assert other.left(START) == left
    pacer.go_on(other.left(START), START)
    sent, _ = driven(pacer, START, [1_000] * 40)
    assert sent[-1] - START > 6 * SECOND, "the full rate takes four seconds"


def test_a_rate_that_was_cut_is_tried_to_be_raised_after_a_while() -> None:
    pacer = Pacer(Limit(1000, 10))
    pacer.go_on(PacerLeft(SlotsLeft(), next_in_ns=0, trip=1_000, share=0.5), START)
    _, now = driven(pacer, START, [1_000] * 5_000)
    assert pacer.figures(now).share == 1


def test_what_has_finished_of_late_is_known_on() -> None:
    one, other = Throughput(), Throughput()
    other.go_on(*one.left(START), START)
    assert other.per_s(START) == 0
    for second in range(100):
        one.observe(START + second * SECOND)
    now = START + 100 * SECOND
    other.go_on(*one.left(now), now)
    assert other.per_s(now) == pytest.approx(one.per_s(now))
    other.observe(now)
    assert other.per_s(now + SECOND) == pytest.approx(1, rel=0.05)
