"""Holding back while submissions go unanswered."""

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.silence import MANY, PAUSE_US_MAX, PAUSE_US_MIN, Silence

SECOND = 1_000_000


def silent(times: int, *, at: int = 0) -> Silence:
    silence = Silence()
    for _ in range(times):
        silence.unanswered(sent_at=at, now=at)
    return silence


def test_a_few_unanswered_submissions_hold_nothing_back() -> None:
    assert silent(MANY - 1).room(0, in_flight=5) is None


def test_after_many_in_a_row_one_leaves_at_a_time_after_a_pause() -> None:
    silence = silent(MANY)
    assert silence.room(PAUSE_US_MIN - 1, in_flight=0) == 0
    assert silence.room(PAUSE_US_MIN, in_flight=0) == 1
    assert silence.room(PAUSE_US_MIN, in_flight=1) == 0


def test_those_that_left_before_the_pause_do_not_make_it_longer() -> None:
    silence = silent(MANY + 200)
    assert silence.room(PAUSE_US_MIN, in_flight=0) == 1


def test_pauses_double_up_to_a_minute_and_one_answer_ends_them() -> None:
    silence, now, pauses = silent(MANY), 0, []
    for _ in range(9):
        pause_us = next(us for us in range(0, PAUSE_US_MAX + 1, SECOND) if silence.room(now + us, in_flight=0))
        pauses.append(pause_us // SECOND)
        now += pause_us
        silence.unanswered(sent_at=now, now=now)
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    silence.answered()
    assert not silence.is_long
    assert silence.room(now, in_flight=50) is None


@given(answers=st.lists(st.booleans(), max_size=60), gap_us=st.integers(0, 90 * SECOND))
def test_it_holds_back_only_while_the_latest_many_went_unanswered(answers: list[bool], gap_us: int) -> None:
    silence, now = Silence(), 0
    for is_answered in answers:
        now += gap_us
        if is_answered:
            silence.answered()
        else:
            silence.unanswered(sent_at=now, now=now)
    latest = answers[-MANY:]
    assert silence.is_long == (len(latest) == MANY and not any(latest))
    assert silence.room(now + PAUSE_US_MAX, in_flight=0) in {None, 1}
