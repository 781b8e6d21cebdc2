"""Ledgers of worlds that were played, changed behind everybody's back for as long as a test lasts."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path


@contextmanager
def put_back(ledger: Path) -> Iterator[None]:
    """Whatever is done to the ledger, at the end it is as it was.

    SQLite writes it back: processes that were killed in a world leave connections, so that a log with the changes can
    lie beside the file, and outlast bytes that are put there.
    """
    with closing(sqlite3.connect(":memory:")) as kept:
        with closing(sqlite3.connect(ledger)) as db:
            db.backup(kept)
        try:
            yield
        finally:
            with closing(sqlite3.connect(ledger)) as db:
                kept.backup(db)


def tamper(ledger: Path, change: str) -> int:
    """Makes a change, which has to change something, though constraints forbid it; returns of how many rows."""
    with closing(sqlite3.connect(ledger)) as db, db:
        db.execute("PRAGMA ignore_check_constraints = ON")
        changed = db.execute(change).rowcount
    assert changed, "nothing was changed"
    return changed


@contextmanager
def tampered(ledger: Path, change: str) -> Iterator[int]:
    """The ledger with a change in it, of so many rows."""
    with put_back(ledger):
        yield tamper(ledger, change)
