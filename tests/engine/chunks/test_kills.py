"""A run whose rows travel together is killed at its commits: no row is lost, and none is executed without a reason."""

from pathlib import Path

import msgspec
import pytest

from orchestrator.core.chunks.chunk_terms import ChunkTerms
from orchestrator.settings.run_settings import RunSettings
from tests.crashes.commits import World, audited, commits_of_a_run, killed
from tests.engine.chunks.travelling import POISON, Handler
from tests.engine.process import Process

POISONOUS, BAD = 3, 7


class ChunkWorld(World):
    """Two chunks, one with a row of which the handler dies, and one with a row that it calls bad."""

    settings = RunSettings(chunk=ChunkTerms(rows=4), max_attempts=2)
    jobs = 8

    def __init__(self, folder: Path) -> None:
        self.handler = Handler(poisonous={POISONOUS}, bad={BAD})
        super().__init__(folder, self.handler)

    async def check(self, p: Process) -> None:
        results, failures = await p.results(), await p.failures()
        found = {each.job: msgspec.json.decode(each.output or b"") for each in results}
        assert found == {n: {"twice": 2 * n} for n in range(1, self.jobs + 1) if n not in (POISONOUS, BAD)}
        assert {each.job: each.message for each in failures} == {POISONOUS: POISON, BAD: f"{BAD} is bad"}
        assert {each.attempts for each in failures} == {2}
        for each in [*results, *failures]:
            assert self.handler.seen[each.job] <= each.paid_at_most, "an execution that nobody knows of"
        assert p.endpoint.outstanding.number == 0
        assert await audited(p.ledger) == []


def test_killed_at_some_commits_each_row_has_its_own_end(tmp_path: Path) -> None:
    commits = commits_of_a_run(_folder(tmp_path, 0), ChunkWorld)
    for number in range(9, commits, 30):
        killed(_folder(tmp_path, number), number, after=number % 2 == 0, kind=ChunkWorld)


@pytest.mark.slow
def test_killed_before_or_after_every_commit_each_row_has_its_own_end(tmp_path: Path) -> None:
    commits = commits_of_a_run(_folder(tmp_path, 0), ChunkWorld)
    for number in range(1, commits):
        killed(_folder(tmp_path, number), number, after=number % 2 == 0, kind=ChunkWorld)


def _folder(below: Path, number: int) -> Path:
    made = below / str(number)
    made.mkdir()
    return made
