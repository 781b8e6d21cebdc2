"""Which outstanding job is asked for next."""

from collections import Counter

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.core.jobs.deadlines import FEW, RETENTION_US_DEFAULT, hard_deadline, safe_until
from orchestrator.core.jobs.job import Job
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.polling.latency import DurationHistogram
from orchestrator.core.polling.poll_plan import REPLANNED_MAX, SCOUTS_MAX, PollPlan
from orchestrator.core.polling.poll_plan_entry import Entry
from tests.factories import TTL_US, S, a_job_in
from tests.simulation.clock import EPOCH_AT

RETENTION_US = RETENTION_US_DEFAULT
MINUTE = 60 * S


def job(number: int, *, sent_at: int = EPOCH_AT, ttl_us: int = TTL_US) -> Job:
    return a_job_in(
        State.OUTSTANDING,
        id=number,
        remote_id=f"r-{number}",
        sent_at=sent_at,
        unfinished_at=sent_at,
        ttl_at=sent_at + ttl_us,
    )


def learned(*seconds: float) -> DurationHistogram:
    found = DurationHistogram()
    for each in seconds:
        for _ in range(FEW):
            found.observe(round(each * 1_000))
    return found


def a_plan(known: DurationHistogram | None = None, *, per_s: float = 200.0, webhooks: bool = False) -> PollPlan:
    return PollPlan(
        learned=learned() if known is None else known,
        retention_of=lambda _: RETENTION_US,
        per_s=per_s,
        webhooks=webhooks,
    )


def taken(plan: PollPlan, now: int) -> list[int]:
    """The jobs that are asked for at `now`, in their order."""
    found = []
    while (entry := plan.next(now)) is not None:
        found.append(entry.job.id)
    return found


def is_unfinished(plan: PollPlan, number: int, at: int) -> Entry:
    """The question of `at` is answered: the job is in progress."""
    entry = plan.get(number)
    assert entry is not None
    entry.asked_at, entry.asks = at, entry.asks + 1
    plan.refresh(entry, msgspec.structs.replace(entry.job, unfinished_at=at))
    return entry


def test_an_empty_plan_wants_nothing() -> None:
    plan = a_plan()

    assert (plan.next(EPOCH_AT), plan.wakes_at(EPOCH_AT), plan.deadlines.soonest(), len(plan)) == (None, None, None, 0)
    plan.drop(1)
    assert not plan.hint(1, EPOCH_AT)


def test_a_job_is_asked_for_once_until_its_answer_came() -> None:
    plan = a_plan(learned(10))
    plan.add(job(1))

    assert plan.wakes_at(EPOCH_AT) == EPOCH_AT + 10_240_000
    assert taken(plan, EPOCH_AT + 10 * S) == []
    assert taken(plan, EPOCH_AT + 11 * S) == [1]
    assert taken(plan, EPOCH_AT + 1_000 * S) == []
    is_unfinished(plan, 1, EPOCH_AT + 11 * S)
    assert taken(plan, EPOCH_AT + 17 * S) == [1]


def test_close_to_its_deadline_goes_before_hinted_before_probably_finished_before_the_rest() -> None:
    known = learned(600)
    plan = a_plan(known)
    now = EPOCH_AT + 24 * MINUTE
    plan.add(job(1, sent_at=now - 11 * MINUTE))
    plan.add(job(2, sent_at=now - 12 * MINUTE))
    plan.add(job(3, sent_at=now - MINUTE))
    plan.add(job(4, sent_at=now - 18 * MINUTE, ttl_us=20 * MINUTE))
    plan.add(job(5, sent_at=now - 9 * MINUTE))
    plan.schedule(plan.add(job(6, sent_at=now - 19 * MINUTE)), now - MINUTE)
    assert plan.hint(3, now)

    assert taken(plan, now + S) == [4, 3, 2, 1, 6]


def test_jobs_of_an_earlier_process_are_asked_for_in_the_order_of_their_deadlines() -> None:
    plan = a_plan()
    for number, ttl_us in enumerate((3_000 * S, 1_000 * S, 1_200 * S), start=1):
        plan.add(job(number, ttl_us=ttl_us), at_once=True)

    assert taken(plan, EPOCH_AT + S) == [2, 3, 1]


