"""The program is killed at random calls of the database, again and again; the service lives on."""

import random
from pathlib import Path

import anyio
import pytest

from orchestrator.core.jobs.lifecycle import TRANSITIONS, Event, State
from orchestrator.core.limits.rate_pacer import Operation
from orchestrator.emulator.contract.faults import Faults
from orchestrator.emulator.contract.limits import JobOperation as ServiceOperation
from tests.engine.process import Process, process, reached_by_webhooks
from tests.simulation.clock import VirtualClock
from tests.simulation.run import Crash, run, run_until_crash
from tests.simulation.world import ENDPOINT, SimulatedService

JOBS = 25
CRASHES = 3
CALLS_MAX = 500
"""A crash comes within so many calls of the database."""


class Killer:
    """The delay of database calls, which now and then is a crash instead."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._crash = Crash()
        self._left = 0

    def arm(self, calls: int) -> None:
        """Kills at the so manieth call; 0 spares."""
        self._left = calls

    def delay(self) -> float:
        self._left -= 1
        if self._left == 0:
            self._crash.pull()
        return self._chance.uniform(0, 0.02)


async def check(p: Process, service: SimulatedService, story: str) -> None:
    """Every job has one outcome, the events replay to the states, the counts agree, and what was paid is accounted for."""
    counts = await p.counts()
    outcomes = [*await p.results(), *await p.failures()]
    assert sorted(job.job for job in outcomes) == list(range(1, JOBS + 1)), story
    assert {name: n for name, n in counts.items() if name in set(State)} == {"succeeded": JOBS}, story
    resubmitted = counts.get("uncertain_resubmitted", 0)
    for n in range(1, JOBS + 1):
        state = State.QUEUED
        for event in await p.events(n):
            state = TRANSITIONS[state][Event(event.event)]
        assert state is State.SUCCEEDED, story
    assert all(job.output == b'{"n":%d}' % job.job for job in outcomes), story
    assert service.paid <= JOBS + resubmitted, story
    assert set(service.counts.completed) == {b'{"n":%d}' % n for n in range(1, JOBS + 1)}, story
    for operation in (ServiceOperation.RUN, ServiceOperation.STATUS):
        assert service.gate.meters.figures(ENDPOINT, operation).refused == 0, story
    assert await p.ledger.jobs.notices.count() == 0, story


@pytest.mark.parametrize("webhooks", [False, True], ids=["polling", "webhooks"])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 4))])
def test_a_killed_program_loses_nothing_and_pays_again_only_for_what_is_uncertain(
    tmp_path: Path, seed: int, webhooks: bool
) -> None:
    chance, clock = random.Random(seed), VirtualClock()
    killer = Killer(chance)
    service = SimulatedService(
        clock,
        seed=seed,
        workers=10,
        seconds=lambda rng: rng.uniform(0.2, 3.0),
        faults=Faults(lost_answer=0.05, lost_webhook=0.1, duplicate_webhook=0.2),
    )

    async def life() -> None:
        service.receiver = None  # until it listens: who was killed does not
        async with (
            service.serving(),
            process(
                tmp_path / "db",
                service.transport(travel_s=lambda: chance.uniform(0, 0.1)),
                clock=clock,
                jobs=JOBS,
                webhooks=webhooks,
                delay=killer.delay,
            ) as p,
            reached_by_webhooks(p, service),
        ):
            await p.begin()
            await p.finish()
            await anyio.sleep(25)  # late webhooks
            killer.arm(0)
            await check(p, service, f"seed {seed}, webhooks {webhooks}")
            assert p.api.limiter.figures(Operation.RUN).throttled == 0

    start_s: float | None = 0.0
    for _ in range(CRASHES):
        killer.arm(chance.randint(1, CALLS_MAX))
        assert start_s is not None
        crashed_at_s = run_until_crash(life, seed=seed, start_s=start_s)
        if crashed_at_s is None:
            return  # it was done before
        start_s = crashed_at_s
    killer.arm(0)
    run(life, seed=seed, start_s=start_s or 0.0)
