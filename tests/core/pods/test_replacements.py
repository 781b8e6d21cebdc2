"""How many pods are asked for, and when again after some have failed."""

from orchestrator.core.pods.pod_lease import LeaseEnd, LeaseState, PodLease, ending, lease_ended
from orchestrator.core.pods.replacements import FAILURES_ALLOWED, PAUSE_US, PAUSE_US_MAX, PodDemand, demand
from orchestrator.units import HOUR_US
from tests.core.pods.leases import T0, lease


def failed(at: int) -> PodLease:
    return lease_ended(lease(), LeaseEnd.REFUSED, at)


def test_as_many_as_are_missing() -> None:
    assert demand(3, [], T0) == PodDemand(3)
    assert demand(3, [lease(), lease(LeaseState.READY)], T0) == PodDemand(1)
    assert demand(1, [lease(), lease(LeaseState.READY)], T0) == PodDemand()
    done = [lease_ended(lease(), LeaseEnd.DONE, T0), ending(lease(LeaseState.READY), LeaseEnd.DONE, T0)]
    assert demand(2, done, T0) == PodDemand(2)


def test_after_one_that_failed_there_is_a_pause_which_doubles() -> None:
    one = ending(lease(LeaseState.READY), LeaseEnd.LOST, T0)
    assert demand(2, [one], T0) == PodDemand(0, T0 + PAUSE_US)
    assert demand(2, [one], T0 + PAUSE_US) == PodDemand(2)
    assert demand(2, [one, failed(T0)], T0) == PodDemand(0, T0 + 2 * PAUSE_US)
    many = [failed(T0)] * 9
    assert demand(9, many, T0) == PodDemand(0, T0 + PAUSE_US_MAX)


def test_in_an_hour_no_more_than_some_may_fail() -> None:
    times = [T0 + n * PAUSE_US_MAX for n in range(2 + FAILURES_ALLOWED)]
    now = times[-1] + PAUSE_US_MAX - 1
    assert demand(2, [failed(at) for at in times], now) == PodDemand(0, T0 + HOUR_US)
    assert demand(2, [failed(at) for at in times], T0 + HOUR_US).more == 2
