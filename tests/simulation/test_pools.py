"""A world in which a member of a pool loses its workers and another is refused for good, and what its checks find out."""

import math
from pathlib import Path

import msgspec
import pytest

from orchestrator.core.jobs.lifecycle import Event
from orchestrator.core.lanes.via import Via
from orchestrator.settings.words_and_defaults import OnUncertain
from tests.simulation.books import read_books
from tests.simulation.checks import violated, violations
from tests.simulation.facts import MEMBERS, Facts
from tests.simulation.looked_up import input_of
from tests.simulation.plan import Crash, Kill, Plan
from tests.simulation.play import Play
from tests.simulation.pool_checks import is_moved_unbegun
from tests.simulation.pool_plan import MemberTrouble, MemberWeather, PoolPlan
from tests.simulation.seeds import played
from tests.simulation.tampering import tampered
from tests.simulation.world import POOL_ENDPOINTS

pytestmark = pytest.mark.slow

POOL = PoolPlan(
    workers=(1, 1, 1),
    speeds=(1.0, 20.0, 1.0),
    named=(3,),
    weather=(
        MemberWeather(member=0, trouble=MemberTrouble.THROTTLED, at_s=6.0, until_s=math.inf),
        MemberWeather(member=1, trouble=MemberTrouble.REFUSED, at_s=6.0, until_s=math.inf),
    ),
)
PLAN = Plan(scenario="pools", seed=1, jobs=16, seconds=(4.0, 8.0), pool=POOL, all_succeed=True)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Facts:
    return Play(PLAN, tmp_path_factory.mktemp("world"), traced=False).play()


def test_what_waited_was_moved_and_what_nobody_knows_of_is_uncertain(world: Facts) -> None:
    assert violations(world) == []
    rows = [row for of_job in read_books(world.ledger).events.values() for row in of_job]
    assert any(is_moved_unbegun(row) for row in rows)
    assert any(row.event == Event.RETRIED and row.trouble == "uncertain" for row in rows)
    owed = [row for row in read_books(world.ledger).submissions.values() if row.cancel_at is not None]
    assert owed, "what is at the member that is refused is cancelled once it can be"


def test_what_was_moved_though_a_worker_had_it_is_found_out(world: Facts) -> None:
    books = read_books(world.ledger)
    row = next(row for of_job in books.events.values() for row in of_job if is_moved_unbegun(row))
    fate = world.fates[books.submissions[row.submission or 0].remote_id or ""]
    fate.executions = 1
    assert violated(world) == {"what_was_moved_had_not_begun", "nothing_is_executed_that_is_not_counted"}
    fate.executions, ends = 0, fate.ends
    fate.ends = []
    assert violated(world) == {"what_was_moved_had_not_begun", "nothing_is_left_at_a_member"}
    fate.ends = ends


def test_what_nobody_is_to_cancel_any_more_is_found_out(world: Facts) -> None:
    with tampered(world.ledger, "UPDATE submissions SET cancel_at = NULL"):
        assert violated(world) == {"nothing_is_left_at_a_member"}


@pytest.mark.parametrize("wish", [OnUncertain.FAIL, OnUncertain.HOLD])
def test_what_was_sent_anew_against_the_wish_of_its_run_is_found_out(world: Facts, wish: OnUncertain) -> None:
    run = world.runs[0]
    run.plan = msgspec.structs.replace(run.plan, on_uncertain=wish)
    assert violated(world) >= {"nobody_in_doubt_is_sent_anew_unasked"}
    run.plan = msgspec.structs.replace(run.plan, on_uncertain=OnUncertain.RESUBMIT)


@pytest.mark.parametrize("member", [0, 1])
def test_a_member_where_everything_fails_costs_few_executions_and_no_row(member: int, tmp_path: Path) -> None:
    weather = (MemberWeather(member=member, trouble=MemberTrouble.BROKEN, at_s=0.0, until_s=math.inf),)
    pool = PoolPlan(workers=(2, 2), speeds=(1.0, 1.0), named=(2,), weather=weather)
    plan = Plan(scenario="pools", seed=3, jobs=40, seconds=(4.0, 8.0), pool=pool, all_succeed=True)
    facts = Play(plan, tmp_path, traced=False).play()
    assert violations(facts) == []
    at = [fate for fate in facts.fates.values() if fate.at.endswith(POOL_ENDPOINTS[member])]
    assert 4 <= sum(fate.executions for fate in at) < 16


LANES = PoolPlan(
    workers=(1, 2, 2),
    speeds=(1.0, 1.0, 1.0),
    named=(3,),
    vias=(None, Via.HTTP, Via.BOTH),
    weather=(
        MemberWeather(member=0, trouble=MemberTrouble.THROTTLED, at_s=6.0, until_s=math.inf),
        MemberWeather(member=1, trouble=MemberTrouble.REFUSED, at_s=20.0, until_s=30.0),
    ),
)


def test_members_of_different_lanes_do_the_work_of_one_that_loses_its_workers_whoever_is_killed(tmp_path: Path) -> None:
    crashes = tuple(Crash(Kill.AFTER_COMMIT, number) for number in (30, 60))
    plan = Plan(scenario="pools", seed=5, jobs=40, seconds=(3.0, 5.0), pool=LANES, crashes=crashes, all_succeed=True)
    facts = Play(plan, tmp_path, traced=False).play()
    assert violations(facts) == []
    used = {(at, operation) for at, operation, _ in facts.ways}
    assert used >= {(MEMBERS[0], "run"), (MEMBERS[1], "openai"), (MEMBERS[2], "runsync")}
    rows = [row for of_job in read_books(facts.ledger).events.values() for row in of_job]
    assert any(is_moved_unbegun(row) for row in rows)
    facts.ways.add((MEMBERS[1], "run", input_of("job-1")))
    assert violated(facts) == {"each_member_is_sent_jobs_by_its_own_lane"}


@pytest.mark.parametrize("seed", [*range(6), 15, 18])
def test_no_world_with_a_pool_violates_a_promise(seed: int) -> None:
    world = played("pools", seed)
    assert not world.violations, "\n".join(world.lines())
