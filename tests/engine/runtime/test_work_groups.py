"""In which order what a process does begins and ends."""

from pathlib import Path

import anyio
import pytest

from orchestrator.engine.runtime.work_groups import writing_until_left
from orchestrator.ledger import open_ledger
from tests.engine.rows import empty_ledger
from tests.simulation.clock import VirtualClock
from tests.simulation.database import async_creator

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def test_who_is_stopped_while_the_writer_begins_has_ended_at_once(tmp_path: Path) -> None:
    path, reached = tmp_path / "l.db", False
    async with open_ledger(empty_ledger(path), clock=VirtualClock(), connect=async_creator(path)) as ledger:
        with anyio.CancelScope() as stopped:
            stopped.cancel()
            async with writing_until_left(ledger):
                reached = True
    assert (stopped.cancelled_caught, reached) == (True, False)
