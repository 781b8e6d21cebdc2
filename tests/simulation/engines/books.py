"""A ledger on a server, brought into a file of SQLite's, table by table: so one reader and one set of checks is enough."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from orchestrator.ledger.schema.job_tables import metadata
from tests.engine.rows import empty_ledger
from tests.simulation.engines.blocked import Onlooker
from tests.simulation.engines.facts import Owned

_WATCHED: Final = """
DROP SCHEMA IF EXISTS watched CASCADE;
CREATE SCHEMA watched;
CREATE TABLE watched.owners (n bigint GENERATED ALWAYS AS IDENTITY, shard bigint, owner bigint);
CREATE TABLE watched.processes (id bigint, mark text);
CREATE FUNCTION watched.owner() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO watched.owners (shard, owner) VALUES (NEW.shard, NEW.owner); RETURN NULL; END $$;
CREATE FUNCTION watched.process() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO watched.processes VALUES (NEW.id, NEW.mark); RETURN NULL; END $$;
CREATE TRIGGER watched AFTER UPDATE OR INSERT ON leases FOR EACH ROW EXECUTE FUNCTION watched.owner();
CREATE TRIGGER watched AFTER INSERT ON processes FOR EACH ROW EXECUTE FUNCTION watched.process();
"""
# Half a message of a process that is none any more may have locked it.
_NOT_WATCHED: Final = """
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
WHERE datname = current_database() AND application_name LIKE 'orchestrator %';
DROP SCHEMA watched CASCADE
"""
_OWNERS: Final = """
SELECT shard, (SELECT mark FROM watched.processes WHERE id = owner) FROM watched.owners ORDER BY n
"""


def watch_owners(onlooker: Onlooker) -> None:
    """From now on each change of an owner is noted in the database, beside the ledger."""
    onlooker.do(_WATCHED)


def owners_of(onlooker: Onlooker) -> list[Owned]:
    """Each change since then; nothing is noted any more."""
    found = [Owned(*row) for row in onlooker.rows(_OWNERS)]
    onlooker.do(_NOT_WATCHED)
    return found


def copy_books(onlooker: Onlooker, file: Path) -> None:
    """Puts all of the ledger into `file`."""
    empty_ledger(file)
    with closing(sqlite3.connect(file)) as db, db:
        for table in metadata.sorted_tables:
            names = ", ".join(f'"{column.name}"' for column in table.columns)
            marks = ", ".join("?" * len(table.columns))
            db.execute(f"DELETE FROM {table.name}")
            db.executemany(
                f"INSERT INTO {table.name} ({names}) VALUES ({marks})",
                onlooker.rows(f"SELECT {names} FROM {table.name}"),
            )
