"""Whether, how and when a job is executed again."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.jobs.retry import (
    BACKOFF_S_MAX,
    Abandon,
    AttemptLimits,
    Retry,
    backoff_or_asked_us,
    backoff_us,
    decide,
    is_tried_again,
)
from orchestrator.core.service.failure_class import FailureClass
from tests.factories import S, a_job_in
from tests.simulation.clock import EPOCH_AT

RETENTION_US = 1800 * S
LIMITS = AttemptLimits()
REMOTE = (FailureClass.FAILED, FailureClass.TIMED_OUT)


def decided(
    trouble: FailureClass, *, now: int = EPOCH_AT + 10 * S, limits: AttemptLimits = LIMITS, **job: Any
) -> Retry | Abandon:
    return decide(
        a_job_in(State.OUTSTANDING, **job),
        trouble,
        limits=limits,
        now=now,
        retention_us=RETENTION_US,
        reserve_us=660 * S,
    )


@given(st.integers(1, 10_000), st.integers(0, 2**63))
def test_the_backoff_doubles_up_to_a_minute_less_at_most_a_quarter(failures: int, spread: int) -> None:
    whole = min(BACKOFF_S_MAX, 2 ** min(failures - 1, 20)) * S

    assert whole * 3 // 4 <= backoff_us(failures, spread) <= whole


def test_jobs_that_failed_together_do_not_come_back_together() -> None:
    assert len({backoff_us(7, job) // 10_000 for job in range(1_000)}) > 600


@pytest.mark.parametrize(
    ("asked_s", "wait_us"), [(0, backoff_us(3, 9)), (1.5, backoff_us(3, 9)), (30, 30 * S), (3_600, BACKOFF_S_MAX * S)]
)
def test_who_is_asked_to_wait_longer_does_but_never_longer_than_anybody_waits(asked_s: float, wait_us: int) -> None:
    assert backoff_or_asked_us(3, 9, asked_s) == wait_us


SPENT = [
    (FailureClass.FAILED, "failures", 2, "out of attempts (3)"),
    (FailureClass.TIMED_OUT, "failures", 2, "out of attempts (3)"),
    (FailureClass.INVALID_OUTPUT, "failures", 2, "out of attempts (3)"),
    (FailureClass.LOST, "lost", 3, "lost more than 3 times"),
    (FailureClass.EXPIRED, "expired", 1, "expired more than 1 times"),
]


@pytest.mark.parametrize(("trouble", "counter", "most", "reason"), SPENT)
def test_each_trouble_is_repeated_up_to_its_limit(trouble: FailureClass, counter: str, most: int, reason: str) -> None:
    counts: list[dict[str, Any]] = [{counter: spent} for spent in range(most + 1)]

    assert all(isinstance(decided(trouble, **spent), Retry) for spent in counts[:-1])
    assert decided(trouble, **counts[-1]) == Abandon(reason)


def test_an_uncertain_try_is_counted_as_it_begins_and_our_own_crashes_are_not_among_them() -> None:
    counts: list[dict[str, Any]] = [{"uncertain": counted} for counted in range(4)]

    assert all(isinstance(decided(FailureClass.UNCERTAIN, **counted), Retry) for counted in counts)
    assert decided(FailureClass.UNCERTAIN, uncertain=4) == Abandon("uncertain more than 3 times")


def test_where_nothing_uncertain_may_be_sent_again_neither_is_what_a_crash_left() -> None:
    never = AttemptLimits(uncertain=0)

    assert decided(FailureClass.UNCERTAIN, limits=never, uncertain=0) == Abandon("uncertain more than 0 times")
    assert decided(FailureClass.UNCERTAIN, limits=never, uncertain=1) == Abandon("uncertain more than 0 times")


@pytest.mark.parametrize("trouble", sorted(set(FailureClass) - {row[0] for row in SPENT} - {FailureClass.UNCERTAIN}))
def test_no_other_trouble_is_repeated(trouble: FailureClass) -> None:
    assert decided(trouble) == Abandon(f"{trouble} is not retried")


@pytest.mark.parametrize("trouble", [FailureClass.LOST, FailureClass.EXPIRED, FailureClass.UNCERTAIN])
def test_what_the_service_no_longer_has_is_submitted_anew_at_once(trouble: FailureClass) -> None:
    assert decided(trouble, now=EPOCH_AT + 10 * S) == Retry(EPOCH_AT + 10 * S, None)


@given(
    st.sampled_from([*REMOTE, FailureClass.INVALID_OUTPUT]),
    st.integers(0, 2 * RETENTION_US),
    st.integers(0, 2 * RETENTION_US) | st.none(),
    st.integers(0, RETENTION_US) | st.none(),
    st.sampled_from(["remote", None]),
    st.integers(0, 1),
)
def test_a_retry_is_remote_only_while_the_service_retains_it_and_ttl_leaves_room(
    trouble: FailureClass, elapsed: int, ttl: int | None, unfinished: int | None, remote_id: str | None, failures: int
) -> None:
    now = EPOCH_AT + elapsed
    ttl_at = None if ttl is None else EPOCH_AT + ttl
    unfinished_at = None if unfinished is None else EPOCH_AT + unfinished
    retry = decided(
        trouble, now=now, ttl_at=ttl_at, unfinished_at=unfinished_at, remote_id=remote_id, failures=failures
    )

    assert isinstance(retry, Retry)
    assert now < retry.due_at <= now + 2 * S
    possible = trouble in REMOTE and remote_id is not None
    if not possible or ttl_at is None or unfinished_at is None:
        assert retry.retry_until is None
        return
    retained_until = unfinished_at + RETENTION_US - RETENTION_US // 6
    room_until = ttl_at - 660 * S
    if retry.retry_until is None:
        assert min(retained_until, room_until) <= retry.due_at
    else:
        assert retry.due_at < retry.retry_until == min(retained_until, room_until)


def test_what_is_tried_again_is_what_is_not_given_up() -> None:
    for failures, again in ((0, True), (AttemptLimits().executions - 1, False)):
        tried = a_job_in(State.OUTSTANDING, failures=failures)
        assert is_tried_again(tried, FailureClass.FAILED, limits=AttemptLimits()) is again


def test_a_job_that_was_reopened_with_a_number_of_attempts_has_those() -> None:
    for own, failures, reason in ((1, 0, "out of attempts (1)"), (5, 4, "out of attempts (5)")):
        assert decided(FailureClass.FAILED, failures=failures, attempts_max=own) == Abandon(reason)
    assert is_tried_again(
        a_job_in(State.OUTSTANDING, failures=3, attempts_max=5), FailureClass.LOST, limits=AttemptLimits()
    )
    assert is_tried_again(
        a_job_in(State.OUTSTANDING, failures=3, attempts_max=5), FailureClass.FAILED, limits=AttemptLimits()
    )
