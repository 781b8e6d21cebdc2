"""Going on singly while a service answers nothing: submissions, questions, and what the display is told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.gates.circuit_breaker import (
    COSTLY_PAUSE_US_MAX,
    MANY,
    PAUSE_US_MAX,
    QUESTIONS,
    SHOWN_AFTER_US,
    STALE_US,
    SUBMISSIONS,
    CircuitBreaker,
    CircuitRules,
    Connectivity,
)

SECOND = 1_000_000
LASTING_US = QUESTIONS.lasting_us
KINDS = st.sampled_from([SUBMISSIONS, QUESTIONS])


def after(failures: int, *, is_costly: bool = True) -> CircuitBreaker:
    """The breaker of submissions after so many that failed at 0."""
    breaker = CircuitBreaker(SUBMISSIONS)
    for _ in range(failures):
        breaker.record_failure(sent_at=0, now=0, is_costly=is_costly)
    return breaker


def pauses(breaker: CircuitBreaker, number: int, *, is_costly: bool) -> list[float]:
    """The pauses, in seconds, of a tripped breaker whose single submissions fail."""
    now, found = 0, []
    for _ in range(number):
        pause_us = next(us for us in range(0, COSTLY_PAUSE_US_MAX + 1, SECOND // 20) if not breaker.wait_us(now + us))
        found.append(pause_us / SECOND)
        now += pause_us
        breaker.record_failure(sent_at=now, now=now, is_costly=is_costly)
    return found


# --- submissions


def test_a_few_unanswered_submissions_hold_nothing_back() -> None:
    assert after(MANY - 1).until is None


def test_after_many_in_a_row_the_next_one_leaves_after_a_pause() -> None:
    breaker = after(MANY)
    assert breaker.until is not None
    assert SUBMISSIONS.pause_us_min // 2 < breaker.until <= SUBMISSIONS.pause_us_min


def test_those_that_left_before_the_pause_do_not_make_it_longer() -> None:
    breaker = after(MANY + 200)
    assert breaker.wait_us(SUBMISSIONS.pause_us_min) == 0


def test_pauses_double_up_to_a_minute_and_one_answer_ends_them() -> None:
    breaker = after(MANY)
    for pause_s, most_s in zip(pauses(breaker, 9, is_costly=True), (1, 2, 4, 8, 16, 32, 60, 60, 60), strict=True):
        assert 0.75 * most_s <= pause_s <= most_s
    assert breaker.record_success(0)
    assert not breaker.is_tripped
    assert not breaker.is_costly
    assert breaker.until is None


def test_what_cost_nothing_is_tried_again_after_seconds() -> None:
    breaker = after(MANY, is_costly=False)
    assert max(pauses(breaker, 9, is_costly=False)) <= PAUSE_US_MAX / SECOND
    assert not breaker.is_costly


@pytest.mark.parametrize("is_costly", [True, False])
def test_a_pause_after_what_cost_nothing_leaves_the_one_for_what_costs_as_it_was(*, is_costly: bool) -> None:
    breaker = after(MANY)
    pauses(breaker, 4, is_costly=True)
    last = pauses(breaker, 3, is_costly=is_costly)[-1]
    assert last > 16 if is_costly else last <= PAUSE_US_MAX / SECOND


def test_a_submission_that_was_sent_before_an_answer_came_counts_as_it_may_be_paid_twice() -> None:
    breaker = after(0)
    breaker.record_success(40 * SECOND)
    assert any(breaker.record_failure(sent_at=39 * SECOND, now=50 * SECOND, is_costly=True) for _ in range(MANY))


def test_the_pause_of_submissions_begins_with_a_failure_and_not_as_one_leaves() -> None:
    breaker = after(MANY)
    breaker.record_sent(SECOND, left_us=None)
    assert breaker.wait_us(SECOND) == 0


@given(answers=st.lists(st.booleans(), max_size=60), gap_us=st.integers(0, 90 * SECOND), is_costly=st.booleans())
def test_it_holds_back_only_while_the_latest_many_went_unanswered(
    answers: list[bool], gap_us: int, *, is_costly: bool
) -> None:
    breaker, now = CircuitBreaker(SUBMISSIONS), 0
    for is_answered in answers:
        now += gap_us
        if is_answered:
            breaker.record_success(now)
        else:
            breaker.record_failure(sent_at=now, now=now, is_costly=is_costly)
    latest = answers[-MANY:]
    assert breaker.is_tripped == (len(latest) == MANY and not any(latest))
    assert breaker.wait_us(now + COSTLY_PAUSE_US_MAX) == 0


# --- questions


def gone() -> CircuitBreaker:
    """The breaker of questions that has tripped just now, at a second."""
    breaker = CircuitBreaker(QUESTIONS)
    for n in range(MANY):
        breaker.record_failure(sent_at=n, now=LASTING_US)
    return breaker


def test_many_in_a_row_within_a_moment_say_nothing_of_the_service() -> None:
    breaker = CircuitBreaker(QUESTIONS)
    assert not any(breaker.record_failure(sent_at=n, now=n + LASTING_US // 2) for n in range(100 * MANY))
    assert not breaker.is_tripped
    assert breaker.wait_us(LASTING_US) == 0


def test_a_few_over_a_long_time_say_nothing_of_the_service() -> None:
    breaker = CircuitBreaker(QUESTIONS)
    assert not any(breaker.record_failure(sent_at=n * SECOND, now=n * SECOND) for n in range(MANY - 1))
    assert not breaker.is_tripped


def test_many_over_a_second_trip_it_which_is_told_once() -> None:
    breaker = CircuitBreaker(QUESTIONS)
    times = [n * LASTING_US // 10 for n in range(2 * MANY)]
    told = [breaker.record_failure(sent_at=at, now=at) for at in times]
    assert told.index(True) == MANY
    assert sum(told) == 1
    assert 0 < breaker.wait_us(LASTING_US) <= PAUSE_US_MAX


def test_questions_that_left_without_one_another_s_answers_may_return_in_any_order() -> None:
    breaker = CircuitBreaker(QUESTIONS)
    for sent_at in range(MANY - 1, 0, -1):
        breaker.record_failure(sent_at=sent_at, now=LASTING_US)
    assert breaker.record_failure(sent_at=0, now=LASTING_US)


def test_pauses_grow_to_some_seconds_and_one_answer_ends_them() -> None:
    breaker, now, found = gone(), LASTING_US, []
    for _ in range(6):
        found.append(breaker.wait_us(now))
        now += found[-1]
        breaker.record_sent(now, left_us=None)
        assert breaker.wait_us(now), "as it leaves, whatever becomes of it"
        assert not breaker.record_failure(sent_at=now, now=now)
    assert QUESTIONS.pause_us_min * 3 // 4 <= found[0] <= QUESTIONS.pause_us_min
    assert all(PAUSE_US_MAX * 3 // 4 <= pause <= PAUSE_US_MAX for pause in found[3:])
    assert breaker.record_success(now)
    assert not breaker.is_tripped
    assert breaker.wait_us(now) == 0
    assert not breaker.record_success(now)


def test_the_next_question_does_not_wait_for_the_answer_to_one_that_hangs() -> None:
    breaker, now = gone(), LASTING_US
    for _ in range(5):
        now += breaker.wait_us(now)
        breaker.record_sent(now, left_us=None)
        assert breaker.wait_us(now) >= QUESTIONS.pause_us_min * 3 // 4, "but for a pause of its own"
    until = now + breaker.wait_us(now)
    breaker.record_failure(sent_at=LASTING_US, now=now)  # nor do they make the pause longer as they are given up
    assert now + breaker.wait_us(now) == until


def test_while_questions_are_answered_none_makes_another_one_wait() -> None:
    breaker = CircuitBreaker(QUESTIONS)
    breaker.record_sent(5, left_us=None)
    assert breaker.wait_us(5) == 0


def test_a_question_from_before_an_answer_says_nothing_of_the_time_after_it() -> None:
    breaker = gone()
    breaker.record_success(40 * SECOND)
    for n in range(5 * MANY):  # they hung for 30 s, and are given up now
        breaker.record_failure(sent_at=39 * SECOND, now=50 * SECOND + n)
    assert not breaker.is_tripped
    assert not breaker.record_failure(sent_at=41 * SECOND, now=60 * SECOND)


@given(left_us=st.integers(0, 60 * SECOND), sent=st.integers(1, 8))
def test_the_pace_grows_towards_the_moment_at_which_a_result_may_be_lost(left_us: int, sent: int) -> None:
    breaker = gone()
    for _ in range(sent):
        breaker.record_sent(LASTING_US, left_us=left_us)
    assert 0 < breaker.wait_us(LASTING_US) <= max(min(left_us // 2, PAUSE_US_MAX), QUESTIONS.pause_us_min)


@given(answers=st.lists(st.booleans(), max_size=60), gap_us=st.integers(1, 90 * SECOND))
def test_it_trips_only_after_many_in_a_row_over_a_second(answers: list[bool], gap_us: int) -> None:
    breaker, now = CircuitBreaker(QUESTIONS), 0
    for is_answered in answers:
        now += gap_us
        if is_answered:
            breaker.record_success(now)
        else:
            breaker.record_failure(sent_at=now, now=now)
    missed = answers[::-1].index(True) if True in answers else len(answers)
    assert breaker.is_tripped == (missed >= MANY and (missed - 1) * gap_us >= LASTING_US)
    assert breaker.wait_us(now) <= PAUSE_US_MAX


# --- both


STEPS = st.lists(
    st.tuples(st.sampled_from(["answered", "failed", "costly", "sent"]), st.integers(0, 40 * SECOND)), max_size=80
)


@given(rules=KINDS, steps=STEPS, trip_us=st.integers(0, 30 * SECOND))
def test_whatever_happens_no_pause_is_longer_than_the_longest_and_one_answer_ends_it(
    rules: CircuitRules, steps: list[tuple[str, int]], trip_us: int
) -> None:
    breaker, now = CircuitBreaker(rules), 0
    for what, gap_us in steps:
        now += gap_us
        was_tripped = breaker.is_tripped
        match what:
            case "answered":
                assert breaker.record_success(now) is was_tripped
                assert breaker.until is None
            case "sent":
                breaker.record_sent(now, left_us=None)
            case _:
                trips = breaker.record_failure(sent_at=max(0, now - trip_us), now=now, is_costly=what == "costly")
                assert trips is (breaker.is_tripped and not was_tripped)
        assert breaker.wait_us(now) <= (COSTLY_PAUSE_US_MAX if breaker.is_costly else PAUSE_US_MAX)
        assert breaker.is_tripped or breaker.wait_us(now) == 0


# --- the read-out


def failed(connectivity: Connectivity, at_s: int) -> None:
    connectivity.record_failure(sent_at=at_s * SECOND, now=at_s * SECOND)


def test_nothing_is_said_before_anything_failed_and_after_an_answer() -> None:
    connectivity = Connectivity()
    assert connectivity.unreachable_us(0) is None
    failed(connectivity, 5)
    failed(connectivity, 20)
    connectivity.record_success(21 * SECOND)
    assert connectivity.unreachable_us(30 * SECOND) is None


def test_the_time_counts_from_the_first_failure_since_an_answer() -> None:
    connectivity = Connectivity()
    failed(connectivity, 5)
    connectivity.record_success(6 * SECOND)
    failed(connectivity, 100)
    failed(connectivity, 160)
    assert connectivity.unreachable_us(170 * SECOND) == 70 * SECOND


def test_a_request_that_timed_out_tells_of_the_time_since_it_was_sent_or_another_was_answered() -> None:
    connectivity = Connectivity()
    connectivity.record_failure(sent_at=100 * SECOND, now=130 * SECOND)
    assert connectivity.unreachable_us(131 * SECOND) == 31 * SECOND
    connectivity.record_success(140 * SECOND)
    connectivity.record_failure(sent_at=135 * SECOND, now=165 * SECOND)
    assert connectivity.unreachable_us(165 * SECOND) == 25 * SECOND


def test_a_single_failure_is_not_spoken_of_at_once() -> None:
    connectivity = Connectivity()
    failed(connectivity, 1)
    assert connectivity.unreachable_us(SECOND + SHOWN_AFTER_US - 1) is None
    assert connectivity.unreachable_us(SECOND + SHOWN_AFTER_US) == SHOWN_AFTER_US


def test_what_nobody_has_tried_for_long_is_not_known() -> None:
    connectivity = Connectivity()
    failed(connectivity, 1)
    assert connectivity.unreachable_us(SECOND + STALE_US) == STALE_US
    assert connectivity.unreachable_us(SECOND + STALE_US + 1) is None
