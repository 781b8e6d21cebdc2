"""Whatever is written down in the ledger is understood by a server, also what no test has executed on one yet."""

import json
import re
from typing import Final

import pytest

from orchestrator.ledger.postgres.connection import server_driver
from orchestrator.ledger.postgres.database import PLANS_KEPT, ServerDatabase
from orchestrator.ledger.postgres.dialect import DIALECT
from tests.ledger.postgres.conftest import OpenDatabase
from tests.ledger.postgres.test_plans import FILL, JOBS
from tests.ledger.sqlite.recording import statements_of_modules

pytestmark = pytest.mark.anyio

LISTS: Final = re.compile(r"\(__\[POSTCOMPILE_\w+\]\)")
"""Of values of which only who gives them knows how many there are."""


async def test_a_server_understands_each_statement_of_the_ledger(connected: OpenDatabase) -> None:
    async with connected().writing() as connection:
        driver = server_driver(connection)
        for statement in statements_of_modules():
            await driver.prepare(LISTS.sub("(NULL)", str(statement.compile(dialect=DIALECT))))


async def test_plans_are_made_anew_as_tables_grow(connected: OpenDatabase) -> None:
    database = connected()
    async with database.writing() as connection:
        driver = server_driver(connection)
        await driver.execute("TRUNCATE jobs CASCADE")
        await driver.execute("PREPARE later AS SELECT line FROM jobs WHERE id > $1")
        for _ in range(10):
            await driver.execute("EXECUTE later(0)")
    assert await found_in_plan(database) < JOBS / 100
    async with database.writing() as connection:
        await server_driver(connection).execute(FILL.removesuffix("ANALYZE;\n"))
    for _ in range(PLANS_KEPT):
        async with database.writing():
            pass
    assert await found_in_plan(database) > JOBS / 10


async def found_in_plan(database: ServerDatabase) -> int:
    """How many rows the server expects."""
    async with database.writing() as connection:
        plan = await server_driver(connection).fetchval("EXPLAIN (FORMAT JSON) EXECUTE later(0)")
    return int(json.loads(plan)[0]["Plan"]["Plan Rows"])
