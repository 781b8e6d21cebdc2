"""A world in which two teams post batches while processes are killed, and what its checks find out."""

import pytest

from tests.simulation.checks import violated, violations
from tests.simulation.facts import Facts
from tests.simulation.plan import Crash, Kill, Plan
from tests.simulation.posted_front import FILES
from tests.simulation.posted_plan import PostedPlan, ProgramPlan, Wrong
from tests.simulation.posted_play import PostedPlay
from tests.simulation.seeds import played
from tests.simulation.tampering import tampered

PROGRAMS = (
    ProgramPlan(team=0, begins_s=0.0, rows=4, window_s=86_400, again=2),
    ProgramPlan(team=1, begins_s=0.0, rows=40, window_s=86_400, cancels_after_s=1.0),
    ProgramPlan(team=1, begins_s=5.0, rows=12, window_s=8, deletes_after_s=60.0),
    ProgramPlan(team=0, begins_s=5.0, rows=3, window_s=86_400, wrong=Wrong.NO_JSON, deletes_after_s=0.0),
)
pytestmark = pytest.mark.slow

PLAN = Plan(
    scenario="posted",
    seed=1,
    jobs=0,
    workers=2,
    posted=PostedPlan(programs=PROGRAMS),
    max_attempts=1,
    crashes=(Crash(Kill.AFTER_COMMIT, 20), Crash(Kill.BEFORE_COMMIT, 12)),
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Facts:
    return PostedPlay(PLAN, tmp_path_factory.mktemp("world"), traced=False).play()


def test_each_batch_ends_once_and_each_request_has_one_line_whoever_is_killed(world: Facts) -> None:
    assert violations(world) == []
    assert world.posted is not None
    assert {shown["status"] for shown in world.posted.ended.values()} == {"completed", "cancelled", "expired", "failed"}
    assert world.runs[0].processes >= 4


@pytest.mark.parametrize(
    ("change", "check"),
    [
        (
            "UPDATE posted_batches SET completed = completed + 1 WHERE output_file IS NOT NULL",
            "each_request_has_one_line",
        ),
        ("UPDATE posted_batches SET output_file = error_file WHERE state = 'completed'", "each_request_has_one_line"),
        ("UPDATE posted_batches SET state = 'cancelling' WHERE state = 'cancelled'", "each_batch_has_ended_once"),
        ("UPDATE posted_batches SET state = 'completed' WHERE state = 'expired'", "each_request_has_one_line"),
        ("UPDATE posted_batches SET owner = 'team-b'", "each_team_sees_its_own"),
        ("DELETE FROM posted_files WHERE purpose = 'batch_output'", "what_was_told_holds"),
        ("UPDATE posted_files SET size = size + 1", "the_folder_has_what_the_ledger_knows"),
        ("DELETE FROM runs", "no_request_is_sent_without_a_reason"),
    ],
)
def test_a_ledger_that_was_tampered_with_is_found_out(world: Facts, change: str, check: str) -> None:
    with tampered(world.ledger, change):
        assert check in violated(world)


def test_what_a_killed_process_leaves_and_what_nobody_should_be_told_is_found_out(world: Facts) -> None:
    left = world.folder / FILES / ".upload-1"
    left.write_bytes(b"")
    assert violated(world) == {"the_folder_has_what_the_ledger_knows"}
    left.unlink()
    assert world.posted is not None
    world.posted.listed["team-a"].add("file-of-others")
    assert violated(world) == {"each_team_sees_its_own"}
    world.posted.listed["team-a"].discard("file-of-others")
    world.posted.flaws.append("team-a was told of file-1: 200")
    assert violated(world) == {"each_batch_has_ended_once"}


@pytest.mark.parametrize("seed", range(8))
def test_no_world_with_posted_batches_violates_a_promise(seed: int) -> None:
    world = played("posted", seed)
    assert not world.violations, "\n".join(world.lines())
