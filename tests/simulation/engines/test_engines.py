"""A world in which two engines share a ledger and one after the other is lost, and what its checks find out."""

from collections.abc import Iterator

import pytest

from orchestrator.core.jobs.deadlines import TTL_GRACE_US
from orchestrator.units import SECOND_US
from tests.postgres.databases import Databases
from tests.simulation.checks import violated, violations
from tests.simulation.engines.drawn import PATIENCE_S, engines
from tests.simulation.engines.plan import Befalls, EnginesPlan, Trouble
from tests.simulation.engines.play import EnginesPlay
from tests.simulation.facts import Facts
from tests.simulation.plan import Plan
from tests.simulation.seeds import played
from tests.simulation.tampering import tampered

pytestmark = pytest.mark.slow

SEEDS = range(2)
PEOPLE_S, FROZEN_AT_S, KILLED_AT_S = 5.0, 11.0, 55.0

PLAN = Plan(
    scenario="engines",
    seed=1,
    jobs=8,
    workers=2,
    seconds=(15.0, 15.0),
    side_by_side=True,
    calm_at_s=KILLED_AT_S + 10,
    patience_s=300,
    engines=EnginesPlan(
        begin_s=(0.0, 1.0),
        befalls=(
            Befalls(trouble=Trouble.FROZEN, at_s=FROZEN_AT_S, size=30.0),
            Befalls(trouble=Trouble.KILLED, at_s=KILLED_AT_S),
        ),
        again_s=20.0,
        drifts=(0.0, 0.0),
        are_of_one_machine=False,
        people_s=PEOPLE_S,
    ),
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, databases: Databases) -> Iterator[Facts]:
    with databases.one() as url:
        yield EnginesPlay(PLAN, tmp_path_factory.mktemp("world"), url, traced=False).play()


def test_each_job_has_its_result_and_one_sends_after_the_other(world: Facts) -> None:
    assert violations(world) == []
    assert world.engines is not None
    assert [befell.trouble for _, _, befell in world.engines.befell] == [Trouble.FROZEN, Trouble.KILLED]
    senders = list(dict.fromkeys(each.process for each in world.engines.sent))
    assert len(senders) >= 2


def test_a_late_request_of_a_deposed_owner_is_found_out(world: Facts) -> None:
    assert world.engines is not None
    sent, (_, killed, _) = world.engines.sent, world.engines.befell[1]
    sent.append(sent[-1]._replace(process=killed))
    assert violated(world) == {"nobody_sends_after_a_successor"}
    sent.pop()


def test_a_silence_is_found_out(world: Facts) -> None:
    """When the program asks is up to the server's pace, so what shows that there was something to ask for is added."""
    assert world.engines is not None
    at, frozen, _ = world.engines.befell[0]
    before, world.engines.sent = world.engines.sent, []
    world.engines.sent += [
        each for each in before if (each.at <= at and each.process == frozen) or each.at > at + 20_000_000
    ]
    asked = world.questions[next(iter(world.fates))]
    asked_before = tuple(asked)
    asked[:] = sorted([*asked, at - 2_000_000, at - 1_000_000, at + 20_000_000])
    assert violated(world) == {"somebody_goes_on_soon"}
    world.engines.sent = before
    asked[:] = asked_before


@pytest.mark.parametrize("change", ["DELETE FROM flows WHERE id = 1", "DELETE FROM fires"])
def test_a_fire_that_is_missing_is_found_out(world: Facts, change: str) -> None:
    with tampered(world.ledger, change):
        assert violated(world) == {"each_schedule_fires_once"}


@pytest.mark.parametrize("seed", SEEDS)
def test_no_world_with_several_engines_violates_a_promise(seed: int, databases: Databases) -> None:
    world = played("engines", seed, databases)
    assert not world.violations, "\n".join(world.lines())


def test_what_is_held_can_be_settled_before_a_world_is_given_up() -> None:
    held_s = [engines(seed).ttl_s + TTL_GRACE_US / SECOND_US for seed in range(200)]
    assert max(held_s) < PATIENCE_S / 2
