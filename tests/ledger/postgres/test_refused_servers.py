"""Servers and schemas to which no ledger is trusted, and why."""

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import text

from orchestrator.errors import UsageError
from orchestrator.ledger.postgres.connection import Connect, LineBounds, Settings
from orchestrator.ledger.postgres.database import ServerDatabase
from orchestrator.ledger.postgres.identity.tables_found import version_found
from orchestrator.ledger.postgres.server_checks import check_server
from orchestrator.ledger.schema.job_tables import SCHEMA_VERSION, metadata
from orchestrator.settings.addresses.ledger_address import parse_ledger_url
from tests.postgres.databases import Databases, plain_connections

pytestmark = pytest.mark.anyio

URL = parse_ledger_url("postgresql://db.example/d?schema=night")
GOOD = {"version": 150_004, "is_durable": True, "is_standby": False, "schema": "night"}


class Server:
    """One that says this of itself."""

    def __init__(self, **said: object) -> None:
        self._said = GOOD | said

    async def fetchrow(self, _question: str) -> Any:
        return self._said


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"version": 140_020}, "this server is PostgreSQL 14; a ledger needs 15 or newer"),
        ({"is_standby": True}, "this server is a standby, which can only be read; name the primary"),
        ({"is_durable": False}, "this server has fsync=off"),
        ({"schema": None}, "there is no schema night here that this role may use"),
        ({"schema": "public"}, "a pooler in between has to pass search_path on"),
    ],
)
async def test_a_server_that_cannot_be_trusted_with_a_ledger_is_refused(said: dict[str, object], why: str) -> None:
    await check_server(Server(), URL, schema=URL.schema)
    with pytest.raises(UsageError) as refused:
        await check_server(Server(**said), URL, schema=URL.schema)
    assert str(refused.value).startswith(f"{URL}: ")
    assert why in str(refused.value)


@pytest.fixture
def empty_url(databases: Databases) -> Iterator[str]:
    """The URL of a database without a ledger."""
    with databases.empty() as url:
        yield url


async def found_at(url: str, connect: Connect | None = None) -> str | None:
    database = ServerDatabase("ledger", connect or plain_connections(url), metadata)
    try:
        return await version_found(database, parse_ledger_url(url))
    finally:
        await database.aclose()


async def test_where_there_are_no_tables_they_can_be_made_and_those_of_others_are_left_alone(empty_url: str) -> None:
    assert await found_at(empty_url) is None
    database = ServerDatabase("ledger", plain_connections(empty_url), metadata)
    async with database.changing() as connection:
        await connection.execute(text("CREATE TABLE bills (n INTEGER)"))
    await database.aclose()
    with pytest.raises(UsageError, match="the schema public has tables, which are no ledger's"):
        await found_at(empty_url)


async def test_who_may_not_make_tables_is_told_which_right_is_lacking(empty_url: str, url: str) -> None:
    def as_reader(there: str) -> Connect:
        async def connect(settings: Settings, bounds: LineBounds) -> Any:
            driver = await plain_connections(there)(settings, bounds)
            await driver.execute("SET ROLE pg_read_all_data")
            return driver

        return connect

    with pytest.raises(UsageError, match=r"the role pg_read_all_data may not make one; .*\(GRANT CREATE ON SCHEMA"):
        await found_at(empty_url, as_reader(empty_url))
    assert await found_at(url, as_reader(url)) == SCHEMA_VERSION


async def test_a_pooler_that_gives_two_one_connection_of_the_server_is_refused(url: str) -> None:
    pooled: list[Any] = []

    async def connect(settings: Settings, bounds: LineBounds) -> Any:
        if not pooled:
            pooled.append(await plain_connections(url)(settings, bounds))
        return pooled[0]

    with pytest.raises(UsageError, match="a pooler in transaction mode stands between"):
        await found_at(url, connect)
