"""Ledgers on a server as older programs left them."""

from pathlib import Path

import asyncpg
from alembic import command
from alembic.config import Config
from sqlalchemy import Connection

from orchestrator.ledger.migrations import SCRIPTS
from orchestrator.ledger.postgres.database import ServerDatabase
from orchestrator.ledger.schema.job_tables import metadata
from tests.postgres.databases import plain_connections

OLDEST = "0048"
"""The first version that could be on a server."""

_MADE = Path(__file__).with_name(f"made_by_{OLDEST}.sql")


async def make_oldest(url: str) -> None:
    """Makes one in the empty database at `url`."""
    connection = await asyncpg.connect(url)
    await connection.execute(_MADE.read_text())
    await connection.close()


async def make_older(url: str, version: str) -> None:
    """Makes one of that version in the empty database at `url`."""
    await make_oldest(url)
    database = ServerDatabase(url, plain_connections(url), metadata)
    async with database.changing() as connection:
        await connection.run_sync(_bring_to, version)
    await database.aclose()


def _bring_to(connection: Connection, version: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(SCRIPTS))
    config.attributes["connection"] = connection
    command.upgrade(config, version)