def test_while_nothing_is_known_a_few_scouts_are_asked_for_and_the_others_wait_for_their_news() -> None:
    known = learned()
    plan = a_plan(known)
    for number in range(1, 31):
        plan.add(job(number))

    at = EPOCH_AT + 2 * S
    assert sorted(taken(plan, at)) == list(range(1, SCOUTS_MAX + 1))
    known.observe(500)
    assert plan.has_news
    assert plan.wakes_at(at) == at
    assert taken(plan, at) == list(range(SCOUTS_MAX + 1, 31))


def test_a_scout_that_ends_without_news_or_takes_too_long_gives_its_place_to_the_next() -> None:
    plan = a_plan()
    for number in range(1, 31):
        plan.add(job(number))
    taken(plan, EPOCH_AT + 2 * S)

    plan.drop(1)
    assert taken(plan, EPOCH_AT + 2 * S) == [SCOUTS_MAX + 1]
    is_unfinished(plan, 2, EPOCH_AT + 50 * S)
    assert taken(plan, EPOCH_AT + 61 * S) == []
    assert taken(plan, EPOCH_AT + 63 * S) == [2]
    is_unfinished(plan, 2, EPOCH_AT + 63 * S)
    assert taken(plan, EPOCH_AT + 63 * S) == [SCOUTS_MAX + 2]


def test_a_scout_that_was_the_last_leaves_nobody_waiting() -> None:
    plan = a_plan()
    for number in range(1, SCOUTS_MAX + 2):
        plan.add(job(number))
    plan.drop(SCOUTS_MAX + 1)
    plan.drop(1)

    assert len(plan) == SCOUTS_MAX - 1


def test_without_any_news_everybody_is_asked_for_at_the_deadline() -> None:
    plan = a_plan()
    for number in range(1, SCOUTS_MAX + 3):
        plan.add(job(number))
    for number in range(1, SCOUTS_MAX + 1):
        plan.schedule(plan.get(number), EPOCH_AT + 20 * MINUTE)  # type: ignore[arg-type]
    now = EPOCH_AT + 25 * MINUTE

    assert sorted(taken(plan, now)) == list(range(1, SCOUTS_MAX + 1))
    assert (plan.wakes_at(now) or 0) <= now + S
    assert taken(plan, now + S) == [SCOUTS_MAX + 1, SCOUTS_MAX + 2]


def test_a_hint_while_a_question_is_on_its_way_is_not_forgotten() -> None:
    plan = a_plan(learned(10))
    plan.add(job(1))
    at = EPOCH_AT + 11 * S
    assert taken(plan, at) == [1]
    assert plan.hint(1, at)
    assert taken(plan, at) == []

    is_unfinished(plan, 1, at)
    assert plan.hint(1, at + S)
    assert taken(plan, at + S) == [1]
    assert taken(plan, at + S) == []


def test_what_may_not_be_asked_before_a_time_is_not_even_close_to_its_deadline() -> None:
    plan = a_plan(learned(10))
    entry = plan.add(job(1))
    taken(plan, EPOCH_AT + 25 * MINUTE)
    entry.asked_at = EPOCH_AT + 25 * MINUTE
    plan.schedule(entry, EPOCH_AT + 26 * MINUTE, is_firm=True)

    assert taken(plan, EPOCH_AT + 26 * MINUTE - 1) == []
    assert taken(plan, EPOCH_AT + 26 * MINUTE) == [1]


def test_when_webhooks_cease_to_arrive_everything_is_planned_anew_a_page_at_a_time() -> None:
    plan = a_plan(learned(10), webhooks=True)
    jobs = REPLANNED_MAX + 10
    for number in range(1, jobs + 1):
        plan.add(job(number))
    at = EPOCH_AT + 11 * S
    assert taken(plan, at) == []
    plan.times.webhooks = False
    plan.replan()

    assert plan.wakes_at(at) == at
    assert sorted(taken(plan, at)) == list(range(1, jobs + 1))


def test_planning_anew_leaves_what_is_in_trouble_alone() -> None:
    plan = a_plan(learned(10), webhooks=True)
    entry = plan.add(job(1))
    entry.troubles = 1
    plan.drop(plan.add(job(2)).job.id)
    plan.replan()
    plan.drop(1)
    plan.add(job(3))
    plan.replan()

    assert taken(plan, EPOCH_AT + 11 * S) == []


