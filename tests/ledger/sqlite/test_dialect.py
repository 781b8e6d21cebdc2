"""Statements are compiled once in a process, however many ledgers it opens."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import literal, select

from orchestrator.ledger.sqlite.compiled_cache import COMPILED
from orchestrator.ledger.sqlite.database import Database
from tests.simulation.database import async_creator

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def answers(path: Path, number: int) -> list[Any]:
    """What the writing and the reading engine of a new ledger at `path` say to one statement."""
    database = Database(path, connect=async_creator(path))
    found = []
    access: tuple[Callable[[], Any], ...] = (database.writing, database.reading)
    for door in access:
        async with door() as connection:
            found.append((await connection.execute(select(literal(number).label("in_no_other_test")))).scalar_one())
    await database.aclose()
    return found


async def test_all_engines_of_all_ledgers_share_what_one_has_compiled(tmp_path: Path) -> None:
    before = len(COMPILED)

    assert await answers(tmp_path / "a.db", 1) == [1, 1]
    assert await answers(tmp_path / "b.db", 2) == [2, 2]
    assert len(COMPILED) - before == 1
