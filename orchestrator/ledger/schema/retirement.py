"""A ledger that this program must leave alone: one that was copied elsewhere and is used there, and one of a newer
program.

The former has a version of the schema that no program knows, so that older ones refuse it, too. Its one more table is
not among those of the others, which have none such.
"""

from typing import Final

from sqlalchemy import INTEGER, TEXT, Column, MetaData, Table, insert, select, text
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.schema import CreateTable, DropTable

from orchestrator.core.text.object_urls import is_object_url
from orchestrator.errors import LedgerRetiredError, LedgerVersionError
from orchestrator.ledger.schema.job_tables import SCHEMA_VERSION, metadata
from orchestrator.ledger.write_stops import WriteStop
from orchestrator.settings.addresses.ledger_address import LedgerAddress

RETIRED: Final = "99999999"
"""In the place of the version that it has."""

COPIED_TO: Final = "SELECT copied_to FROM retired"

_retired: Final = Table(
    "retired",
    MetaData(),
    Column("version", TEXT, nullable=False),  # the one that it had
    Column("copied_to", TEXT, nullable=False),
    Column("at", INTEGER, nullable=False),  # microseconds UTC
)


_STOP: Final = WriteStop(metadata.sorted_tables)
"""Whoever has it open and waits for its turn to write must not do so afterwards: nobody would ever look at that."""


async def retire(connection: AsyncConnection, *, copied_to: str, at: int) -> None:
    """From now on it is there."""
    await connection.execute(CreateTable(_retired))
    await connection.execute(
        insert(_retired), {"version": await _version(connection), "copied_to": copied_to, "at": at}
    )
    await _set_version(connection, RETIRED)
    await _STOP.put_up(connection, f"it was copied to {copied_to}, and goes on there")


async def take_back(connection: AsyncConnection) -> None:
    """It counts again, if it did not."""
    if await _version(connection) == RETIRED:
        await _set_version(connection, (await connection.execute(select(_retired.c.version))).scalar_one())
        await connection.execute(DropTable(_retired))
        await _STOP.take_down(connection)


def refuse_unknown(name: LedgerAddress | str, found: str | None) -> None:
    """Raises `LedgerVersionError` if `found` is a version that this program does not know."""
    if found is not None and found > SCHEMA_VERSION:
        raise LedgerVersionError(
            f"{name}: this ledger has version {found}, this program knows up to {SCHEMA_VERSION}; upgrade the program"
        )


def retired_error(ledger: LedgerAddress | str, copied_to: str) -> LedgerRetiredError:
    """What is to be told of it."""
    role = ", by the role that works on it" if is_object_url(copied_to) else ""
    error = LedgerRetiredError(
        f"{ledger}: this ledger was copied to {copied_to}, and goes on there; name that one with <setting ledger>{role}"
    )
    error.copied_to = copied_to
    return error


async def _version(connection: AsyncConnection) -> str:
    return str((await connection.execute(text("SELECT version_num FROM alembic_version"))).scalar_one())


async def _set_version(connection: AsyncConnection, version: str) -> None:
    await connection.execute(text("UPDATE alembic_version SET version_num = :version"), {"version": version})