def test_a_job_that_ends_when_its_deadline_comes_is_not_asked_for() -> None:
    plan = a_plan(learned(10))
    plan.add(job(1))
    now = EPOCH_AT + 26 * MINUTE
    assert (plan.wakes_at(now) or 0) <= now
    plan.drop(1)

    assert taken(plan, now) == []


def test_deadlines_of_many_seconds_that_leave_no_time_are_kept_in_their_order() -> None:
    plan = a_plan(learned(3_000), per_s=1)
    for number in range(1, 151):
        plan.add(job(number, sent_at=EPOCH_AT + number * S))

    order = taken(plan, EPOCH_AT + 25 * MINUTE)
    assert len(order) > 1
    assert order == list(range(1, len(order) + 1))


def test_the_reserve_for_deadlines_follows_what_is_allowed() -> None:
    plan = a_plan(learned(3_000), per_s=1_000)
    for number in range(1, 1_001):
        plan.add(job(number))
    now = EPOCH_AT + 20 * MINUTE
    assert taken(plan, now) == []
    plan.allow(1)
    assert len(taken(plan, now + 2 * S)) > 0


@pytest.mark.no_cover
@settings(max_examples=30)
@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(15, 90)), min_size=1, max_size=40),
    st.lists(st.integers(1, 1_500), max_size=3),
    st.sampled_from([0.05, 0.2, 1.0, 10.0]),
)
def test_at_any_rate_that_suffices_no_deadline_is_missed_by_more_than_a_second(
    found: list[tuple[int, int]], known: list[int], per_s: float
) -> None:
    """Jobs that never finish are asked for at a rate; those whose TTL comes may be missed only where nobody could."""
    plan = a_plan(learned(*known), per_s=per_s / 0.8)
    jobs = {n: job(n, sent_at=EPOCH_AT + sent * MINUTE, ttl_us=ttl * MINUTE) for n, (sent, ttl) in enumerate(found)}
    deadlines = sorted(hard_deadline(each, RETENTION_US) for each in jobs.values())
    could = all(at - EPOCH_AT - 20 * MINUTE >= (n + 1) * S / per_s for n, at in enumerate(deadlines))
    for each in jobs.values():
        plan.add(each)
    now, asked = EPOCH_AT + 20 * MINUTE, Counter[int]()
    while could and now < deadlines[-1] + MINUTE:
        if (entry := plan.next(now)) is not None:
            if not asked[entry.job.id]:
                assert now <= entry.deadline + 2 * S + S / per_s
            asked[entry.job.id] += 1
            is_unfinished(plan, entry.job.id, now)
        now += round(S / per_s * 0.8)
    assert not could or len(asked) == len(jobs)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 90), st.booleans()), max_size=30))
