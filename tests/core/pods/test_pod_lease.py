"""What is done about a lease, by what the list says of its pod."""

import pytest
from msgspec.structs import replace

from orchestrator.core.pods.pod_lease import (
    DOUBT_US,
    OPEN,
    Became,
    End,
    LeaseEnd,
    LeaseState,
    LeaseStep,
    ListedPod,
    LookItUp,
    PodLease,
    Probe,
    Start,
    Wait,
    ending,
    how_to_end,
    lease_ended,
    lease_name,
    lease_step,
    pod_of,
    ready,
    shown,
    strays,
)
from orchestrator.core.pods.pod_template import READY_WITHIN_US_DEFAULT, WhenDone
from orchestrator.units import HOUR_US, SECOND_US
from tests.core.pods.leases import T0, TEMPLATE, lease, pod

SOON = T0 + SECOND_US
STOPS = replace(TEMPLATE, when_done=WhenDone.STOP)
KNOWN = lease(LeaseState.STARTING, per_hour=0.5)
READY = ready(KNOWN, SOON)
ENDING = ending(READY, LeaseEnd.DONE, SOON)


def step(of: PodLease, seen: ListedPod | None, now: int = SOON) -> LeaseStep:
    return lease_step(of, seen, listed_at=now, now=now)


def test_a_new_pod_is_known_once_the_list_has_it_and_paid_from_when_it_was_wanted() -> None:
    found = step(lease(), pod("PROVISIONING"))
    assert found == Became(KNOWN)
    assert KNOWN.began_at == T0
    assert step(KNOWN, pod("PROVISIONING")) == Wait()
    assert step(KNOWN, pod("RUNNING")) == Probe()
    assert step(READY, pod("RUNNING")) == Wait()


def test_its_dearest_price_is_kept() -> None:
    found = step(KNOWN, pod(per_hour=0.75))
    assert found == Became(replace(KNOWN, per_hour=0.75))
    assert step(replace(KNOWN, per_hour=0.75), pod(per_hour=0.0)) == Probe()


def test_a_request_whose_answer_was_lost_is_doubted_for_a_while_and_then_was_none() -> None:
    wanted = lease()
    assert step(wanted, None, T0 + DOUBT_US - 1) == Wait()
    never = step(wanted, None, T0 + DOUBT_US)
    assert never == Became(lease_ended(wanted, LeaseEnd.NEVER, T0 + DOUBT_US))
    given_up = ending(wanted, LeaseEnd.DONE, SOON)
    assert step(given_up, None) == Wait()
    assert step(given_up, None, T0 + DOUBT_US) == Became(lease_ended(given_up, LeaseEnd.NEVER, T0 + DOUBT_US))
    assert step(given_up, pod()) == Became(replace(given_up, pod="p1", began_at=T0, per_hour=0.5))


def test_one_that_is_listed_no_more_is_asked_for_itself() -> None:
    for known in (KNOWN, READY, ENDING):
        assert step(known, None) == LookItUp()
    gone = shown(READY, None, SOON)
    assert (gone.state, gone.end, gone.ended_at) == (LeaseState.ENDED, LeaseEnd.LOST, SOON)
    assert shown(ENDING, None, SOON).end is LeaseEnd.DONE
    assert shown(READY, pod(), SOON) == READY
    renamed = shown(READY, pod(name="mine"), SOON)
    assert (renamed.state, renamed.detail) == (LeaseState.ENDED, "the pod is called mine now, and is left alone")


def test_one_that_stops_by_itself_is_lost_and_not_kept() -> None:
    found = step(lease(LeaseState.READY, per_hour=0.5, template=STOPS), pod("EXITED"))
    assert isinstance(found, Became)
    assert (found.lease.state, found.lease.end, found.lease.detail) == (
        LeaseState.ENDING,
        LeaseEnd.LOST,
        "the pod is EXITED",
    )
    assert found.lease.has_failed
    assert step(found.lease, pod("EXITED")) == End(WhenDone.TERMINATE)


