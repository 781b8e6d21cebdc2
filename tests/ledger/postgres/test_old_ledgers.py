"""A ledger that an older program left on a server is brought to this program's schema."""

from collections.abc import Iterator

import asyncpg
import pytest

from orchestrator.ledger.migrations import migrate_server
from orchestrator.ledger.postgres.database import ServerDatabase
from orchestrator.ledger.schema.job_tables import SCHEMA_VERSION, metadata
from tests.postgres.databases import Databases, plain_connections
from tests.postgres.old_ledgers import make_oldest

pytestmark = pytest.mark.anyio

TABLES = """
SELECT relname, reloptions::text FROM pg_class WHERE relkind = 'r' AND relnamespace = to_regnamespace(current_schema())
"""
COLUMNS = """
SELECT table_name, column_name, data_type, collation_name, is_nullable, column_default, identity_generation, attstorage
FROM information_schema.columns
JOIN pg_attribute ON attrelid = to_regclass(table_name) AND attname = column_name WHERE table_schema = current_schema()
"""
CONSTRAINTS = """
SELECT conrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint
WHERE connamespace = to_regnamespace(current_schema())
"""
INDEXES = "SELECT indexdef FROM pg_indexes WHERE schemaname = current_schema()"


@pytest.fixture
def old_url(databases: Databases) -> Iterator[str]:
    """The URL of a database whose ledger is the oldest that there is on a server."""
    with databases.empty() as url:
        yield url


@pytest.fixture
def new_url(databases: Databases) -> Iterator[str]:
    with databases.empty() as url:
        yield url


async def migrated(url: str) -> None:
    database = ServerDatabase(url, plain_connections(url), metadata)
    await migrate_server(database)
    await database.aclose()


async def described(url: str) -> list[set[tuple[object, ...]]]:
    """What can be told of the tables, in any order."""
    connection = await asyncpg.connect(url)
    found = [{tuple(row) for row in await connection.fetch(each)} for each in (TABLES, COLUMNS, CONSTRAINTS, INDEXES)]
    await connection.close()
    return found


async def test_an_old_ledger_comes_to_the_same_tables_as_a_new_one_and_keeps_its_rows(
    old_url: str, new_url: str
) -> None:
    await make_oldest(old_url)
    connection = await asyncpg.connect(old_url)
    await connection.execute("INSERT INTO endpoints (service_url, endpoint) VALUES ('u', 'a')")

    await migrated(old_url)
    await migrated(new_url)

    assert await described(old_url) == await described(new_url)
    assert await connection.fetchval("SELECT endpoint FROM endpoints") == "a"
    assert await connection.fetchval("SELECT version_num FROM alembic_version") == SCHEMA_VERSION
    await connection.close()
