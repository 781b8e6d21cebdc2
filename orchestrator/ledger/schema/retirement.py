"""A ledger that was copied elsewhere and is used there: it says so to whoever opens it.

It has a version of the schema that no program knows, so that older ones refuse it, too. Its one more table is not among
those of the others, which have none such.
"""

from typing import Final

from sqlalchemy import INTEGER, TEXT, Column, Connection, MetaData, Table, insert, select, text
from sqlalchemy.schema import CreateTable, DropTable

RETIRED: Final = "9999"
"""In the place of the version that it has."""

COPIED_TO: Final = "SELECT copied_to FROM retired"

_retired: Final = Table(
    "retired",
    MetaData(),
    Column("version", TEXT, nullable=False),  # the one that it had
    Column("copied_to", TEXT, nullable=False),
    Column("at", INTEGER, nullable=False),  # microseconds UTC
)


def retire(connection: Connection, *, copied_to: str, at: int) -> None:
    """From now on it is there."""
    connection.execute(CreateTable(_retired))
    connection.execute(insert(_retired), {"version": _version(connection), "copied_to": copied_to, "at": at})
    _set_version(connection, RETIRED)


def take_back(connection: Connection) -> None:
    """It counts again, if it did not."""
    if _version(connection) == RETIRED:
        _set_version(connection, connection.scalar(select(_retired.c.version)))
        connection.execute(DropTable(_retired))


def _version(connection: Connection) -> str:
    return str(connection.scalar(text("SELECT version_num FROM alembic_version")))


def _set_version(connection: Connection, version: str | None) -> None:
    connection.execute(text("UPDATE alembic_version SET version_num = :version"), {"version": version})
