"""When an endpoint will begin with a job that waits in its queue."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.polling.latency import DurationHistogram
from orchestrator.core.polling.remote_queue import ENOUGH, QUEUED_US, Expected, RemoteQueue, begun_at_of
from orchestrator.core.service.job_record import Record
from tests.factories import S, a_job_in
from tests.simulation.clock import EPOCH_AT


def followed(*, gap_us: int, jobs: int = 4 * ENOUGH, since: int = 0) -> RemoteQueue:
    """A queue of which a job begins every `gap_us`."""
    queue = RemoteQueue()
    for number in range(jobs):
        queue.began(number, since + number * gap_us, waited_us=QUEUED_US)
    return queue


def test_of_a_few_nothing_is_concluded() -> None:
    assert followed(gap_us=S, jobs=ENOUGH - 1).begins_at(100) is None
    assert RemoteQueue().gap_us == 0


def test_the_same_job_over_and_over_makes_no_line() -> None:
    queue = RemoteQueue()
    for _ in range(2 * ENOUGH):
        queue.began(7, S, waited_us=QUEUED_US)
    assert queue.begins_at(8) is None


@given(gap_us=st.integers(0, 100 * S), since=st.integers(0, 2**50), number=st.integers(0, 100_000))
def test_who_comes_later_begins_later_at_the_pace_of_those_before(gap_us: int, since: int, number: int) -> None:
    begins_at = followed(gap_us=gap_us, since=since).begins_at(number)
    assert begins_at is not None
    assert abs(begins_at - (since + number * gap_us)) <= 2 + (since + number * gap_us) // 10**9


def test_one_that_did_not_wait_shows_that_there_is_no_queue() -> None:
    queue = followed(gap_us=S)
    queue.began(99, 0, waited_us=QUEUED_US - 1)
    assert queue.begins_at(100) is None


def test_another_pace_is_learned_from_the_latest() -> None:
    queue = followed(gap_us=10 * S)
    for number in range(64, 464):
        queue.began(number, 640 * S + (number - 64) * S, waited_us=QUEUED_US)
    assert 0.9 * S < queue.gap_us < 1.1 * S


def test_jobs_that_still_wait_where_they_should_have_begun_move_the_line() -> None:
    queue = followed(gap_us=S)
    at = queue.begins_at(70)
    queue.waits(70, 60 * S)  # not before its time: no news
    assert queue.begins_at(70) == at
    for number in range(70, 110):
        queue.waits(number, 500 * S)
    moved = queue.begins_at(110)
    assert moved is not None
    assert moved > 400 * S
    RemoteQueue().waits(1, S)


def test_what_is_expected_of_a_job_is_its_wait_and_the_execution_of_its_like() -> None:
    execution = DurationHistogram()
    assert Expected(S, execution).quantile_us(0.5) is None
    execution.observe(1_000)
    median_us = execution.quantile_us(0.5)
    assert median_us is not None
    assert Expected(7 * S, execution).quantile_us(0.5) == 7 * S + median_us
    assert Expected(7 * S, execution).weight == 1


@pytest.mark.parametrize(
    ("changes", "delay_ms", "begun_at"),
    [
        ({}, 3_000, EPOCH_AT + 4 * S),
        ({}, None, None),
        ({"sent_at": None}, 3_000, None),
        ({"attempt": 2}, 3_000, None),
        ({}, 10_000, None),
    ],
    ids=["told", "not told", "never sent", "a later execution", "later than now"],
)
def test_when_an_execution_began_is_believed_where_it_can_be_right(
    changes: dict[str, Any], delay_ms: int | None, begun_at: int | None
) -> None:
    job = a_job_in(State.OUTSTANDING, **changes)
    record = Record(remote_id="remote-1", status="COMPLETED", delay_ms=delay_ms)
    assert begun_at_of(job, record, EPOCH_AT + 10 * S) == begun_at
