"""What befalls pods by faults, from their creation or their start on."""

import pytest

from orchestrator.emulator.account.pod_records import PodPhase, PodVerb
from orchestrator.emulator.contract.answers import ProblemRefusal
from orchestrator.emulator.contract.faults import Faults
from tests.emulator.pod_worlds import ME, World

SERVED = {"name": "p", "image": "i", "gpu": {"id": "L4", "count": 1}, "ports": ["8000/http"]}


def pod(faults: Faults) -> World:
    return World(body=SERVED, faults=faults)


def listens(pod: World) -> bool | None:
    return pod.world.listens(pod.id, 8000, pod.clock.now())


def test_without_a_fault_a_pod_runs_and_listens() -> None:
    calm = pod(Faults())
    calm.clock.forward(1_000)
    assert (calm.get().status, listens(calm)) == (PodPhase.RUNNING, True)


def test_one_that_is_stuck_never_runs_and_can_be_stopped() -> None:
    stuck = pod(Faults(stuck_pod=1.0))
    stuck.clock.forward(100_000)
    assert (stuck.get().status, stuck.get().cost) == (PodPhase.PROVISIONING, 1.0)
    stuck.act(PodVerb.STOP)
    assert stuck.get().status is PodPhase.EXITED


def test_one_that_is_mute_runs_and_never_listens() -> None:
    mute = pod(Faults(mute_pod=1.0))
    mute.clock.forward(100_000)
    assert (mute.get().status, listens(mute)) == (PodPhase.RUNNING, False)


def test_one_that_fails_is_in_error_by_then_and_its_requests_are_cut() -> None:
    failing = pod(Faults(failed_pod=1.0, pod_ends_after_s=600))
    stopped: list[str] = []
    failing.world.on_stop = stopped.append
    failing.clock.forward(10)
    assert listens(failing)
    failing.clock.forward(600)
    assert (failing.get().status, listens(failing), stopped) == (PodPhase.ERROR, None, [failing.id])


def test_one_that_vanishes_is_gone_by_then_as_if_somebody_had_terminated_it() -> None:
    vanishing = pod(Faults(vanished_pod=1.0, pod_ends_after_s=600))
    stopped: list[str] = []
    vanishing.world.on_stop = stopped.append
    vanishing.clock.forward(600)
    assert (vanishing.world.list(ME, vanishing.clock.now()), stopped) == ((), [vanishing.id])
    with pytest.raises(ProblemRefusal) as refused:
        vanishing.get()
    assert refused.value.status == 404


def test_where_there_are_no_machines_none_is_made_and_none_started() -> None:
    with pytest.raises(ProblemRefusal) as refused:
        pod(Faults(no_machines=1.0))
    assert (refused.value.status, "no longer any instances" in str(refused.value.detail)) == (400, True)
    resting = pod(Faults())
    resting.act(PodVerb.STOP)
    resting.dice.faults = Faults(no_machines=1.0)
    assert resting.refusal(PodVerb.START).status == 400
    assert resting.get().status is PodPhase.EXITED


def test_each_start_draws_anew() -> None:
    unlucky = pod(Faults(failed_pod=1.0, pod_ends_after_s=0))
    assert unlucky.get().status is PodPhase.ERROR
    unlucky.dice.faults = Faults()
    unlucky.act(PodVerb.START)
    unlucky.clock.forward(1_000)
    assert unlucky.get().status is PodPhase.RUNNING
