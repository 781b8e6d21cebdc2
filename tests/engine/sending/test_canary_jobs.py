"""What is known of the rows that go first: while it is being asked how they stand, and once some are gone."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from msgspec.structs import replace

from orchestrator.core.gates.brake_gates import Canary
from orchestrator.core.gates.failure_breaker import OFF
from orchestrator.core.jobs.job import Job
from orchestrator.core.jobs.lifecycle import State
from orchestrator.engine.sending.canary_jobs import CanaryJobs
from orchestrator.ledger import Ledger, command_ledger
from orchestrator.ledger.commands.command_types import Action
from orchestrator.ledger.runs.input_rows import packed_rows
from orchestrator.units import WHOLE
from tests.engine.process import Process, process
from tests.engine.rows import rows
from tests.engine.sending.test_served_brakes import WELL, Handler, asked, played
from tests.simulation.clock import VirtualClock
from tests.simulation.database import async_creator
from tests.simulation.world import SimulatedService

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def test_nothing_is_known_of_them_before_all_are(tmp_path: Path) -> None:
    clock = VirtualClock()
    service = SimulatedService(clock)
    async with process(tmp_path / "db", service.transport(), clock=clock, jobs=10) as p:
        canary = CanaryJobs(p.run.id, p.ledger)
        [first] = (await p.ledger.jobs.of([1])).values()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(canary.choose, 3, WHOLE)
            while not canary.ids:
                await checkpoint()
            assert not canary.is_known
            assert canary.observe(replace(first, state=State.SUCCEEDED), WHOLE) is None
        assert (canary.is_known, canary.is_awaited) == (True, True)
        facts = canary.facts(WHOLE)
        assert (facts.chosen, facts.succeeded, facts.has_passed) == (3, 1, False)


async def corrected(p: Process, changed: Sequence[int]) -> None:
    """Another process gives these of the run's rows other inputs."""
    others = rows(12)
    for n in changed:
        others[n] = replace(others[n], input=b'{"n":99}', digest=b"other")
    address = p.ledger.address
    assert isinstance(address, Path)
    async with command_ledger(address, clock=p.clock, connect=async_creator(address)) as guest:
        intake = await guest.runs.intakes.start(p.run)
        assert await guest.runs.intakes.add(intake, packed_rows(others)) == []
        await guest.runs.intakes.accept(intake)


class CrossedLedger:
    """A ledger in which `between` happens as it is asked how jobs stand, once."""

    def __init__(self, ledger: Ledger, between: Callable[[], Awaitable[None]]) -> None:
        self._ledger = ledger
        self._between = [between]
        self.jobs, self.brakes, self.now = self, ledger.jobs.brakes, ledger.now

    async def of(self, ids: Sequence[int]) -> dict[int, Job]:
        if self._between:
            await self._between.pop()()
        return await self._ledger.jobs.of(ids)


@pytest.mark.parametrize("are_chosen", [False, True])
async def test_rows_are_chosen_anew_where_all_of_them_were_removed_as_it_was_asked_how_they_stand(
    tmp_path: Path, are_chosen: bool
) -> None:
    clock = VirtualClock()
    service = SimulatedService(clock)
    async with process(tmp_path / "db", service.transport(), clock=clock, jobs=12) as p:
        if are_chosen:
            await p.ledger.jobs.brakes.choose(p.run.id, 3)
        ledger: Any = CrossedLedger(p.ledger, partial(corrected, p, range(12)))
        canary = CanaryJobs(p.run.id, ledger)
        await canary.choose(3, WHOLE)
        assert canary.is_awaited
        assert sorted(await p.ledger.jobs.of(canary.chosen)) == sorted(canary.ids) == sorted(canary.chosen)
        assert canary.facts(WHOLE).due == 3


@pytest.mark.parametrize("changed", [range(12), (0, 4), (0, 4, 8)])
async def test_what_another_process_has_removed_of_a_canary_is_waited_for_no_more(
    tmp_path: Path, changed: Sequence[int]
) -> None:
    async def story(p: Process, service: SimulatedService, handler: Handler) -> None:
        await p.wait(lambda: p.session.is_over)
        assert service.paid == 3
        handler.results = lambda _: WELL
        await corrected(p, changed)
        await asked(p, Action.SERVE)
        if len(changed) > 2:
            await p.finish()
        else:
            await p.wait(lambda: p.session.is_over)
            assert "the canary failed: 0 of 1 succeeded" in (p.session.why_stopped or "")

    await played(tmp_path / "db", story, canary=Canary(3), breaker=OFF, max_attempts=1, jobs=12)
