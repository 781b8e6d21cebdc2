"""Brings a ledger to this schema when it is opened: a new one from the tables, an older one by Alembic.

The caller holds the dispatcher lock.
"""

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlalchemy import Connection, create_engine, text
from sqlalchemy.pool import NullPool

from orchestrator.errors import UsageError
from orchestrator.ledger.database import BUSY_TIMEOUT_MS
from orchestrator.ledger.schema.job_tables import SCHEMA_VERSION, metadata
from orchestrator.ledger.schema.retirement import COPIED_TO, RETIRED, refuse_unknown, retired_error
from orchestrator.ledger.sqlite.file_errors import storage_errors
from orchestrator.ledger.sqlite.file_locks import refuse_second_name
from orchestrator.ledger.sqlite.immutable_file import connected

if TYPE_CHECKING:
    from orchestrator.ledger.postgres.database import ServerDatabase

_PACKAGE: Final = Path(__file__).resolve().parents[1]
SCRIPTS: Final = next(
    (folder for folder in (_PACKAGE / "migrations", _PACKAGE.parent / "migrations") if folder.is_dir()),
    _PACKAGE / "migrations",
)
"""The migration scripts: inside the installed package, or beside it in a checkout."""


def version_of(path: Path) -> str | None:
    """The schema version of the file at `path`; None for a file that is new or empty.

    Raises `UsageError` for what is no ledger (another file, somebody else's database) or has a second name, and
    `StorageError` where the file cannot be read.
    """
    if not path.exists():
        return None
    refuse_second_name(path)
    if path.stat().st_size == 0:
        return None
    # Only SQLite may open the file: to close any other descriptor of it drops all locks that this process has on it,
    # and with them those of a connection that is open, whose log another process would then remove.
    if path.is_dir() or not os.access(path, os.R_OK):
        why = os.strerror(errno.EISDIR if path.is_dir() else errno.EACCES)
        raise UsageError(f"{path}: cannot be read ({why}); name another file with <setting ledger>")
    with storage_errors(path), _foreign_files(path):
        connection = connected(path, timeout=BUSY_TIMEOUT_MS / 1000)
        try:
            tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
            if not tables:
                return None
            if not {"alembic_version", "jobs"} <= tables:
                raise UsageError(f"{path}: this database is not a ledger; name another file with <setting ledger>")
            found = str(connection.execute("SELECT version_num FROM alembic_version").fetchone()[0])
            if found == RETIRED:
                raise retired_error(path, connection.execute(COPIED_TO).fetchone()[0])
            return found
        finally:
            connection.close()


@contextmanager
def _foreign_files(path: Path) -> Iterator[None]:
    """Raises `UsageError` for a file that is no database."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_NOTADB:
            raise
        raise UsageError(f"{path}: this file is not a ledger; name another file with <setting ledger>") from error


def migrate(path: Path) -> None:
    """Brings the file at `path` to `SCHEMA_VERSION`, creating it if need be.

    In one transaction: a process killed in between leaves the file as it was. Raises `LedgerVersionError` for a ledger
    of a newer program, `UsageError` for another program's database, `StorageError` where the file cannot be written.
    The caller holds the dispatcher lock.
    """
    found = version_of(path)
    if found == SCHEMA_VERSION:
        return
    refuse_unknown(path, found)
    with storage_errors(path), _exclusively(path) as connection:
        if found is None:
            _create(connection)
        else:
            _upgrade(connection)


async def migrate_server(database: "ServerDatabase") -> None:
    """Brings a ledger on a server to `SCHEMA_VERSION`, creating its tables if need be, in one transaction.

    Raises `LedgerVersionError` for one of a newer program, and `StorageError`.
    """
    from orchestrator.ledger.postgres import tables  # noqa: PLC0415  with it comes a dialect that few need

    def bring_up(connection: Connection) -> None:
        found = tables.tables_version(connection)
        if found == SCHEMA_VERSION:
            return
        refuse_unknown(database.name, found)
        if found is None:
            tables.create(connection, metadata)
            _say_version(connection)
        else:
            _upgrade(connection)

    async with database.changing() as connection:
        await connection.run_sync(bring_up)


@contextmanager
def _exclusively(path: Path) -> Iterator[Connection]:
    """One transaction that nobody else can come between."""
    connect = partial(sqlite3.connect, path, timeout=BUSY_TIMEOUT_MS / 1000, isolation_level=None)
    with create_engine("sqlite://", creator=connect, poolclass=NullPool).begin() as connection:
        # Counts for a file without tables only. What is deleted can then be cut off (`Database.give_back`).
        connection.exec_driver_sql("PRAGMA auto_vacuum = INCREMENTAL")
        # Left to itself, the driver begins no transaction for DDL, and a kill would leave half of the tables.
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        yield connection


def _create(connection: Connection) -> None:
    """A new ledger, straight from the tables: all migrations together come to the same (a test compares them), and
    loading Alembic would take a third of a second.
    """
    metadata.create_all(connection)
    _say_version(connection)


def _say_version(connection: Connection) -> None:
    """As Alembic says it."""
    connection.exec_driver_sql("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)")
    connection.execute(text("INSERT INTO alembic_version VALUES (:version)"), {"version": SCHEMA_VERSION})


def _upgrade(connection: Connection) -> None:
    from alembic import command  # noqa: PLC0415  only a migration should pay for it
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
