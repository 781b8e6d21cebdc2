"""How many pods are asked for, and after which pause where some have failed."""

from orchestrator.core.pods.pod_lease import LeaseEnd, LeaseState, PodLease, ending, lease_ended
from orchestrator.core.pods.replacements import FAILURES_ALLOWED, PAUSE_US, PAUSE_US_MAX, demand
from orchestrator.units import HOUR_US
from tests.core.pods.leases import T0, lease


def failed(at: int) -> PodLease:
    return lease_ended(lease(), LeaseEnd.REFUSED, at)


def test_as_many_as_are_missing() -> None:
    assert demand(3, [], T0) == 3
    assert demand(3, [lease(), lease(LeaseState.READY)], T0) == 1
    assert demand(1, [lease(), lease(LeaseState.READY)], T0) == 0
    done = [lease_ended(lease(), LeaseEnd.DONE, T0), ending(lease(LeaseState.READY), LeaseEnd.DONE, T0)]
    assert demand(2, done, T0) == 2


def test_after_one_that_failed_there_is_a_pause_which_doubles() -> None:
    one = ending(lease(LeaseState.READY), LeaseEnd.LOST, T0)
    for leases, pause_us in (([one], PAUSE_US), ([one, failed(T0)], 2 * PAUSE_US), ([failed(T0)] * 9, PAUSE_US_MAX)):
        assert demand(9, leases, T0 + pause_us - 1) == 0
        assert demand(9, leases, T0 + pause_us) == 9


def test_in_an_hour_no_more_than_some_may_fail() -> None:
    times = [T0 + n * PAUSE_US_MAX for n in range(2 + FAILURES_ALLOWED)]
    assert demand(2, [failed(at) for at in times], T0 + HOUR_US - 1) == 0
    assert demand(2, [failed(at) for at in times], T0 + HOUR_US) == 2
