"""Holding back while submissions go unanswered."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.silence import FREE_PAUSE_US_MAX, MANY, PAUSE_US_MAX, PAUSE_US_MIN, Silence

SECOND = 1_000_000


def silent(times: int, *, at: int = 0, is_costly: bool = True) -> Silence:
    silence = Silence()
    for _ in range(times):
        silence.unanswered(sent_at=at, now=at, is_costly=is_costly)
    return silence


def pauses(silence: Silence, number: int, *, is_costly: bool) -> list[float]:
    """The pauses of a long silence that goes on, in seconds."""
    now, found = 0, []
    for _ in range(number):
        pause_us = next(us for us in range(0, PAUSE_US_MAX + 1, SECOND // 20) if not silence.wait_us(now + us))
        found.append(pause_us / SECOND)
        now += pause_us
        silence.unanswered(sent_at=now, now=now, is_costly=is_costly)
    return found


def test_a_few_unanswered_submissions_hold_nothing_back() -> None:
    assert silent(MANY - 1).available(0, in_flight=5) is None


def test_after_many_in_a_row_one_leaves_at_a_time_after_a_pause() -> None:
    silence = silent(MANY)
    assert silence.available(PAUSE_US_MIN // 2, in_flight=0) == 0
    assert silence.available(PAUSE_US_MIN, in_flight=0) == 1
    assert silence.available(PAUSE_US_MIN, in_flight=1) == 0


def test_those_that_left_before_the_pause_do_not_make_it_longer() -> None:
    silence = silent(MANY + 200)
    assert silence.available(PAUSE_US_MIN, in_flight=0) == 1


def test_pauses_double_up_to_a_minute_and_one_answer_ends_them() -> None:
    silence = silent(MANY)
    for pause_s, most_s in zip(pauses(silence, 9, is_costly=True), (1, 2, 4, 8, 16, 32, 60, 60, 60), strict=True):
        assert 0.75 * most_s <= pause_s <= most_s
    silence.answered()
    assert not silence.is_long
    assert not silence.is_costly
    assert silence.available(0, in_flight=50) is None


def test_what_cost_nothing_is_tried_again_after_seconds() -> None:
    silence = silent(MANY, is_costly=False)
    assert max(pauses(silence, 9, is_costly=False)) <= FREE_PAUSE_US_MAX / SECOND
    assert not silence.is_costly


@pytest.mark.parametrize("is_costly", [True, False])
def test_a_pause_after_what_cost_nothing_leaves_the_one_for_what_costs_as_it_was(*, is_costly: bool) -> None:
    silence = silent(MANY)
    pauses(silence, 4, is_costly=True)
    last = pauses(silence, 3, is_costly=is_costly)[-1]
    assert last > 16 if is_costly else last <= FREE_PAUSE_US_MAX / SECOND


@given(answers=st.lists(st.booleans(), max_size=60), gap_us=st.integers(0, 90 * SECOND), is_costly=st.booleans())
def test_it_holds_back_only_while_the_latest_many_went_unanswered(
    answers: list[bool], gap_us: int, *, is_costly: bool
) -> None:
    silence, now = Silence(), 0
    for is_answered in answers:
        now += gap_us
        if is_answered:
            silence.answered()
        else:
            silence.unanswered(sent_at=now, now=now, is_costly=is_costly)
    latest = answers[-MANY:]
    assert silence.is_long == (len(latest) == MANY and not any(latest))
    assert silence.available(now + PAUSE_US_MAX, in_flight=0) in {None, 1}
