"""Whose clock says what: another process is silent by what has elapsed here, and nobody's wall clock takes its place."""

import anyio
import pytest

from orchestrator.ledger.processes.shard_owner import shard_owner_of
from orchestrator.ledger.processes.tenure import tenure_of
from orchestrator.ledger.processes.this_process import ThisProcess
from orchestrator.units import HOUR_US
from tests.postgres.ledgers import on_virtual_time, waited_for

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

BEATEN_S = 2.0
"""A process has beaten within so long."""


class Wall:
    """The wall clock of a machine."""

    def __init__(self) -> None:
        self.ns = 0

    def now(self) -> int:
        return self.ns

    def turn(self, hours: int) -> None:
        self.ns += 1_000 * hours * HOUR_US


async def looks(url: str, here: ThisProcess) -> None:
    async with shard_owner_of("ledger", waited_for(url), here.called("looking"), here=here) as other:
        while True:
            await other.look()
            await anyio.sleep(0.25)


async def test_a_wall_clock_that_is_set_takes_nothing_from_a_process_that_beats(url: str) -> None:
    owner, wall = on_virtual_time(mark=" #1"), Wall()
    other = on_virtual_time(mark=" #2", wall_ns=wall.now)
    async with (
        tenure_of("ledger", waited_for(url), owner.called("working"), here=owner) as tenure,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(looks, url, other)
        for hours in (1, -1, 24):
            await anyio.sleep(3.5)  # in the midst of two beats
            wall.turn(hours)
        await anyio.sleep(3)
        assert tenure.why_lost is None
        assert tenure.may_leave()
        tasks.cancel_scope.cancel()


async def test_an_owner_whose_wall_clock_went_on_trusts_itself_again_once_it_has_beaten(url: str) -> None:
    wall = Wall()
    owner = on_virtual_time(mark=" #1", wall_ns=wall.now)
    async with tenure_of("ledger", waited_for(url), owner.called("working"), here=owner) as tenure:
        await anyio.sleep(BEATEN_S)
        wall.turn(1)  # as on a machine that was moved to another host, and did not count the time
        assert not tenure.may_leave()
        await anyio.sleep(BEATEN_S)
        assert tenure.may_leave()
