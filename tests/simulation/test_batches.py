"""A world whose jobs leave in batches of the service, beside another program's, and what its checks find out."""

from pathlib import Path

import pytest

from orchestrator.core.lanes.via import Via
from orchestrator.emulator.batches.batch_rules import BatchOrder
from orchestrator.emulator.contract.faults import Faults
from tests.simulation.checks import violated, violations
from tests.simulation.facts import Facts
from tests.simulation.plan import BatchPlan, Plan
from tests.simulation.play import Play
from tests.simulation.world import ENDPOINT

pytestmark = pytest.mark.slow

BATCHES = BatchPlan(
    rows=5,
    delay_s=20.0,
    workers=3,
    append_ids=False,
    order=BatchOrder.BY_STATUS,
    kept_s=600.0,
    wait_s=5.0,
    repeats=0,
    active_max=10,
    limit_status=400,
    has_active_drafts=False,
    page_max=3,
    strangers=9,
)
PLAN = Plan(
    scenario="batches",
    seed=1,
    jobs=16,
    via=Via.BATCH,
    batches=BATCHES,
    execution_timeout_s=600.0,
    faults=Faults(lost_answer=0.1, failed_batch=0.2, server_error=0.05),
    calm_at_s=120.0,
)


@pytest.fixture
def world(tmp_path: Path) -> Facts:
    return Play(PLAN, tmp_path, traced=False).play()


def test_all_rows_come_back_and_nothing_of_somebody_else_is_touched(world: Facts) -> None:
    assert violations(world) == []
    assert {left.status for left in world.strange} == {"DRAFT", "FINALIZED"}
    assert any(fate.is_of_batch for fate in world.fates.values())


def test_who_touches_a_batch_of_somebody_else_is_found_out(world: Facts) -> None:
    draft = next(left for left in world.strange if left.status == "DRAFT")
    world.batches_here.append(ENDPOINT, draft.id, [b'{"n":1}'], world.true.now())
    assert violated(world) == {"what_is_somebody_elses_is_left_alone"}


def test_who_leaves_a_draft_with_rows_is_found_out(world: Facts) -> None:
    world.batches_here.create(ENDPOINT, [b'{"n":1}'], world.true.now())
    assert violated(world) == {"no_draft_of_ours_is_left"}
