"""Heartbeats: one row a process, with what it said last; what was said too long ago says nothing of the present."""

import os

import anyio
import pytest

from orchestrator.core.gates.gates import Gate, Hold
from orchestrator.ledger.runs.heartbeats import STALE_US, ProcessReport, RunReport
from orchestrator.units import SECOND_US
from orchestrator.views.status import JanitorSummary
from tests.factories import S
from tests.ledger.ledgers import OpenLedger
from tests.simulation.clock import EPOCH_AT, VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def test_each_process_has_one_row_with_what_it_said_last(open_file: OpenLedger) -> None:
    clock = VirtualClock()
    async with open_file(clock=clock) as ledger, open_file(clock=clock) as other:
        other.runs.heartbeats.slot, other.runs.heartbeats.epoch = 5, 2
        assert await ledger.runs.heartbeats.all() == []
        last = ProcessReport(
            runs={7: RunReport(blocked_by=Hold(Gate.STOPPED, "no such endpoint"))},
            janitor=JanitorSummary(at=1, failing=("tidy",)),
        )
        for by, said in ((ledger, ProcessReport()), (other, ProcessReport()), (ledger, last)):
            await anyio.sleep(2)
            await by.runs.heartbeats.beat(said)
        first, second = await other.runs.heartbeats.all()
        assert (first.slot, first.epoch, first.report) == (0, 0, last)
        assert (second.slot, second.epoch, second.report) == (5, 2, ProcessReport())
        assert first.process == second.process
        assert first.process.startswith(f"process {os.getpid()} on ")
        assert first.began_at < second.beaten_at < first.beaten_at


async def test_whoever_comes_next_beats_in_the_row_of_whoever_has_ended(open_file: OpenLedger) -> None:
    clock = VirtualClock()
    began: list[int] = []
    for _ in range(2):
        async with open_file(clock=clock) as ledger:
            await anyio.sleep(10)
            await ledger.runs.heartbeats.beat(ProcessReport())
            [beat] = await ledger.runs.heartbeats.all()
            began.append(beat.began_at)
    assert began[1] - began[0] >= 10 * S


@pytest.mark.parametrize(
    ("behind_us", "is_fresh"),
    [(0, True), (STALE_US, True), (STALE_US + 1, False), (-STALE_US, True), (-STALE_US - 1, False)],
)
async def test_what_was_said_over_half_a_minute_ago_is_not_believed_nor_what_is_so_far_ahead(
    open_file: OpenLedger, behind_us: int, is_fresh: bool
) -> None:
    assert STALE_US == 30 * SECOND_US
    async with open_file(clock=VirtualClock(epoch_at=EPOCH_AT)) as ledger:
        await ledger.runs.heartbeats.beat(ProcessReport())
        [beat] = await ledger.runs.heartbeats.all()
        assert beat.is_fresh(beat.beaten_at + behind_us) is is_fresh
