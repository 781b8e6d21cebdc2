"""The ways to open a ledger."""

from pathlib import Path

import pytest

from orchestrator.ledger import command_ledger
from orchestrator.ledger.commands.command_types import Action
from tests.ledger.ledgers import a_run, opened
from tests.simulation.clock import VirtualClock
from tests.simulation.database import async_creator

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def test_a_word_is_left_on_virtual_time_beside_whoever_works(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    async with opened(path) as ledger:
        run = await a_run(ledger)
        async with command_ledger(path, clock=VirtualClock(), connect=async_creator(path)) as beside:
            number = await beside.commands.ask(Action.PAUSE, run=run.id)
        assert (await ledger.commands.one(number)).run == run.id
