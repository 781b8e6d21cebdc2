"""The tables of a ledger on a server: values as SQLite keeps them, and what a server needs besides."""

from collections.abc import Iterator

import anyio
import pytest
from sqlalchemy import Index, Result, text

from orchestrator.errors import LedgerVersionError
from orchestrator.ledger.migrations import migrate_server
from orchestrator.ledger.postgres.database import ServerDatabase
from orchestrator.ledger.postgres.tables import OWN_INDEXES
from orchestrator.ledger.schema.job_tables import GIVEN_UP, SCHEMA_VERSION, metadata, values_check
from tests.ledger.postgres.conftest import OpenDatabase
from tests.postgres.databases import Databases, plain_connections

pytestmark = pytest.mark.anyio

KINDS = text(
    "SELECT DISTINCT data_type, collation_name FROM information_schema.columns"
    " WHERE table_schema = current_schema() AND table_name <> 'alembic_version' ORDER BY 1"
)
BOUND = text("SELECT DISTINCT conrelid::regclass::text FROM pg_constraint WHERE contype = 'f'")
ROOM = text("SELECT array_to_string(reloptions, ', ') FROM pg_class WHERE relname = 'jobs'")
TRIED = text(
    "SELECT attname FROM pg_attribute WHERE atttypid = 'bytea'::regtype AND attstorage <> 'e' AND attnum > 0"
    " AND attrelid IN (SELECT oid FROM pg_class WHERE relnamespace = to_regnamespace(current_schema()))"
)
PARTIAL = text("SELECT indexrelid::regclass::text FROM pg_index WHERE indpred IS NOT NULL")


def is_partial(index: Index) -> bool:
    return index.dialect_options["sqlite"]["where"] is not None


async def test_numbers_have_64_bits_and_texts_the_order_of_their_bytes(connected: OpenDatabase) -> None:
    kinds = [tuple(row) for row in await connected().asked(KINDS, None, Result.all)]
    assert kinds == [("bigint", None), ("bytea", None), ("double precision", None), ("text", "C")]


async def test_rows_of_jobs_lock_no_others_leave_room_and_are_packed_once(connected: OpenDatabase) -> None:
    database = connected()
    bound = await database.asked(BOUND, None, lambda found: set(found.scalars()))
    assert bound
    assert not bound & {"jobs", "payloads", "outcomes"}
    assert "fillfactor=80" in await database.asked(ROOM, None, lambda found: str(found.scalar()))
    assert await database.asked(TRIED, None, Result.all) == []


async def test_indexes_of_some_rows_are_of_these_here_too(connected: OpenDatabase) -> None:
    some = {index.name for table in metadata.tables.values() for index in table.indexes if is_partial(index)}
    partial = {name for name, definition in OWN_INDEXES.items() if " WHERE " in definition}
    assert some
    assert partial
    assert await connected().asked(PARTIAL, None, lambda found: set(found.scalars())) == some | partial
    assert OWN_INDEXES["jobs_of_trouble"].endswith(values_check("state", GIVEN_UP))


@pytest.fixture
def empty_url(databases: Databases) -> Iterator[str]:
    """The URL of a database without a ledger."""
    with databases.empty() as url:
        yield url


async def test_who_come_at_once_make_the_tables_once_and_those_of_a_newer_program_are_refused(empty_url: str) -> None:
    both = [ServerDatabase("ledger", plain_connections(empty_url), metadata) for _ in range(2)]
    async with anyio.create_task_group() as tasks:
        for each in both:
            tasks.start_soon(migrate_server, each)
    first, second = both
    assert await first.structure() == await second.structure() == int(SCHEMA_VERSION)
    async with first.writing() as connection:
        await connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(LedgerVersionError, match=f"^ledger: this ledger has version 9999, .* {SCHEMA_VERSION}"):
        await migrate_server(second)
    assert await second.structure() == 9999
    for each in both:
        await each.aclose()
