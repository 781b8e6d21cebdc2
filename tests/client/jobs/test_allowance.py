"""What of the limits is a batch's, and what is for people beside it."""

import pytest

from orchestrator.client import follow_predecessor, for_a_batch, for_people
from orchestrator.client.jobs.allowance import for_an_owner
from orchestrator.client.jobs.rate_limiter import RateLimiter
from orchestrator.clock import SystemClock
from orchestrator.core.limits.rate_pacer import CONTRACT_LIMITS, Limit, Operation

SHARED = sorted(set(Operation) - {Operation.RUN, Operation.RUNSYNC, Operation.HEALTH})


@pytest.mark.parametrize("operation", SHARED)
def test_a_batch_and_people_together_stay_within_the_limit(operation: Operation) -> None:
    limit = CONTRACT_LIMITS[operation]
    batch, people = for_a_batch(CONTRACT_LIMITS)[operation], for_people(CONTRACT_LIMITS)[operation]
    assert batch.requests + people.requests <= limit.requests
    if limit.concurrent is not None:
        assert batch.concurrent is not None
        assert people.concurrent is not None
        assert batch.concurrent + people.concurrent <= limit.concurrent
    assert batch.window_s == people.window_s == limit.window_s


def test_people_have_a_twentieth_and_a_batch_the_rest() -> None:
    limits = {Operation.STATUS: Limit(2000, 10, 400)}
    assert for_people(limits) == {Operation.STATUS: Limit(100, 10, 20)}
    assert for_a_batch(limits) == {Operation.STATUS: Limit(1900, 10, 380)}


@pytest.mark.parametrize("operation", [Operation.RUN, Operation.RUNSYNC])
def test_a_batch_has_all_of_run_and_runsync(operation: Operation) -> None:
    assert for_a_batch(CONTRACT_LIMITS)[operation] == CONTRACT_LIMITS[operation]


def test_what_cannot_be_divided_is_for_both() -> None:
    limits = {Operation.CANCEL: Limit(1, 10, 1), Operation.STATUS: Limit(5, 1)}
    assert for_people(limits) == {Operation.CANCEL: Limit(1, 10, 1), Operation.STATUS: Limit(1, 1)}
    assert for_a_batch(limits) == {Operation.CANCEL: Limit(1, 10, 1), Operation.STATUS: Limit(4, 1)}


def test_one_that_was_cut_off_leaves_its_successor_half_of_the_places() -> None:
    """All that it had at once is unanswered, and may still arrive."""
    own = for_an_owner(CONTRACT_LIMITS)
    clock = SystemClock()
    limiter = RateLimiter(clock, own, pacing="window")
    at_once = own[Operation.RUN].concurrent or 0
    unanswered = [clock.now()] * 3 * at_once
    follow_predecessor(limiter, answered=(), unanswered=unanswered, now=clock.now(), is_successor=True)
    assert limiter.figures(Operation.RUN).used == 2 * at_once, "no more may be of that one and of the one before it"
    assert limiter.available(Operation.RUN, 0) == at_once


def test_where_a_limit_is_smaller_than_what_may_still_arrive_its_successor_sends_one_at_a_time() -> None:
    """A process that its ledger is taken from has more answers that it could not write down."""
    clock = SystemClock()
    limiter = RateLimiter(clock, {Operation.RUN: Limit(10, 1, 5)}, pacing="window")
    follow_predecessor(limiter, answered=(), unanswered=[clock.now()] * 12, now=clock.now(), is_successor=True)
    assert limiter.available(Operation.RUN, 0) == 1