def test_one_whose_server_does_not_answer_in_time_is_given_up() -> None:
    late = T0 + READY_WITHIN_US_DEFAULT
    assert step(KNOWN, pod("STARTING"), late - 1) == Wait()
    found = step(KNOWN, pod("STARTING"), late)
    assert isinstance(found, Became)
    assert (found.lease.end, found.lease.ending_at) == (LeaseEnd.LATE, late)
    assert step(READY, pod(), late) == Wait()


def test_one_that_rests_is_started_again_until_it_runs_or_is_late() -> None:
    wanted = lease(is_new=False, pod="p1", per_hour=0.5)
    assert step(wanted, pod("EXITED")) == Start()
    assert step(wanted, None) == LookItUp()
    assert step(wanted, pod("PROVISIONING")) == Became(replace(wanted, state=LeaseState.STARTING, began_at=T0))
    found = step(wanted, pod("EXITED"), T0 + READY_WITHIN_US_DEFAULT)
    assert isinstance(found, Became)
    assert found.lease.end is LeaseEnd.LOST


def test_what_is_to_end_is_stopped_or_terminated_as_the_template_says() -> None:
    assert step(ENDING, pod()) == End(WhenDone.TERMINATE)
    assert step(ENDING, pod("EXITED")) == End(WhenDone.TERMINATE)
    stopping = replace(ENDING, template=STOPS)
    assert step(stopping, pod()) == End(WhenDone.STOP)
    assert step(stopping, pod("EXITED")) == Became(lease_ended(stopping, LeaseEnd.DONE, SOON))
    assert how_to_end(replace(stopping, end=LeaseEnd.LATE)) is WhenDone.TERMINATE
    over = lease_ended(ENDING, LeaseEnd.DONE, SOON)
    assert step(over, pod()) == Wait()
    assert not over.is_in_use
    assert over.state not in OPEN


@pytest.mark.parametrize(
    ("other", "found"), [("in-ff-1", True), ("in-ff-2", False), ("IN-FF-1", False)], ids=["own", "next", "other"]
)
def test_a_pod_is_found_by_its_name_and_none_of_another_name_is(other: str, found: bool) -> None:
    assert (pod_of(lease(), [pod(name="x"), pod(name=other)]) is not None) is found
    assert pod_of(KNOWN, [pod(id="p2")]) is None


def test_only_what_was_never_known_is_a_stray_when_it_comes_after_all() -> None:
    never = lease_ended(lease(), LeaseEnd.NEVER, SOON)
    known = lease_ended(lease(LeaseState.READY, id=2, name="in-ff-2"), LeaseEnd.DONE, SOON)
    pods = [pod(), pod(id="p2", name="in-ff-2"), pod(id="p3", name="else")]
    assert strays([never, known], pods) == [(never, pods[0])]
    assert strays([lease()], pods) == []


def test_it_costs_its_price_for_as_long_as_it_was_there() -> None:
    assert READY.cost(T0 + HOUR_US // 2) == pytest.approx(0.25)
    assert lease_ended(READY, LeaseEnd.DONE, T0 + HOUR_US).cost(T0 + 9 * HOUR_US) == pytest.approx(0.5)
    assert READY.cost(T0 - HOUR_US) == 0.0
    assert lease().cost(T0 + HOUR_US) == 0.0


def test_names_are_readable_and_of_letters_that_any_service_takes() -> None:
    assert lease_name("Bildbeschreibung, März!", 0xABC, 12) == "bildbeschreibung-m-rz-abc-12"
    assert lease_name("---", 1, 1) == "run-1-1"
    assert len(lease_name("x" * 300, 1, 1)) == 44


def test_where_it_is_reached_and_whether_it_can_be_started() -> None:
    assert READY.url == "https://p1-8000.proxy.runpod.net"
    assert lease().url is None
    assert pod("EXITED").is_resting
    assert not pod("ERROR").is_resting
    assert not pod("TERMINATED").is_computing
