"""Whether a member of a pool is well."""

import msgspec
import pytest

from orchestrator.core.gates.gates import EndpointFacts
from orchestrator.core.pools.member_health import (
    AGAIN_US,
    AGAIN_US_MAX,
    FAILING,
    NO_WORKERS,
    NO_WORKERS_US,
    REFUSING,
    SUSPECT,
    THROTTLED,
    UNANSWERED,
    UNHEALTHY,
    UNREACHABLE,
    MemberHealth,
    MemberSigns,
    MemberState,
    trouble_of_workers,
)
from orchestrator.core.service.health import Health, JobCounts, WorkerCounts

NOW = 1_000_000_000


def workers(*, queued: int = 0, **counts: int) -> Health:
    found = msgspec.structs.replace(WorkerCounts(running=0, idle=0), **counts)
    return Health(jobs=JobCounts(in_queue=queued), workers=found)


def signs(
    health: Health | None = None, *, is_unreachable: bool = False, fails_alone: bool = False, **endpoint: object
) -> MemberSigns:
    facts = EndpointFacts(**endpoint)  # type: ignore[arg-type]
    return MemberSigns(endpoint=facts, is_unreachable=is_unreachable, health=health, fails_alone=fails_alone)


GOOD = signs(workers(running=3))


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (signs(stopped="the key is refused"), "the key is refused"),
        (signs(is_unreachable=True), UNREACHABLE),
        (signs(submissions_refused_until=NOW + 1), REFUSING),
        (signs(questions_refused_until=NOW + 1), REFUSING),
        (signs(unanswered_until=NOW + 1), UNANSWERED),
        (signs(suspect_until=NOW + 1), SUSPECT),
        (signs(workers(throttled=2)), THROTTLED),
        (signs(workers(unhealthy=1)), UNHEALTHY),
    ],
)
def test_it_is_not_well_by_its_answers_and_by_its_workers(found: MemberSigns, why: str) -> None:
    health = MemberHealth()
    assert health.observe(found, NOW, ended=0)
    assert (health.state, health.why) == (MemberState.UNWELL, why)


@pytest.mark.parametrize(
    "found",
    [
        signs(),
        GOOD,
        signs(workers(throttled=2, running=1)),
        signs(workers(throttled=2, initializing=1)),
        signs(workers(throttled=2, idle=1)),
        signs(workers()),  # it starts them by what waits
        signs(workers(queued=5)),  # and may take a while
        signs(Health(workers=WorkerCounts(throttled=3))),  # who does not say how many work says nothing
        signs(submissions_refused_until=NOW),  # single ones find out
        signs(unanswered_until=NOW),
    ],
)
def test_it_is_well_where_nothing_speaks_against_it(found: MemberSigns) -> None:
    health = MemberHealth()
    assert not health.observe(found, NOW, ended=0)
    assert (health.state, health.why) == (MemberState.WELL, None)


def test_jobs_may_wait_for_a_first_worker_and_not_for_ever() -> None:
    health = MemberHealth()
    assert not health.observe(signs(workers(queued=5)), NOW, ended=0)
    assert not health.observe(signs(workers(queued=5)), NOW + NO_WORKERS_US - 1, ended=0)
    assert health.observe(signs(workers(queued=5)), NOW + NO_WORKERS_US, ended=0)
    assert health.why == f"{NO_WORKERS} for 1 min"
    other = MemberHealth()
    for found in (workers(queued=5), workers(queued=0), workers(queued=5), workers(running=1), workers(queued=5)):
        assert not other.observe(signs(found), NOW, ended=0)
        assert not other.observe(signs(found), NOW + NO_WORKERS_US - 1, ended=0)


def test_once_its_signs_are_good_it_is_tried_and_the_first_that_ends_makes_it_well() -> None:
    health = MemberHealth()
    health.observe(signs(workers(throttled=2)), NOW, ended=7)
    assert not health.observe(GOOD, NOW + AGAIN_US - 1, ended=7)
    assert health.observe(GOOD, NOW + AGAIN_US, ended=7)
    assert (health.state, health.why) == (MemberState.TRIED, THROTTLED)
    assert not health.observe(GOOD, NOW + 2 * AGAIN_US, ended=7)
    assert health.observe(GOOD, NOW + 2 * AGAIN_US, ended=8)
    assert (health.state, health.why) == (MemberState.WELL, None)


def test_each_time_that_it_was_not_well_after_all_it_is_tried_later() -> None:
    health, now, pauses = MemberHealth(), NOW, []
    for _ in range(8):
        health.observe(signs(workers(throttled=2)), now, ended=0)
        began_at = now
        while health.state is MemberState.UNWELL:
            now += 1_000_000
            health.observe(GOOD, now, ended=0)
        pauses.append(now - began_at)
    assert pauses[:3] == [AGAIN_US, 2 * AGAIN_US, 4 * AGAIN_US]
    assert pauses[-1] == AGAIN_US_MAX
    health.observe(GOOD, now, ended=1)
    health.observe(signs(workers(throttled=2)), now, ended=1)
    health.observe(GOOD, now + AGAIN_US, ended=1)
    assert health.state is MemberState.TRIED  # once it was well the pauses begin anew


def test_where_executions_fail_it_is_tried_until_one_does_not() -> None:
    health, failing = MemberHealth(), signs(workers(running=3), fails_alone=True)
    assert health.observe(failing, NOW, ended=4, failed=4)
    assert (health.state, health.why) == (MemberState.UNWELL, FAILING)
    assert not health.observe(failing, NOW + AGAIN_US - 1, ended=6, failed=6)
    assert health.observe(failing, NOW + AGAIN_US, ended=6, failed=6), "what was there then tells nothing"
    assert health.observe(GOOD, NOW + AGAIN_US + 1, ended=7, failed=7)
    assert (health.state, health.why) == (MemberState.UNWELL, FAILING)
    assert not health.observe(GOOD, NOW + 3 * AGAIN_US, ended=7, failed=7)
    assert health.observe(GOOD, NOW + 3 * AGAIN_US + 1, ended=7, failed=7)
    assert health.observe(GOOD, NOW + 4 * AGAIN_US, ended=9, failed=8)
    assert (health.state, health.why) == (MemberState.WELL, None)


def test_who_was_not_well_for_another_reason_is_so_again_though_the_one_that_is_tried_fails() -> None:
    health = MemberHealth()
    health.observe(signs(workers(throttled=2)), NOW, ended=0)
    health.observe(GOOD, NOW + AGAIN_US, ended=0)
    assert health.observe(GOOD, NOW + 2 * AGAIN_US, ended=1, failed=1)
    assert health.state is MemberState.WELL


def test_it_stays_unwell_for_as_long_as_anything_is_wrong() -> None:
    health = MemberHealth()
    assert health.observe(signs(is_unreachable=True), NOW, ended=0)
    assert not health.observe(signs(workers(unhealthy=1)), NOW + 1, ended=0)
    assert (health.state, health.why, health.since) == (MemberState.UNWELL, UNHEALTHY, NOW)


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (workers(running=1, throttled=2, unhealthy=1), None),
        (workers(throttled=2, unhealthy=1), THROTTLED),
        (workers(unhealthy=1), UNHEALTHY),
        (workers(), None),
    ],
)
def test_workers_are_in_trouble_where_none_of_them_can_do_anything(found: Health, why: str | None) -> None:
    assert trouble_of_workers(found) == why
