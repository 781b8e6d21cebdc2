"""A ledger of before knows afterwards of which endpoint each notice is, whichever database it is in."""

import pytest
from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, insert, select, text
from sqlalchemy.schema import CreateTable

from orchestrator.ledger.migrations import SCRIPTS
from orchestrator.ledger.schema.job_tables import notices, submissions
from tests.ledger.postgres.conftest import OpenDatabase

pytestmark = pytest.mark.anyio

INDEX = text("SELECT indexdef FROM pg_indexes WHERE indexname = 'notices_of_endpoint'")


def brought_up(connection: Connection) -> list[tuple[int, int]]:
    """The submission and the endpoint of each notice, of which the ledger before had two."""
    connection.execute(text("ALTER TABLE notices DROP COLUMN endpoint_id"))
    values = {"job_id": 1, "attempt": 1, "sent_at": 1, "ttl_at": 1}
    connection.execute(insert(submissions).values(id=11, endpoint_id=3, **values))
    for number, submission in enumerate((11, 12), start=1):
        connection.execute(
            text("INSERT INTO notices (id, submission_id, received_at, status, packed) VALUES (:n, :of, 1, '', 0)"),
            {"n": number, "of": submission},
        )
    script = ScriptDirectory(str(SCRIPTS)).get_revision("0050")
    assert script is not None
    with Operations.context(MigrationContext.configure(connection)):
        script.module.upgrade()
    question = select(notices.c.submission_id, notices.c.endpoint_id).order_by(notices.c.id)
    return [(row[0], row[1]) for row in connection.execute(question)]


def test_notices_in_a_file_are_of_the_endpoints_of_their_submissions() -> None:
    with create_engine("sqlite://").begin() as connection:
        for table in (notices, submissions):
            connection.execute(CreateTable(table))
        assert brought_up(connection) == [(11, 3), (12, 0)]


async def test_notices_on_a_server_are_too_and_are_found_by_them(connected: OpenDatabase) -> None:
    database = connected()
    async with database.changing() as connection:
        assert await connection.run_sync(brought_up) == [(11, 3), (12, 0)]
    assert "(endpoint_id, id)" in await database.asked(INDEX, None, lambda found: str(found.scalar_one()))
