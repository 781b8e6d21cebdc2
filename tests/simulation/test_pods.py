"""A world whose run is worked on by pods, is paused for long, and killed, and what its checks find out."""

import anyio
import httpx
import pytest

from orchestrator.core.lanes.via import Via
from orchestrator.emulator.contract.faults import Faults
from orchestrator.units import SECOND_US
from tests.simulation.checks import violations
from tests.simulation.facts import Facts
from tests.simulation.plan import Asking, Crash, Kill, Plan, PodsPlan, Word
from tests.simulation.play import Play
from tests.simulation.seeds import played
from tests.simulation.world import URL

pytestmark = pytest.mark.slow

PODS = PodsPlan(
    counts=(2,),
    workers=1,
    at_once=1,
    stops=False,
    provisioning_s=5.0,
    booting_s=3.0,
    ready_within_s=60.0,
    capacity=None,
    faults=Faults(lost_answer=0.2, mute_pod=0.2, failed_pod=0.2, pod_ends_after_s=40.0),
)
PLAN = Plan(
    scenario="pods",
    seed=1,
    jobs=30,
    seconds=(4.0, 8.0),
    via=Via.HTTP,
    at_url=True,
    pods=PODS,
    askings=(Asking(word=Word.PAUSE, run=0, at_s=30.0), Asking(word=Word.CONTINUE, run=0, at_s=230.0)),
    crashes=(Crash(Kill.AFTER_COMMIT, 12),),
    calm_at_s=40.0,
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Facts:
    return Play(PLAN, tmp_path_factory.mktemp("world"), traced=False).play()


def found(facts: Facts) -> list[str]:
    return [text.partition(":")[0] for text in violations(facts)]


def test_all_rows_come_back_and_no_pod_is_left(world: Facts) -> None:
    assert violations(world) == []
    assert world.pods is not None
    assert world.pods.left == []
    assert len({sight.name for sight in world.pods.sights}) >= 2
    assert any(sight.is_paid and sight.is_busy for sight in world.pods.sights)


def test_who_is_asked_for_and_unknown_to_the_ledger_or_left_is_found_out(world: Facts) -> None:
    pods = world.pods
    assert pods is not None

    async def ask() -> None:
        pod = {"name": "batch-1-99", "image": "me/vllm:1", "gpu": {"id": "NVIDIA L4", "count": 1}}
        headers = {"authorization": "Bearer key"}
        answer = await pods.answer(httpx.Request("POST", f"{URL}/v2/pods", json=pod, headers=headers))
        assert answer.status_code == 201

    anyio.run(ask)
    assert found(world) == ["no_pod_is_left_that_is_paid", "pods_are_in_the_ledger_before_they_are_asked_for"]


def test_a_paused_run_that_keeps_its_pods_is_found_out(world: Facts) -> None:
    pods = world.pods
    assert pods is not None
    pods.sights += [sight._replace(at=sight.at + 150 * SECOND_US, is_busy=False) for sight in pods.sights[:20]]
    assert "who_is_paused_has_no_pods" in found(world)


@pytest.mark.parametrize("seed", range(4))
def test_no_world_with_pods_violates_a_promise(seed: int) -> None:
    world = played("pods", seed)
    assert not world.violations, "\n".join(world.lines())
