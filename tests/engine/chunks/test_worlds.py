"""Drawn worlds in which rows travel together: handlers that die, lie and lose parts of what they were given, a service
that loses answers, jobs and webhooks and refuses for a while, and processes that are killed. Whatever happens, each row
comes to its own end, and is executed as often as the ledger says at the most.
"""

import random
from functools import partial
from pathlib import Path

import msgspec
import pytest

from orchestrator.core.chunks.chunk_terms import ChunkTerms
from orchestrator.emulator.contract.faults import Faults
from orchestrator.emulator.jobs.jobs import WorkerResult
from orchestrator.settings.run_settings import RunSettings
from tests.crashes.commits import AtCommit, audited
from tests.engine.chunks.travelling import POISON, Handler
from tests.engine.process import Process, process, reached_by_webhooks
from tests.simulation.clock import VirtualClock
from tests.simulation.run import run, run_until_crash
from tests.simulation.world import SimulatedService

SPOILS = {"fewer", "more", "swapped", "double", "foreign"}
KILLS = 3


class Moody(Handler):
    """Spoils its output now and then; by place nobody could see that parts were swapped."""

    def __init__(self, chance: random.Random, *, rows: int, by_id: bool) -> None:
        some = range(1, rows + 1)
        super().__init__(
            poisonous=chance.sample(some, chance.randrange(3)), bad=chance.sample(some, chance.randrange(3))
        )
        self._chance = chance
        self._spoils = sorted(SPOILS if by_id else SPOILS - {"swapped", "double", "foreign"})
        self._share = chance.choice((0.0, 0.1, 0.3))

    def __call__(self, given: bytes, number: int) -> WorkerResult:
        self.spoil = self._chance.choice(self._spoils) if self._chance.random() < self._share else ""
        return super().__call__(given, number)


class DrawnWorld:
    """One world: a service, and a process after the other on one ledger."""

    def __init__(self, seed: int, folder: Path) -> None:
        chance = self.chance = random.Random(f"chunks {seed}")
        by_id = chance.random() < 0.5
        self.seed, self.path, self.clock = seed, folder / "db", VirtualClock()
        self.rows = chance.choice((5, 30, 70))
        self.handler = Moody(chance, rows=self.rows, by_id=by_id)
        self.webhooks = chance.random() < 0.5
        self.settings = RunSettings(
            chunk=chance.choice((ChunkTerms(rows=3), ChunkTerms(rows=8), ChunkTerms(rows=16), ChunkTerms(bytes=60))),
            chunk_input='{"rows":"{rows}"}' if by_id else '{"items":"{inputs}"}',
            chunk_output="rows" if by_id else "",
            max_attempts=chance.choice((1, 3)),
        )
        rate = partial(chance.choice, (0.0, 0.0, 0.1, 0.3))
        self.service = SimulatedService(
            self.clock,
            seed=seed,
            workers=chance.choice((1, 3, 10)),
            seconds=lambda rng: rng.uniform(0.1, 8.0),
            work=self.handler,
            faults=Faults(
                lost_answer=rate(),
                server_error_after=rate() / 3,
                cut_answer=rate(),
                lost_webhook=rate(),
                duplicate_webhook=rate(),
                lost_job=rate() / 3,
                throttled=rate(),
                dead_worker=rate() / 3,
            ),
        )

    async def life(self, commits: AtCommit | None) -> None:
        """A process until the run is over."""
        transport = self.service.transport(travel_s=lambda: self.chance.uniform(0, 0.1))
        async with (
            self.service.serving(),
            process(
                self.path,
                transport,
                clock=self.clock,
                jobs=self.rows,
                settings=self.settings,
                webhooks=self.webhooks,
                commits=commits,
            ) as p,
            reached_by_webhooks(p, self.service),
        ):
            await p.begin()
            await p.finish()
            await self.check(p)

    async def check(self, p: Process) -> None:
        """What must be true in the end, of each row and of the ledger."""
        ends = {each.job: each for each in [*await p.results(), *await p.failures()]}
        assert sorted(ends) == [*range(1, self.rows + 1)]
        for number, end in ends.items():
            assert self.handler.seen[number] <= end.paid_at_most, f"row {number} was executed and nobody knows why"
            if end.output is not None and end.trouble is None:
                assert msgspec.json.decode(end.output) == {"twice": 2 * number}
                assert number not in {*self.handler.poisonous, *self.handler.bad}
            elif number in self.handler.poisonous:
                assert end.message == POISON or end.trouble in {"lost", "uncertain"}
            elif number in self.handler.bad:
                assert end.message == f"{number} is bad" or end.trouble in {"lost", "uncertain"}
            else:
                assert end.trouble in {"lost", "uncertain"}, f"row {number} pays for another: {end.message}"
        assert p.endpoint.outstanding.number == len(p.endpoint.claimed) == 0
        assert await audited(p.ledger) == []


def played(seed: int, folder: Path) -> None:
    """Plays a world to its end, with some kills on its way."""
    folder.mkdir()
    world, start_s = DrawnWorld(seed, folder), 0.0
    for _ in range(world.chance.randrange(KILLS + 1)):
        commits = AtCommit(world.chance.randrange(1, 40), after=world.chance.random() < 0.5)
        crashed_at_s = run_until_crash(partial(world.life, commits), seed=seed, start_s=start_s)
        if crashed_at_s is None:
            return
        start_s = crashed_at_s
    run(partial(world.life, None), seed=seed, start_s=start_s)


def test_each_row_has_its_own_end_in_a_world(tmp_path: Path) -> None:
    played(1, tmp_path / "1")


@pytest.mark.slow
def test_each_row_has_its_own_end_in_many_worlds(tmp_path: Path) -> None:
    for seed in range(2, 32):
        played(seed, tmp_path / str(seed))
