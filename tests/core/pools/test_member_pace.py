"""How fast a member of a pool is."""

import pytest

from orchestrator.core.pools.member_pace import ENDS_MIN, WINDOW_US, MemberPace
from orchestrator.core.service.health import Health, JobCounts
from orchestrator.units import SECOND_US


def health(queued: int | None, running: int | None) -> Health:
    return Health(jobs=JobCounts(in_queue=queued, in_progress=running))


def ended(pace: MemberPace, *seconds: float, waited_s: float | None = 10.0, execution_s: float = 1.0) -> MemberPace:
    for at in seconds:
        waited_us = None if waited_s is None else round(waited_s * SECOND_US)
        pace.observe(round(at * SECOND_US), waited_us=waited_us, execution_us=round(execution_s * SECOND_US))
    return pace


def test_it_is_as_many_as_are_executed_at_once_by_what_an_execution_takes() -> None:
    assert ended(MemberPace(), 1.0, execution_s=2.0).per_s is None
    pace = ended(MemberPace(), 1.0, execution_s=2.0)
    pace.observe_health(health(50, 8))
    assert pace.per_s == 4.0
    pace.observe_health(health(50, 4))  # one look is not believed at once
    assert pace.per_s == pytest.approx(3.4)


def test_while_nothing_waits_the_most_that_was_seen_at_once_counts() -> None:
    pace = ended(MemberPace(), 1.0)
    pace.observe_health(health(0, 8))
    pace.observe_health(health(0, 2))
    assert pace.per_s == 8.0
    pace.observe_health(health(None, None))
    pace.observe_health(health(5, 0))
    assert pace.per_s == 8.0


def test_where_the_service_does_not_tell_the_ends_of_those_that_waited_do() -> None:
    pace = ended(MemberPace(), *(n / 4 for n in range(20)))
    assert pace.per_s == pytest.approx(4.0)
    ended(pace, 4.9, 4.6, 4.8)  # heard of late, and in another order
    assert pace.per_s == pytest.approx(22 / 4.9, rel=0.05)


def test_few_ends_and_those_within_two_executions_tell_nothing() -> None:
    assert ended(MemberPace(), *range(ENDS_MIN - 1)).per_s is None
    assert ended(MemberPace(), *(n / 100 for n in range(50))).per_s is None


def test_who_had_not_waited_shows_that_there_was_no_queue() -> None:
    pace = ended(MemberPace(), *range(20))
    ended(pace, 30.0, waited_s=0.0)
    assert pace.per_s == 1.0  # that is still what is known
    ended(pace, *(31 + n / 10 for n in range(5)))
    assert pace.per_s == 1.0
    ended(pace, *(31 + n / 10 for n in range(5, 40)))
    assert pace.per_s == pytest.approx(10.0)
    ended(pace, 5.0, waited_s=0.0)  # of long before
    assert pace.per_s == pytest.approx(10.0)


def test_what_is_older_than_the_window_does_not_count() -> None:
    pace = ended(MemberPace(), *(n / 10 for n in range(40)))
    after = 2 * WINDOW_US / SECOND_US
    ended(pace, *(after + n for n in range(20)))
    assert pace.per_s == pytest.approx(1.0)


def test_executions_without_times_count_and_tell_nothing_else() -> None:
    pace = MemberPace()
    pace.observe(1, waited_us=None, execution_us=None)
    assert (pace.ended, pace.execution_us, pace.per_s) == (1, None, None)
    pace.observe(2, waited_us=0, execution_us=10 * SECOND_US)
    pace.observe(3, waited_us=0, execution_us=20 * SECOND_US)
    assert pace.execution_us == 11 * SECOND_US


def test_what_fails_makes_nobody_fast_but_slow_where_it_takes_longer() -> None:
    pace = MemberPace()
    for n in range(40):
        pace.observe(n * 1_000, waited_us=10**9, execution_us=1_000, is_failed=True)
    assert (pace.ended, pace.succeeded) == (40, 0)
    assert (pace.execution_us, pace.per_s) == (None, None)
    pace.observe(40_000, waited_us=0, execution_us=10 * SECOND_US)
    pace.observe(50_000, waited_us=0, execution_us=1_000, is_failed=True)
    assert (pace.execution_us, pace.succeeded) == (10 * SECOND_US, 1)
    pace.observe(60_000, waited_us=0, execution_us=20 * SECOND_US, is_failed=True)
    assert pace.execution_us == 11 * SECOND_US
