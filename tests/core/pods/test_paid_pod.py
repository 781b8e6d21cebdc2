"""Which pods somebody should see to."""

from orchestrator.core.pods.paid_pod import ENDING_US_MAX, IDLE_US_MAX, PaidPod, PodTrouble, paid_for_nothing, paid_pod
from orchestrator.core.pods.pod_lease import LeaseEnd, LeaseState, PodLease, ending, ready
from tests.core.pods.leases import T0, lease

READY = ready(lease(LeaseState.STARTING, per_hour=0.5), T0)


def trouble(of: PodLease, now: int, *, at_service: int = 0, is_worked_on: bool = True) -> PodTrouble | None:
    return paid_pod(of, "in", at_service=at_service).trouble(now, is_worked_on=is_worked_on)


def test_one_is_left_where_nobody_works() -> None:
    assert trouble(lease(), T0, is_worked_on=False) is PodTrouble.LEFT
    assert trouble(lease(), T0) is None


def test_one_that_has_nothing_to_do_for_long_is_idle() -> None:
    late = T0 + IDLE_US_MAX + 1
    assert trouble(READY, late) is PodTrouble.IDLE
    assert trouble(READY, late - 1) is None
    assert trouble(READY, late, at_service=1) is None


def test_one_that_does_not_end_stays() -> None:
    going = ending(READY, LeaseEnd.DONE, T0)
    assert trouble(going, T0 + ENDING_US_MAX) is None
    assert trouble(going, T0 + ENDING_US_MAX + 1) is PodTrouble.STAYS


def test_it_is_known_by_its_id_or_by_its_name_before_there_is_one() -> None:
    assert paid_pod(READY, "in", at_service=0).shown == "p1"
    wanted: PaidPod = paid_pod(lease(), "in", at_service=0)
    assert (wanted.shown, wanted.since) == ("in-ff-1", T0)


def test_the_first_pod_that_is_paid_for_nothing_is_told_with_its_id() -> None:
    going = ending(READY, LeaseEnd.DONE, T0)
    pods = [paid_pod(each, "in", at_service=1) for each in (READY, going)]
    assert paid_for_nothing(pods, T0) is None
    assert paid_for_nothing(pods, T0 + ENDING_US_MAX + 1) == "the pod could not be ended so far: it is paid (p1)"
