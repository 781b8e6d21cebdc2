"""Jobs that do not come to an end are suspected late, and only while they were last seen so."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.polling.latency import DurationHistogram
from orchestrator.core.polling.stuck_jobs import (
    RUNNING_US_MIN,
    WAITING_US_MIN,
    WAITING_US_UNLEARNED,
    StuckDetector,
    Suspect,
    running_us_max,
    waiting_us_max,
)
from tests.factories import S, a_job_in
from tests.simulation.clock import EPOCH_AT

SENT_AT = EPOCH_AT + S


def learned(milliseconds: int, times: int) -> DurationHistogram:
    found = DurationHistogram()
    for _ in range(times):
        found.observe(milliseconds)
    return found


def test_while_little_is_known_only_the_timeout_counts() -> None:
    assert running_us_max(DurationHistogram(), 600 * S) == running_us_max(learned(10, 99), 600 * S) == 1_200 * S
    assert waiting_us_max(DurationHistogram()) == waiting_us_max(learned(10, 99)) == WAITING_US_UNLEARNED


def test_later_it_is_three_times_what_nearly_all_others_took_and_never_a_moment() -> None:
    assert running_us_max(learned(10, 100), 600 * S) == RUNNING_US_MIN
    assert waiting_us_max(learned(10, 100)) == WAITING_US_MIN
    p999_us = learned(100_000, 100).p999_us
    assert p999_us is not None
    assert running_us_max(learned(100_000, 100), 600 * S) == waiting_us_max(learned(100_000, 100)) == 3 * p999_us


def test_a_job_in_progress_is_suspected_since_it_was_first_seen_so() -> None:
    stuck_detector, job = StuckDetector(), a_job_in(State.OUTSTANDING)
    for at in (SENT_AT, SENT_AT + 50 * S):
        stuck_detector.observe(job, "IN_PROGRESS", at)
    assert [suspect.since for suspect in stuck_detector.running(SENT_AT + 61 * S, 60 * S)] == [SENT_AT]
    assert stuck_detector.running(SENT_AT + 60 * S, 60 * S) == []
    stuck_detector.observe(job, "IN_QUEUE", SENT_AT + 60 * S)  # its worker died, and it waits for another one
    assert stuck_detector.running(SENT_AT + 10_000 * S, 0) == []


def test_a_job_in_the_queue_is_suspected_since_it_was_sent() -> None:
    stuck_detector, job = StuckDetector(), a_job_in(State.OUTSTANDING)
    stuck_detector.observe(job, "IN_QUEUE", SENT_AT + WAITING_US_MIN - 1)
    assert stuck_detector.waiting(SENT_AT + 10_000 * S, 0) == []
    stuck_detector.observe(job, "IN_QUEUE", SENT_AT + WAITING_US_MIN)
    assert [suspect.since for suspect in stuck_detector.waiting(SENT_AT + 10_000 * S, 0)] == [SENT_AT]
    stuck_detector.observe(job, "IN_PROGRESS", SENT_AT + 10_000 * S)
    assert stuck_detector.waiting(SENT_AT + 10_000 * S, 0) == []


@given(seen=st.lists(st.tuples(st.integers(1, 5), st.sampled_from(["IN_QUEUE", "IN_PROGRESS", "odd"]), st.booleans())))
def test_each_job_is_in_one_list_at_most_the_longest_first_and_none_that_was_forgotten(
    seen: list[tuple[int, str, bool]],
) -> None:
    stuck_detector, there = StuckDetector(), set()
    for step, (job, status, stays) in enumerate(seen):
        stuck_detector.observe(a_job_in(State.OUTSTANDING, id=job), status, SENT_AT + WAITING_US_MIN + step * S)
        there.add(job)
        if not stays:
            stuck_detector.forget(job)
            there.discard(job)
    now = SENT_AT + 10_000 * S
    running, waiting = stuck_detector.running(now, 0), stuck_detector.waiting(now, 0)
    assert sorted(suspect.job for suspect in (*running, *waiting)) == sorted(there)
    assert [suspect.since for suspect in running] == sorted(suspect.since for suspect in running)


def test_a_resumable_job_that_has_nothing_new_to_report_for_long_is_stalled() -> None:
    stuck_detector, job, quiet = StuckDetector(), a_job_in(State.OUTSTANDING, id=1), a_job_in(State.OUTSTANDING, id=2)
    for each in (job, quiet):
        stuck_detector.observe(each, "IN_PROGRESS", SENT_AT)
    stuck_detector.moved(job, SENT_AT + 50 * S)
    assert [each.job for each in stuck_detector.stalled(job.run, SENT_AT + 61 * S, 60 * S)] == [quiet.id]
    assert [each.since for each in stuck_detector.stalled(job.run, SENT_AT + 111 * S, 60 * S)] == [
        SENT_AT,
        SENT_AT + 50 * S,
    ]
    assert stuck_detector.stalled(job.run + 1, SENT_AT + 111 * S, 60 * S) == []
    stuck_detector.forget(job.id)
    assert [each.job for each in stuck_detector.stalled(job.run, SENT_AT + 111 * S, 60 * S)] == [quiet.id]


def test_a_job_has_a_time_out_of_its_own_where_it_was_given_something() -> None:
    suspect = Suspect(job=1, run=1, since=0)
    assert not suspect.has_own
    assert msgspec.structs.replace(suspect, policy=b"{}").has_own
    assert msgspec.structs.replace(suspect, escalated=b"{}").has_own
