"""Whether a run was deleted, as another process sees it that asks two questions."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Executable

from orchestrator.ledger.database import Parameters
from orchestrator.ledger.runs.input_rows import packed_rows
from orchestrator.ledger.runs.runs import Runs
from orchestrator.ledger.sqlite.database import Database
from orchestrator.ledger.transactions.repository import Access
from orchestrator.settings.run_settings import RunSettings
from tests.engine.rows import rows
from tests.ledger.ledgers import opened
from tests.simulation.clock import VirtualClock
from tests.simulation.database import async_creator

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


class Interrupted(Access):
    """Reads of a process between which something happens."""

    happens: Callable[[], Awaitable[object]] | None = None

    async def rows(self, query: Executable, parameters: Parameters | None = None) -> Sequence[Any]:
        found = await super().rows(query, parameters)
        await self._once()
        return found

    async def value(self, query: Executable, parameters: Parameters | None = None) -> Any:
        found = await super().value(query, parameters)
        await self._once()
        return found

    async def _once(self) -> None:
        happens, self.happens = self.happens, None
        if happens is not None:
            await happens()


async def test_a_run_that_is_accepted_between_two_questions_is_not_taken_for_a_deleted_one(tmp_path: Path) -> None:
    path, clock = tmp_path / "l.db", VirtualClock()
    async with opened(path, clock=clock) as ledger:
        run = await ledger.runs.create(name="a", service_url="/", endpoint="e", source="/", settings=RunSettings())
        intake = await ledger.runs.intakes.start(run)
        await ledger.runs.intakes.add(intake, packed_rows(rows(3)))
        database = Database(path, connect=async_creator(path))
        beside = Interrupted(database, ledger.writer, clock)
        beside.happens = lambda: ledger.runs.intakes.accept(intake)
        assert not await Runs(beside).is_gone(run.id)
        assert await ledger.runs.counts(run.id), "it was accepted meanwhile"
        await database.aclose()
