"""Asking on while no question is answered."""

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.outage import LASTING_US, MANY, PAUSE_US_MAX, PAUSE_US_MIN, Outage

SECOND = 1_000_000


def gone(*, since: int = 0) -> Outage:
    """An outage that began just now, at `since` + a second."""
    outage = Outage()
    for n in range(MANY):
        outage.missed(sent_at=since + n, now=since + LASTING_US)
    return outage


def test_many_in_a_row_within_a_moment_are_no_outage() -> None:
    outage = Outage()
    assert not any(outage.missed(sent_at=n, now=n + LASTING_US // 2) for n in range(100 * MANY))
    assert not outage.is_on
    assert outage.wait_us(LASTING_US) == 0


def test_a_few_over_a_long_time_are_no_outage() -> None:
    outage = Outage()
    assert not any(outage.missed(sent_at=n * SECOND, now=n * SECOND) for n in range(MANY - 1))
    assert not outage.is_on


def test_many_over_a_second_are_one_and_its_beginning_is_told_once() -> None:
    outage = Outage()
    told = [outage.missed(sent_at=n * LASTING_US // 10, now=n * LASTING_US // 10) for n in range(2 * MANY)]
    assert told.index(True) == MANY
    assert sum(told) == 1
    assert 0 < outage.wait_us(LASTING_US) <= PAUSE_US_MAX


def test_questions_that_left_without_one_another_s_answers_may_return_in_any_order() -> None:
    outage = Outage()
    for sent_at in range(MANY - 1, 0, -1):
        outage.missed(sent_at=sent_at, now=LASTING_US)
    assert outage.missed(sent_at=0, now=LASTING_US)


def test_pauses_grow_to_some_seconds_and_one_answer_ends_them() -> None:
    outage, now, pauses = gone(), LASTING_US, []
    for _ in range(6):
        pauses.append(outage.wait_us(now))
        now += pauses[-1]
        outage.asked(now, left_us=None)
        assert not outage.missed(sent_at=now, now=now)
    assert PAUSE_US_MIN * 3 // 4 <= pauses[0] <= PAUSE_US_MIN
    assert all(PAUSE_US_MAX * 3 // 4 <= pause <= PAUSE_US_MAX for pause in pauses[3:])
    assert outage.heard(now)
    assert not outage.is_on
    assert outage.wait_us(now) == 0
    assert not outage.heard(now)


def test_without_an_outage_no_question_makes_another_one_wait() -> None:
    outage = Outage()
    outage.asked(5, left_us=None)
    assert outage.wait_us(5) == 0


def test_a_question_from_before_an_answer_says_nothing_of_the_time_after_it() -> None:
    outage = gone()
    outage.heard(40 * SECOND)
    for n in range(5 * MANY):  # they hung for 30 s, and are given up now
        outage.missed(sent_at=39 * SECOND, now=50 * SECOND + n)
    assert not outage.is_on
    assert not outage.missed(sent_at=41 * SECOND, now=60 * SECOND)


@given(left_us=st.integers(0, 60 * SECOND), asked=st.integers(1, 8))
def test_the_pace_grows_towards_the_moment_at_which_a_result_may_be_lost(left_us: int, asked: int) -> None:
    outage = gone()
    for _ in range(asked):
        outage.asked(LASTING_US, left_us=left_us)
    assert outage.wait_us(LASTING_US) <= max(min(left_us // 2, PAUSE_US_MAX), PAUSE_US_MIN)
    assert outage.wait_us(LASTING_US) > 0


@given(answers=st.lists(st.booleans(), max_size=60), gap_us=st.integers(1, 90 * SECOND))
def test_it_is_on_only_after_many_in_a_row_over_a_second(answers: list[bool], gap_us: int) -> None:
    outage, now = Outage(), 0
    for is_answered in answers:
        now += gap_us
        if is_answered:
            outage.heard(now)
        else:
            outage.missed(sent_at=now, now=now)
    missed = answers[::-1].index(True) if True in answers else len(answers)
    assert outage.is_on == (missed >= MANY and (missed - 1) * gap_us >= LASTING_US)
    assert outage.wait_us(now) <= PAUSE_US_MAX
