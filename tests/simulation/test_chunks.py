"""A world whose rows travel together, with bad and poisonous ones, kills and outputs that lack parts, and what its checks
find out.
"""

import pytest

from orchestrator.emulator.contract.faults import Faults
from tests.simulation.books import read_books
from tests.simulation.checks import violated, violations
from tests.simulation.chunk_plan import ChunkPlan
from tests.simulation.facts import Facts
from tests.simulation.plan import Crash, Kill, Plan
from tests.simulation.play import Play
from tests.simulation.seeds import played
from tests.simulation.tampering import tampered

PLAN = Plan(
    scenario="chunks",
    seed=1,
    jobs=20,
    chunks=ChunkPlan(rows=8, is_by_id=True, poisonous=(3,), bad=(7,), spoilt_share=0.2),
    faults=Faults(lost_answer=0.2),
    calm_at_s=20.0,
    crashes=(Crash(Kill.BEFORE_COMMIT, 9), Crash(Kill.AFTER_COMMIT, 12)),
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Facts:
    return Play(PLAN, tmp_path_factory.mktemp("world"), traced=False).play()


def test_each_row_has_its_own_end_whatever_becomes_of_its_chunk(world: Facts) -> None:
    assert violations(world) == []
    books = read_books(world.ledger)
    assert {row.trouble for row in books.outcomes if row.job in {3, 7}} == {"failed"}
    assert [row.trouble for row in books.outcomes if row.job not in {3, 7}] == [None] * 18
    assert {row.rows for row in books.submissions.values()} >= {8, 4, 2, 1}


@pytest.mark.parametrize(
    ("change", "check"),
    [
        ("UPDATE outcomes SET message = '7 is bad' WHERE job_id = 3", "no_row_bears_the_trouble_of_another"),
        ("UPDATE outcomes SET trouble = NULL WHERE job_id = 7", "no_row_bears_the_trouble_of_another"),
        ("UPDATE submissions SET chunk_rows = 8 WHERE job_id = 3", "no_row_bears_the_trouble_of_another"),
        ("UPDATE submissions SET chunk_rows = 8 WHERE job_id = 3", "a_chunk_that_fails_is_halved"),
        ("UPDATE events SET submission_id = NULL WHERE job_id = 2", "what_travels_together_comes_to_its_end"),
        ("UPDATE jobs SET attempt = 0 WHERE id = 2", "nothing_is_executed_that_is_not_counted"),
    ],
)
def test_a_ledger_in_which_a_row_bears_what_is_anothers_is_found_out(world: Facts, change: str, check: str) -> None:
    with tampered(world.ledger, change):
        assert check in violated(world)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_no_world_with_chunks_violates_a_promise(seed: int) -> None:
    world = played("chunks", seed)
    assert not world.violations, "\n".join(world.lines())
