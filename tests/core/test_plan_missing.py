"""When a job is asked for again that the service does not know."""

from orchestrator.core.deadlines import safe_until
from orchestrator.core.plan import Entry, Plan
from tests.core.test_plan import MINUTE, RETENTION_US, a_plan, job, learned, taken
from tests.factories import S
from tests.simulation.clock import EPOCH_AT


def is_missing(plan: Plan, number: int, at: int, *, again_at: int) -> Entry:
    """The question of `at` is answered with a 404; the job is to be asked for again at `again_at`."""
    entry = plan.get(number)
    assert entry is not None
    entry.asked_at, entry.asks, entry.gone_after_us = at, entry.asks + 1, 0
    plan.schedule(entry, again_at, is_firm=True)
    return entry


def test_a_job_missing_at_its_deadline_lets_those_go_first_that_had_no_question() -> None:
    plan = a_plan()
    deadline = plan.add(job(1, sent_at=EPOCH_AT - 10 * S), at_once=True).deadline
    assert taken(plan, deadline + S) == [1]
    for number in (2, 3):
        plan.add(job(number), at_once=True)
    is_missing(plan, 1, deadline + S, again_at=deadline + 2 * S)

    assert taken(plan, deadline + 3 * S) == [2, 3, 1]


def test_a_job_that_was_missing_goes_before_all_others_well_before_its_last_moment() -> None:
    plan = a_plan()
    plan.add(job(1), at_once=True)
    assert taken(plan, EPOCH_AT) == [1]
    entry = is_missing(plan, 1, EPOCH_AT, again_at=EPOCH_AT + S)
    plan.add(job(2, sent_at=EPOCH_AT + 10 * MINUTE))
    half_us = (entry.deadline + safe_until(entry.job, RETENTION_US)) // 2
    assert plan.hint(2, EPOCH_AT)

    assert taken(plan, half_us + S) == [1, 2]


def test_planning_anew_leaves_what_is_missing_alone() -> None:
    plan = a_plan(learned(10))
    plan.add(job(1))
    assert taken(plan, EPOCH_AT + 11 * S) == [1]
    is_missing(plan, 1, EPOCH_AT + 11 * S, again_at=EPOCH_AT + 100 * S)
    plan.replan()

    assert taken(plan, EPOCH_AT + 99 * S) == []
    assert taken(plan, EPOCH_AT + 100 * S) == [1]


def test_a_missing_job_of_which_nobody_knows_how_long_it_is_safe_waits_like_any_other() -> None:
    plan = a_plan()
    plan.add(job(1), at_once=True, is_unsure=True)
    assert taken(plan, EPOCH_AT) == [1]
    is_missing(plan, 1, EPOCH_AT, again_at=EPOCH_AT + 30 * S)
    plan.add(job(2))
    assert plan.hint(2, EPOCH_AT)

    assert taken(plan, EPOCH_AT + 31 * S) == [2, 1]
