"""When a job is asked for again that the service does not know."""

from orchestrator.core.jobs.deadlines import safe_until
from orchestrator.core.polling.poll_plan import PollPlan
from orchestrator.core.polling.poll_plan_entry import Entry
from tests.core.polling.test_poll_plan import MINUTE, RETENTION_US, a_plan, job, learned, taken
from tests.factories import S
from tests.simulation.clock import EPOCH_AT


def is_missing(plan: PollPlan, number: int, at: int, *, again_at: int) -> Entry:
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


def many_missing(plan: PollPlan, missing: int) -> int:
    """So many jobs have been found missing; returns when their deadlines begin to press."""
    for number in range(1, missing + 1):
        plan.add(job(number))
        entry = plan.get(number)
        assert entry is not None
        entry.gone_after_us = 0
        plan.schedule(entry, entry.deadline - S, is_firm=True)
    at = plan.deadlines.respite(EPOCH_AT).urgent_at
    return round(at)


def turns(plan: PollPlan, at: int, number: int) -> list[int]:
    """What the next questions go to, of which each finds its job missing, or unfinished for another while."""
    found = []
    for n in range(number):
        now = at + n * S // 10
        entry = plan.next(now)
        assert entry is not None
        found.append(entry.job.id)
        entry.asked_at = now
        if entry.is_missing:
            plan.schedule(entry, now + 30 * S, is_firm=True)
        else:
            plan.drop(entry.job.id)
    return found


def test_thousands_that_are_missing_leave_half_of_the_questions_to_what_else_there_is_to_ask() -> None:
    plan = a_plan(learned(10), per_s=10)
    at = many_missing(plan, 4_000)
    for number in range(5_001, 5_101):
        plan.add(job(number, sent_at=at - 60 * S))

    assert len([number for number in turns(plan, at + S, 100) if number > 5_000]) == 50


def test_where_there_is_nothing_else_to_ask_those_that_are_missing_have_all_questions() -> None:
    plan = a_plan(learned(10), per_s=10)
    at = many_missing(plan, 100)
    for number in range(1, 101):
        entry = plan.get(number)
        assert entry is not None
        plan.schedule(entry, at + 100 * S, is_firm=True)

    assert plan.next(at) is None
    assert len(turns(plan, at + 95 * S, 10)) == 10, "else they would not all have one in time"


def test_thousands_that_are_missing_leave_most_questions_to_deadlines_of_others() -> None:
    plan = a_plan(learned(10), per_s=10)
    at = many_missing(plan, 4_000)
    for number in range(5_001, 5_101):
        entry = plan.add(job(number, sent_at=at - 40 * MINUTE))
        assert entry.deadline < at

    assert len([number for number in turns(plan, at + S, 100) if number > 5_000]) == 80


def test_a_pause_of_all_questions_may_last_until_half_way_between_the_deadline_and_the_loss() -> None:
    plan = a_plan()
    assert plan.deadlines.respite(EPOCH_AT).lost_at is None
    entry = plan.add(job(1))
    respite = plan.deadlines.respite(EPOCH_AT)

    assert respite.urgent_at < respite.until < (respite.lost_at or 0) == EPOCH_AT + RETENTION_US
    assert abs(respite.urgent_at - entry.deadline) <= S
    plan.add(job(2), is_unsure=True)
    assert plan.deadlines.respite(EPOCH_AT).until < EPOCH_AT
    assert plan.deadlines.respite(EPOCH_AT).lost_at == EPOCH_AT + RETENTION_US
