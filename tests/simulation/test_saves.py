"""A world in which outputs become files, whose links fail and whose disk is away, and what its checks find out."""

import json

import pytest

from orchestrator.settings.words_and_defaults import OnUnsaved
from tests.simulation.books import read_books
from tests.simulation.checks import violated, violations
from tests.simulation.facts import Facts
from tests.simulation.plan import Crash, Kill, Plan
from tests.simulation.play import Play
from tests.simulation.save_plan import Given, SavePlan
from tests.simulation.saves import FOLDER, Outputs
from tests.simulation.seeds import played
from tests.simulation.tampering import tampered

SAVES = SavePlan(
    given=tuple(Given),
    bytes_max=20_000,
    on_unsaved=OnUnsaved.KEEP,
    full_share=0.2,
    away=((1.0, 4.0),),
    strangers=(2,),
)
PLAN = Plan(
    scenario="saves", seed=3, jobs=16, saves=SAVES, calm_at_s=8.0, crashes=(Crash(Kill.BEFORE_COMMIT, 14),), away_s=4.0
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Facts:
    return Play(PLAN, tmp_path_factory.mktemp("world"), traced=False).play()


def test_what_can_be_a_file_is_one_and_the_rest_says_why(world: Facts) -> None:
    assert violations(world) == []
    members = [json.loads(row.output or b"")["file"] for row in read_books(world.ledger).outcomes]
    assert 4 <= sum("file" in member for member in members) < 16
    assert {member["unsaved"] for member in members if "unsaved" in member} >= {"it ended in the middle"}
    assert world.runs[0].processes >= 2


def test_a_file_that_is_not_what_its_row_says_is_found_out(world: Facts) -> None:
    out = world.folder / FOLDER
    path = next(path for path in sorted(out.iterdir()) if path.stat().st_size > 20)
    before = path.read_bytes()
    path.write_bytes(before[:-1])
    assert violated(world) == {"each_file_is_there_and_whole"}
    path.unlink()
    assert violated(world) == {"each_file_is_there_and_whole"}
    path.write_bytes(before)
    (out / ".left.tmp").write_bytes(b"")
    assert violated(world) == {"nothing_else_lies_where_files_are_saved"}
    (out / ".left.tmp").unlink()
    (out.parent / "outside.bin").write_bytes(b"")
    assert violated(world) == {"nothing_else_lies_where_files_are_saved"}
    (out.parent / "outside.bin").unlink()
    (out / "job-2.bin").write_bytes(b"ours")
    assert "nothing_else_lies_where_files_are_saved" in violated(world)


def test_a_content_in_the_ledger_is_found_out(world: Facts) -> None:
    rows = {row.job: json.loads(row.output or b"")["file"] for row in read_books(world.ledger).outcomes}
    job = next(
        job for job, member in rows.items() if "file" in member and Outputs(SAVES, PLAN.seed).given(job) is Given.BASE64
    )
    content = world.output_of(b'{"n":%d}' % job).hex()
    with tampered(world.ledger, f"UPDATE events SET detail = CAST(x'{content}' AS TEXT) WHERE job_id = {job}"):
        assert "the_ledger_has_no_content_of_files" in violated(world)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_no_world_with_saved_files_violates_a_promise(seed: int) -> None:
    world = played("saves", seed)
    assert not world.violations, "\n".join(world.lines())
