"""A world in which flows are carried out by engines that are lost, and what its checks find out."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from orchestrator.units import WHOLE
from tests.postgres.databases import Databases
from tests.simulation.checks import violated, violations
from tests.simulation.engines.plan import Befalls, EnginesPlan, Trouble
from tests.simulation.engines.play import EnginesPlay
from tests.simulation.facts import Facts
from tests.simulation.flows.checks import whole_ledger
from tests.simulation.flows.plan import FlowsPlan
from tests.simulation.plan import Plan
from tests.simulation.seeds import played
from tests.simulation.tampering import tampered

pytestmark = pytest.mark.slow

SEEDS = range(2)

PLAN = Plan(
    scenario="flows",
    seed=1,
    jobs=2,
    seconds=(2.0, 4.0),
    side_by_side=True,
    calm_at_s=20,
    patience_s=300,
    engines=EnginesPlan(
        begin_s=(0.0, 1.0),
        befalls=(Befalls(trouble=Trouble.KILLED, at_s=7.0),),
        again_s=5.0,
        drifts=(0.0, 0.0),
        are_of_one_machine=False,
        flows=FlowsPlan(
            asked_s=(1.0, 3.0),
            rows=3,
            has_command=True,
            needs=WHOLE,
            side_by_side=2,
            are_looked_at_s=(3.0, 6.0),
            paused=0.0,
        ),
    ),
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, databases: Databases) -> Iterator[Facts]:
    with databases.one() as url:
        yield EnginesPlay(PLAN, tmp_path_factory.mktemp("world"), url, traced=False).play()


def test_each_row_goes_through_all_stages_though_an_engine_is_killed(world: Facts) -> None:
    assert violations(world) == []
    with closing(sqlite3.connect(whole_ledger(world))) as db:
        runs = dict(db.execute("SELECT runs.name, count(*) FROM jobs JOIN runs ON runs.id = run_id GROUP BY runs.name"))
    flows = ("night@20260101T000000Z", "night@20260101T000100Z")
    assert runs == {"batch": 2} | {f"{flow}/{stage}": 3 for flow in flows for stage in ("first", "between", "last")}


_FLOW = "(SELECT max(id) FROM flows WHERE name LIKE 'night%')"
_ROW = "(SELECT id FROM jobs WHERE run_id = (SELECT id FROM runs WHERE name LIKE '%/{stage}') ORDER BY id LIMIT 1)"


@pytest.mark.parametrize(
    ("change", "check"),
    [
        (f"UPDATE flows SET state = 'running', ended_at = NULL WHERE id = {_FLOW}", "each_flow_succeeds"),
        (f"DELETE FROM flows WHERE id = {_FLOW}", "each_flow_succeeds"),
        (f"DELETE FROM jobs WHERE id = {_ROW.format(stage='first')}", "each_row_is_handed_over_once"),
        (f"DELETE FROM jobs WHERE id = {_ROW.format(stage='between')}", "each_row_is_handed_over_once"),
        (f"DELETE FROM jobs WHERE id = {_ROW.format(stage='last')}", "each_row_is_handed_over_once"),
        (
            f"UPDATE outcomes SET output = '{{}}' WHERE job_id = {_ROW.format(stage='last')}",
            "each_row_is_handed_over_once",
        ),
    ],
)
def test_what_went_wrong_with_a_flow_is_found_out(world: Facts, change: str, check: str) -> None:
    with tampered(whole_ledger(world), change) as changed:
        assert changed == 1
        assert check in violated(world)


def test_a_row_that_is_paid_twice_is_found_out(world: Facts) -> None:
    [one] = [each for each in world.fates.values() if each.rows == (b'{"n":1000001}',) and each.at.endswith("ep")]
    world.fates["again"] = one
    assert violated(world) == {"no_row_is_paid_twice"}
    del world.fates["again"]


@pytest.mark.parametrize("seed", SEEDS)
def test_no_world_with_flows_violates_a_promise(seed: int, databases: Databases) -> None:
    world = played("flows", seed, databases)
    assert not world.violations, "\n".join(world.lines())