def test_the_soonest_deadline_is_that_of_the_job_whose_result_is_safe_for_the_shortest(
    found: list[tuple[int, int, bool]],
) -> None:
    plan = a_plan()
    jobs = {n: job(n, sent_at=EPOCH_AT + at * MINUTE, ttl_us=ttl * MINUTE) for n, (at, ttl, _) in enumerate(found)}
    for each in jobs.values():
        plan.add(each)
    for number, (_, _, ends) in enumerate(found):
        if ends:
            plan.drop(number)
            del jobs[number]

    soonest = min((safe_until(each, RETENTION_US) for each in jobs.values()), default=None)
    assert plan.deadlines.soonest() == (None if soonest is None else soonest // S * S)
    assert len(plan) == len(jobs)


# --- jobs in a queue


def in_a_queue(*, gap_us: int, jobs: int, webhooks: bool = False) -> tuple[PollPlan, int]:
    """Jobs sent at once, and worked off one each `gap_us`, each in a second. The first forty have been collected."""
    execution = learned(1.0)
    plan = PollPlan(
        learned=learned(20.0), execution=execution, retention_of=lambda _: RETENTION_US, per_s=200.0, webhooks=webhooks
    )
    for number in range(jobs):
        plan.add(job(number))
    for number in range(40):
        entry = plan.get(number)
        assert entry is not None
        plan.began(entry, S + number * gap_us)
        plan.drop(number)
    return plan, EPOCH_AT + S + 40 * gap_us


def test_a_job_in_a_queue_is_asked_for_when_its_turn_has_come() -> None:
    plan, now = in_a_queue(gap_us=10 * S, jobs=100)
    assert taken(plan, now + 100 * S) == list(range(40, 50))


def test_what_is_sent_into_a_queue_is_planned_by_its_place_there() -> None:
    plan, now = in_a_queue(gap_us=10 * S, jobs=41)
    plan.add(job(1_000, sent_at=now))
    entry = plan.get(1_000)
    assert entry is not None
    assert entry.ask_at is not None
    assert now + 10 * S < entry.ask_at < now + 15 * S


def test_a_queue_that_moves_faster_than_was_thought_is_planned_anew() -> None:
    plan, now = in_a_queue(gap_us=20 * S, jobs=300)
    assert taken(plan, now + 10 * S) == [40]
    for number in range(41, 200):
        entry = plan.get(number)
        assert entry is not None
        plan.began(entry, 801 * S + (number - 40) * S // 100)
        plan.drop(number)
    assert 250 in taken(plan, now + 30 * S)


def test_a_job_that_is_still_queued_at_its_time_moves_those_behind_it() -> None:
    plan, now = in_a_queue(gap_us=10 * S, jobs=400)
    for number in taken(plan, now + 200 * S):
        entry = plan.get(number)
        assert entry is not None
        entry.asked_at = now + 200 * S
        plan.refresh(entry, entry.job, is_queued=True)
    assert not taken(plan, now + 210 * S)


def test_with_webhooks_or_after_trouble_the_place_in_the_queue_changes_nothing() -> None:
    plan, now = in_a_queue(gap_us=10 * S, jobs=60)
    for entry in map(plan.get, range(40, 60)):
        assert entry is not None
        entry.troubles = 1
    assert len(taken(plan, now)) == 20
    plan, now = in_a_queue(gap_us=10 * S, jobs=60, webhooks=True)
    assert len(taken(plan, now + 60 * S)) == 20


def test_where_no_execution_is_known_the_place_in_the_queue_is_of_no_use() -> None:
    plan = PollPlan(learned=learned(20.0), retention_of=lambda _: RETENTION_US, per_s=200.0, webhooks=False)
    for number in range(60):
        plan.add(job(number))
    for entry in map(plan.get, range(40)):
        assert entry is not None
        plan.began(entry, S + entry.number * 10 * S)
        plan.drop(entry.job.id)
    plan.add(job(99))
    assert len(taken(plan, EPOCH_AT + 60 * S)) == 21


# --- questions to spare


def test_a_job_in_progress_is_asked_for_by_when_its_execution_began() -> None:
    plan = PollPlan(
        learned=learned(20.0), execution=learned(45.0), retention_of=lambda _: RETENTION_US, per_s=200.0, webhooks=False
    )
    entry = plan.add(job(1))
    now = EPOCH_AT + 300 * S
    assert taken(plan, now) == [1]
    entry.asked_at = now
    plan.refresh(entry, msgspec.structs.replace(entry.job, unfinished_at=now), begun_at=now - 15 * S)

    assert entry.ask_at is not None
    assert now + 30 * S <= entry.ask_at <= now + 32 * S


def test_while_one_waits_in_the_queue_those_behind_it_are_not_asked_for() -> None:
    plan = PollPlan(
        learned=learned(20.0), execution=learned(20.0), retention_of=lambda _: RETENTION_US, per_s=200.0, webhooks=False
    )
    for number in range(1, 11):
        plan.add(job(number))
    at = EPOCH_AT + 21 * S
    first = plan.next(at)
    assert first is not None
    first.asked_at = at
    plan.refresh(first, msgspec.structs.replace(first.job, unfinished_at=at), is_queued=True)

    assert taken(plan, at + S) == []
    assert taken(plan, at + 19 * S) == []
    assert sorted(taken(plan, at + 22 * S)) == list(range(1, 11))


def test_when_questions_are_to_spare_again_all_are_planned_anew() -> None:
    known = learned(60.0)
    plan = a_plan(known)
    for number in range(1, 3_001):
        plan.add(job(number))
    for _ in range(3_000 // REPLANNED_MAX + 1):
        assert taken(plan, EPOCH_AT + S) == []
    assert taken(plan, EPOCH_AT + 62 * S) == [], "seven in ten may have finished, and not nearly all"
    for number in range(1, 2_991):
        plan.drop(number)

    assert plan.wakes_at(EPOCH_AT + 62 * S) == EPOCH_AT + 62 * S
    assert sorted(taken(plan, EPOCH_AT + 62 * S)) == list(range(2_991, 3_001))


def test_while_little_is_known_each_news_changes_the_times_of_all() -> None:
    known = learned()
    plan = a_plan(known)
    for number in range(1, 101):
        plan.add(job(number))
    taken(plan, EPOCH_AT + 2 * S)
    for seconds in (100, 100, 50):
        known.observe(seconds * 1_000)
        taken(plan, EPOCH_AT + 3 * S)
    entry = plan.get(100)
    assert entry is not None
    assert entry.ask_at is not None
    assert 50 * S <= entry.ask_at - EPOCH_AT <= 63 * S


def test_jobs_of_an_earlier_process_are_asked_for_at_once_whatever_news_come() -> None:
    known = learned()
    plan = a_plan(known)
    plan.add(job(1), at_once=True)
    known.observe(600_000)

    assert taken(plan, EPOCH_AT + S) == [1]


def test_where_little_is_known_only_the_scouts_are_asked_for_before_the_quickest_that_is_known() -> None:
    known = learned()
    known.observe(90_000)
    plan = a_plan(known)
    for number in range(1, 101):
        plan.add(job(number))

    assert sorted(taken(plan, EPOCH_AT + 2 * S)) == list(range(1, SCOUTS_MAX + 1))
    assert len(taken(plan, EPOCH_AT + 95 * S)) == 100 - SCOUTS_MAX


def test_when_results_turn_out_to_be_kept_for_less_time_all_deadlines_come_sooner() -> None:
    kept_us = [RETENTION_US]
    plan = PollPlan(learned=learned(10_000), retention_of=lambda _: kept_us[0], per_s=200.0, webhooks=True)
    for number in (1, 2):
        plan.add(job(number, sent_at=EPOCH_AT + number * S))
    plan.hint(1, EPOCH_AT + 3 * S)
    assert taken(plan, EPOCH_AT + 3 * S) == [1], "its question is on its way"
    assert plan.deadlines.soonest() == EPOCH_AT + 1 * S + RETENTION_US

    kept_us[0] = 5 * MINUTE
    plan.deadlines.measure_all()

    assert plan.deadlines.soonest() == EPOCH_AT + 1 * S + 5 * MINUTE
    assert taken(plan, EPOCH_AT + 4 * MINUTE) == []
    assert taken(plan, EPOCH_AT + 5 * MINUTE) == [2]


def test_a_job_takes_as_long_as_every_second_of_its_like_and_no_time_where_nothing_is_known() -> None:
    for known, takes_s in ((learned(), 0), (learned(10, 10, 10), 10)):
        plan = a_plan(known)
        plan.add(job(1))
        entry = plan.get(1)
        assert entry is not None
        assert plan.times.takes_us(entry) == pytest.approx(takes_s * S, rel=0.1)


def test_overdue_is_what_nobody_asks_for_after_its_time_and_its_deadline() -> None:
    plan = a_plan(learned(10))
    for number in (1, 2):
        plan.add(job(number))
    late = EPOCH_AT + 2 * RETENTION_US
    assert plan.overdue(EPOCH_AT) == []
    assert [entry.job.id for entry in plan.overdue(late)] == [1, 2]
    assert plan.next(late) is plan.get(1)
    assert [entry.job.id for entry in plan.overdue(late)] == [2]


@pytest.mark.parametrize("per_s", [200.0, 0.1], ids=["to spare", "scarce"])
def test_a_retried_job_is_as_old_as_its_retry(per_s: float) -> None:
    at, asks = EPOCH_AT + 600 * S, []
    for attempt, sent_at in ((1, at), (2, EPOCH_AT)):
        plan, now, times = a_plan(learned(10), per_s=per_s), at, []
        plan.add(a_job_in(State.OUTSTANDING, attempt=attempt, sent_at=sent_at, unfinished_at=at, ttl_at=at + TTL_US))
        for _ in range(5):
            now = plan.wakes_at(now) or now
            assert taken(plan, now) == [1]
            is_unfinished(plan, 1, now)
            times.append(now)
        asks.append(times)
    assert asks[0] == asks[1]
