"""When a result must have been collected, when to ask for it, and what a 404 means."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.jobs.deadlines import (
    ASK_GAP_US_MIN,
    FEW,
    RETENTION_US_DEFAULT,
    WAKING_US,
    Absence,
    absence,
    hard_deadline,
    lost_gap_us,
    margin_left,
    margin_us,
    next_ask,
    safe_until,
    uncertain_grace_us,
)
from orchestrator.core.jobs.job import Job
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.polling.latency import DurationHistogram
from tests.factories import S, a_job, a_job_in
from tests.simulation.clock import EPOCH_AT

MINUTE = 60 * S
RETENTION_US = RETENTION_US_DEFAULT


def outstanding(*, sent_at: int = EPOCH_AT, unfinished_at: int | None = None, ttl_us: int | None = None) -> Job:
    return a_job_in(
        State.OUTSTANDING,
        sent_at=sent_at,
        unfinished_at=sent_at if unfinished_at is None else unfinished_at,
        ttl_at=None if ttl_us is None else sent_at + ttl_us,
    )


retentions = st.integers(10 * S, 4 * RETENTION_US)


@st.composite
def outstanding_jobs(draw: st.DrawFn) -> Job:
    ttl_us = draw(st.integers(10 * S, 7 * 86_400 * S) | st.none())
    age_us = draw(st.integers(0, ttl_us or 7 * 86_400 * S))
    return outstanding(unfinished_at=EPOCH_AT + age_us, ttl_us=ttl_us)


def test_a_result_is_asked_for_a_sixth_of_the_retention_before_it_can_expire() -> None:
    assert margin_us(RETENTION_US) == 5 * MINUTE
    assert hard_deadline(outstanding(unfinished_at=EPOCH_AT + S), RETENTION_US) == EPOCH_AT + S + 25 * MINUTE


def test_a_job_near_its_ttl_is_asked_for_shortly_before_it() -> None:
    assert hard_deadline(outstanding(ttl_us=20 * MINUTE), RETENTION_US) == EPOCH_AT + 18 * MINUTE


def test_where_time_runs_very_fast_there_is_time_left_to_wake_up() -> None:
    job = outstanding(ttl_us=100_000)
    assert job.ttl_at is not None
    assert hard_deadline(job, RETENTION_US) == job.ttl_at - WAKING_US
    assert hard_deadline(outstanding(), 100_000) == EPOCH_AT + 100_000 - WAKING_US


def test_a_job_of_which_nothing_is_known_is_due_at_once() -> None:
    assert hard_deadline(a_job(ttl_at=EPOCH_AT), RETENTION_US) <= RETENTION_US


@given(outstanding_jobs(), retentions)
def test_the_hard_deadline_lies_before_retention_and_ttl_have_run_out(job: Job, retention_us: int) -> None:
    deadline = hard_deadline(job, retention_us)

    assert job.unfinished_at is not None
    assert deadline <= job.unfinished_at + retention_us - margin_us(retention_us)
    assert job.ttl_at is None or deadline < job.ttl_at


def test_the_margin_left_counts_from_the_last_time_it_was_unfinished() -> None:
    assert margin_left(EPOCH_AT, RETENTION_US, EPOCH_AT + 10 * MINUTE) == 20 * MINUTE
    assert margin_left(EPOCH_AT, RETENTION_US, EPOCH_AT + 31 * MINUTE) == -MINUTE


# --- when to ask


def learned(*seconds: float) -> DurationHistogram:
    found = DurationHistogram()
    for each in seconds:
        found.observe(round(each * 1_000))
    return found


known = st.lists(st.floats(0, 10**6), max_size=5).map(lambda seconds: learned(*seconds))


@given(outstanding_jobs(), retentions, known, st.booleans())
def test_the_first_question_comes_before_the_deadline_and_not_before_the_job_was_sent(
    job: Job, retention_us: int, known: DurationHistogram, webhooks: bool
) -> None:
    assert job.unfinished_at is not None
    ask = next_ask(job, asked_at=None, learned=known, webhooks=webhooks, retention_us=retention_us)

    assert job.unfinished_at <= ask.at <= max(hard_deadline(job, retention_us), job.unfinished_at)
    assert not ask.is_likely or known.weight


@given(outstanding_jobs(), retentions, st.integers(0, 8 * 86_400 * S), known, st.booleans())
def test_the_next_question_is_a_second_later_at_least_and_otherwise_before_the_deadline(
    job: Job, retention_us: int, asked_us: int, known: DurationHistogram, webhooks: bool
) -> None:
    asked_at = EPOCH_AT + asked_us
    ask = next_ask(job, asked_at=asked_at, learned=known, webhooks=webhooks, retention_us=retention_us)

    assert ask.at >= asked_at + ASK_GAP_US_MIN
    deadline = hard_deadline(job, retention_us)
    assert asked_at >= deadline or ask.at <= max(deadline, asked_at + ASK_GAP_US_MIN)


def test_past_the_deadline_the_pace_grows_towards_the_last_moment_and_falls_after_it() -> None:
    job = outstanding(ttl_us=20 * MINUTE)

    def gap(before_us: int) -> int:
        at = EPOCH_AT + 20 * MINUTE - before_us
        return next_ask(job, asked_at=at, learned=learned(), webhooks=False, retention_us=RETENTION_US).at - at

    assert [gap(before_us) for before_us in (80 * S, 40 * S, 8 * S, S, 0)] == [10 * S, 5 * S, S, S, S]
    assert [gap(-after_us) for after_us in (S, 40 * S, 86_400 * S)] == [S, 10 * S, 5 * MINUTE]


@given(outstanding_jobs(), retentions)
def test_a_job_is_asked_for_a_bounded_number_of_times_between_its_deadline_and_its_last_moment(
    job: Job, retention_us: int
) -> None:
    assert job.unfinished_at is not None
    last_at = min(job.unfinished_at + retention_us, job.ttl_at or job.unfinished_at + retention_us)
    at, questions = hard_deadline(job, retention_us), 0
    while at < last_at:
        at = next_ask(job, asked_at=at, learned=learned(), webhooks=False, retention_us=retention_us).at
        questions += 1
    assert questions <= 140


def first_ask(
    known: DurationHistogram, *, webhooks: bool = False, retention_us: int = RETENTION_US
) -> tuple[int, bool]:
    ask = next_ask(outstanding(), asked_at=None, learned=known, webhooks=webhooks, retention_us=retention_us)
    return (ask.at - EPOCH_AT) // S, ask.is_likely


def test_a_job_is_first_asked_for_when_most_of_its_like_have_finished() -> None:
    mostly_100 = learned(*[1] * 50, *[100] * 45, *[1_000] * 5)

    assert first_ask(learned()) == (1, False)
    assert first_ask(mostly_100) == (114, True)
    assert first_ask(learned(0.001)) == (1, True)
    assert first_ask(learned(86_400)) == (25 * 60, False)


def test_with_webhooks_only_the_latest_are_asked_for_once_all_tries_have_had_their_time() -> None:
    mostly_100 = learned(*[1] * 50, *[100] * 45, *[1_000] * 5)

    assert first_ask(learned(), webhooks=True) == (31, False)
    assert first_ask(mostly_100, webhooks=True) == (1_048 + 30, True)
    assert first_ask(learned(10), webhooks=True, retention_us=40 * S) == (20, True)
    assert first_ask(learned(86_400), webhooks=True) == (25 * 60, False)


def test_the_first_to_finish_are_the_quickest_so_that_others_get_twice_their_time() -> None:
    assert first_ask(learned(*[100] * (FEW - 1))) == (229, True)
    assert first_ask(learned(*[100] * FEW)) == (114, True)


def next_gap(age_s: float, known: DurationHistogram) -> tuple[int, bool]:
    job = outstanding(unfinished_at=EPOCH_AT + 86_400 * S)
    at = EPOCH_AT + round(age_s * S)
    ask = next_ask(job, asked_at=at, learned=known, webhooks=False, retention_us=RETENTION_US)
    return (ask.at - at) // S, ask.is_likely


def test_a_job_that_had_not_finished_is_asked_for_at_the_next_rung_and_then_at_gaps_of_half_its_age() -> None:
    spread = learned(*[10] * 70, *[100] * 25, *[1_000] * 5)

    assert [next_gap(age, spread) for age in (11, 106, 1_100)] == [(103, True), (942, True), (300, False)]


def test_where_nothing_is_known_the_gaps_between_questions_grow_with_the_age_of_the_job() -> None:
    assert [next_gap(age, learned())[0] for age in (0, 2, 8, 400, 3_600)] == [1, 1, 2, 100, 300]


def test_a_rung_that_is_too_near_is_left_out() -> None:
    assert next_gap(100, learned(90)) == (50, False)


def test_a_job_without_times_is_still_asked_for_only_once_a_second() -> None:
    job = a_job()

    again = next_ask(job, asked_at=EPOCH_AT, learned=learned(), webhooks=False, retention_us=0)
    first = next_ask(job, asked_at=None, learned=learned(), webhooks=False, retention_us=RETENTION_US)
    assert (again.at, first.at) == (EPOCH_AT + S, S)


def test_a_result_is_safe_until_its_retention_or_its_ttl_may_be_over() -> None:
    assert safe_until(outstanding(unfinished_at=EPOCH_AT + S), RETENTION_US) == EPOCH_AT + S + 30 * MINUTE
    assert safe_until(outstanding(ttl_us=20 * MINUTE), RETENTION_US) == EPOCH_AT + 20 * MINUTE
    assert safe_until(a_job(), RETENTION_US) == RETENTION_US


# --- what a 404 means


@given(outstanding_jobs(), retentions, st.integers(0, 14 * 86_400 * S))
def test_a_404_is_the_ttl_then_our_lateness_then_a_riddle(job: Job, retention_us: int, elapsed: int) -> None:
    now = EPOCH_AT + elapsed
    meaning = absence(job, now=now, retention_us=retention_us)

    assert job.unfinished_at is not None
    if job.ttl_at is not None and now >= job.ttl_at - S:
        assert meaning is Absence.TTL
    elif now >= job.unfinished_at + retention_us:
        assert meaning is Absence.EXPIRED
    else:
        assert meaning is Absence.MISSING


def test_the_404_of_a_job_without_times_is_our_lateness() -> None:
    assert absence(a_job(), now=EPOCH_AT, retention_us=RETENTION_US) is Absence.EXPIRED


def test_two_404s_that_make_a_job_lost_lie_as_far_apart_as_the_retention_asks() -> None:
    assert lost_gap_us(RETENTION_US) == 30 * S
    assert lost_gap_us(2 * RETENTION_US) == 60 * S
    assert lost_gap_us(1) == S


# --- uncertain submissions


@given(st.integers(0, 1_000))
def test_without_webhooks_the_grace_doubles_from_ten_seconds_up_to_a_bound(uncertain: int) -> None:
    job = a_job_in(State.SUBMITTING, uncertain=uncertain)
    grace = uncertain_grace_us(job, webhooks=False, p95_us=None, wanted_us=None)

    assert grace == 10 * S * 2 ** min(uncertain, 8)


def test_with_webhooks_the_grace_is_twice_the_learned_p95_between_two_minutes_and_the_ttl() -> None:
    job = a_job_in(State.SUBMITTING, sent_at=EPOCH_AT, ttl_at=EPOCH_AT + 3_600 * S)

    def grace(p95_us: int | None) -> int:
        return uncertain_grace_us(job, webhooks=True, p95_us=p95_us, wanted_us=None)

    assert [grace(p95) // S for p95 in (None, 30 * S, 300 * S, 86_400 * S)] == [120, 120, 600, 3_600]


@pytest.mark.parametrize("unknown", ["ttl_at", "sent_at"])
def test_the_grace_of_a_job_of_unknown_ttl_is_not_cut(unknown: str) -> None:
    job = a_job_in(State.SUBMITTING, **{unknown: None})

    assert uncertain_grace_us(job, webhooks=True, p95_us=86_400 * S, wanted_us=None) == 2 * 86_400 * S


def test_the_users_own_grace_goes_before() -> None:
    assert uncertain_grace_us(a_job_in(State.SUBMITTING), webhooks=True, p95_us=10**12, wanted_us=7) == 7


# --- absent endpoints
