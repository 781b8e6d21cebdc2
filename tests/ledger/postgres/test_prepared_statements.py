"""Whatever is written down in the ledger is understood by a server, also what no test has executed on one yet."""

import re
from typing import Final

import pytest

from orchestrator.ledger.postgres.connection import server_driver
from orchestrator.ledger.postgres.dialect import ServerDialect
from tests.ledger.postgres.conftest import OpenDatabase
from tests.ledger.sqlite.recording import statements_of_modules

pytestmark = pytest.mark.anyio

LISTS: Final = re.compile(r"\(__\[POSTCOMPILE_\w+\]\)")
"""Of values of which only who gives them knows how many there are."""


async def test_a_server_understands_each_statement_of_the_ledger(connected: OpenDatabase) -> None:
    dialect = ServerDialect()  # type: ignore[no-untyped-call]  # as SQLAlchemy has it
    async with connected().writing() as connection:
        driver = server_driver(connection)
        for statement in statements_of_modules():
            await driver.prepare(LISTS.sub("(NULL)", str(statement.compile(dialect=dialect))))
