"""What SQLite says of the file rather than of a statement, as `StorageError`: full, locked, read-only, damaged."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from sqlalchemy.exc import DatabaseError, DBAPIError

from orchestrator.errors import LedgerUnavailableError, StorageError

_PRIMARY: Final = 0xFF
"""Of the code of an error, those bits that say what it is; the others say at what."""

_CANNOT_WRITE: Final = frozenset(
    {
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR_WRITE,
        sqlite3.SQLITE_IOERR_FSYNC,
        sqlite3.SQLITE_IOERR_DIR_FSYNC,
        sqlite3.SQLITE_IOERR_TRUNCATE,
        sqlite3.SQLITE_IOERR_SHMSIZE,
    }
)
"""A quota says so in the place of a full disk."""


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turns what the database says of its file into `StorageError`; defects of ours (constraints) pass as they are."""
    try:
        yield
    except DBAPIError as error:
        if _is_about_storage(error):
            raise _storage_error(path, error.orig) from error
        raise
    except sqlite3.DatabaseError as error:
        if _is_defect(error):
            raise
        raise _storage_error(path, error) from error


def _is_about_storage(error: DBAPIError) -> bool:
    """Whether it is the file, not the statement: full, locked, read-only, unreadable, corrupt."""
    is_sqlites = isinstance(error, DatabaseError) and isinstance(error.orig, sqlite3.DatabaseError)
    return is_sqlites and not _is_defect(error.orig)


def _is_defect(error: BaseException | None) -> bool:
    """Whether a statement was wrong. Triggers are there for a ledger alone that is not to be written any more."""
    is_stopped = getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_CONSTRAINT_TRIGGER
    return isinstance(error, sqlite3.IntegrityError | sqlite3.ProgrammingError) and not is_stopped


def _storage_error(path: Path, error: BaseException | None) -> StorageError:
    """What happened, where, and what to do. What passes by itself, or once people make room, is waited for; where
    reading fails, the file is not what it was.
    """
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    if code in _CANNOT_WRITE:
        advice = "free some space on its disk"
        return LedgerUnavailableError(f"{path}: cannot write the ledger ({error})", advice=advice)
    match code & _PRIMARY:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return LedgerUnavailableError(f"{path}: another program has locked the ledger ({error})", advice="close it")
        case sqlite3.SQLITE_READONLY:
            # What SQLite puts beside a file has the file's mode, and keeps it when the file gets another one.
            advice = "make the file, the -wal and -shm beside it, and its folder writable, then resume"
            return StorageError(f"{path}: the ledger is read-only ({error}); {advice}")
        case sqlite3.SQLITE_CANTOPEN:  # mostly what stands beside it: even who only reads it makes its -shm
            advice = "its folder must be there and writable; of one that is not, copy the file with its -wal to another"
            return StorageError(f"{path}: cannot use the ledger ({error}); {advice}")
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            advice = "restore it from a copy, or start with another <setting ledger>"
            return StorageError(f"{path}: the ledger is damaged ({error}); {advice}")
        case found:
            advice = "; name that one with <setting ledger>" if found == sqlite3.SQLITE_CONSTRAINT else ""
            return StorageError(f"{path}: cannot use the ledger ({error}){advice}")
