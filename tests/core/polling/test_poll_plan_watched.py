"""A resumable job is asked how far it is: at a pace, spread over those that were sent together, within the allowance."""

from itertools import pairwise

import msgspec
import pytest

from orchestrator.core.jobs.deadlines import ASK_GAP_US_MIN, RETENTION_US_DEFAULT
from orchestrator.core.jobs.job import Job
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.polling.ask_times import WATCH_SHARE
from orchestrator.core.polling.latency import DurationHistogram
from orchestrator.core.polling.poll_plan import PollPlan
from orchestrator.core.polling.poll_plan_entry import Entry
from tests.factories import TTL_US, S, a_job_in
from tests.simulation.clock import EPOCH_AT

MINUTE = 60 * S
PER_S = 10.0


def a_plan(every_us: int | None) -> PollPlan:
    return PollPlan(
        learned=DurationHistogram(),
        retention_of=lambda _: RETENTION_US_DEFAULT,
        per_s=PER_S,
        webhooks=False,
        watch_of=lambda job: every_us if job.id < 1_000 else None,
    )


def job(number: int) -> Job:
    return a_job_in(
        State.OUTSTANDING,
        id=number,
        remote_id=f"r-{number}",
        sent_at=EPOCH_AT,
        unfinished_at=EPOCH_AT,
        ttl_at=EPOCH_AT + TTL_US,
    )


def answered(plan: PollPlan, entry: Entry, at: int) -> Entry:
    """It was asked for at `at`, and is in progress."""
    entry.asked_at, entry.asks = at, entry.asks + 1
    plan.refresh(entry, msgspec.structs.replace(entry.job, unfinished_at=at))
    return entry


def asked_at(plan: PollPlan, entry: Entry) -> int:
    assert entry.ask_at is not None
    return entry.ask_at


def test_the_first_questions_about_jobs_that_left_together_are_spread_over_the_pace() -> None:
    plan = a_plan(10 * MINUTE)
    times = sorted(asked_at(plan, plan.add(job(number))) - EPOCH_AT for number in range(1, 9))
    assert times[0] >= ASK_GAP_US_MIN
    assert times[-1] <= 10 * MINUTE
    assert all(later - earlier > 30 * S for earlier, later in pairwise(times))


def test_from_then_on_each_is_asked_for_at_its_pace() -> None:
    plan = a_plan(10 * MINUTE)
    entry = plan.add(job(1))
    at = asked_at(plan, entry)
    for _ in range(3):
        assert plan.next(at) is entry
        before, at = at, asked_at(plan, answered(plan, entry, at))
        assert at == before + 10 * MINUTE


def test_however_many_there_are_they_take_their_share_of_the_allowance_and_no_more() -> None:
    plan = a_plan(MINUTE)
    entries = [plan.add(job(number)) for number in range(1, 201)]
    gap_us = 200 * S / (PER_S * WATCH_SHARE)
    assert asked_at(plan, entries[-1]) - EPOCH_AT >= gap_us
    last = answered(plan, entries[-1], EPOCH_AT + MINUTE)
    assert asked_at(plan, last) == EPOCH_AT + MINUTE + round(gap_us)
    for entry in entries[:-1]:
        plan.drop(entry.job.id)
    assert asked_at(plan, answered(plan, last, EPOCH_AT + 2 * MINUTE)) == EPOCH_AT + 3 * MINUTE


def test_where_nothing_is_to_be_watched_only_the_deadline_asks() -> None:
    plan = a_plan(0)
    entry = plan.add(job(1))
    assert asked_at(plan, entry) == entry.deadline
    before = entry.deadline
    assert asked_at(plan, answered(plan, entry, before)) == entry.deadline > before


@pytest.mark.parametrize("every_us", [0, MINUTE])
def test_a_job_that_is_not_resumable_is_asked_for_as_ever(every_us: int) -> None:
    plan, other = a_plan(every_us), a_plan(None)
    assert asked_at(plan, plan.add(job(1_000))) == asked_at(other, other.add(job(1_000)))


def test_behind_its_deadline_a_watched_job_is_asked_for_as_any_other() -> None:
    plan = a_plan(MINUTE)
    entry = plan.add(job(1))
    entry.asked_at, entry.asks = entry.deadline + 1, 1
    plan.refresh(entry, entry.job)
    assert asked_at(plan, entry) > entry.deadline


def test_it_knows_what_is_outstanding_of_a_run_and_what_of_that_waits() -> None:
    plan = PollPlan(learned=DurationHistogram(), retention_of=lambda _: TTL_US, per_s=10.0, webhooks=False)
    entries = [plan.add(job(number)) for number in (1, 2)]
    entries[0].begun_at = EPOCH_AT
    run = entries[0].job.run
    assert [each.id for each in plan.of_run(run)] == [1, 2]
    assert [each.id for each in plan.of_run(run, are_begun=False)] == [2]
    assert plan.of_run(run + 1) == plan.of_run(run + 1, are_begun=False) == []


def test_one_is_taken_out_of_its_turn_by_its_submission_and_once() -> None:
    plan = a_plan(None)
    entry = plan.add(job(1))
    submission = entry.job.submission or 0
    assert plan.take(2, submission) is None
    assert plan.take(1, submission + 1) is None
    assert plan.take(1, submission) is entry
    assert plan.take(1, submission) is None, "it is being asked for"
    assert plan.next(EPOCH_AT + MINUTE) is None
    plan.schedule(entry, EPOCH_AT)
    assert plan.next(EPOCH_AT + MINUTE) is entry
