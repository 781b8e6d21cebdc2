"""The tables of a ledger on a server, how they are kept there, and what an audit asks instead of foreign keys."""

from collections.abc import Iterator, Mapping
from typing import Final

from sqlalchemy import Connection, ForeignKey, ForeignKeyConstraint, Index, MetaData, Select, Table, select, text
from sqlalchemy.schema import CreateTable

from orchestrator.ledger.postgres.dialect import DIALECT, is_packed

UNBOUND: Final = frozenset({"jobs", "payloads", "outcomes"})
"""Tables without foreign keys: each row of an intake would lock the row of its run, and half as many were taken in."""

_BUSY: Final = "fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02"
_FEW_AND_BUSY: Final = "fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500"
STORAGE: Final[Mapping[str, str]] = {
    "jobs": _BUSY,
    "submissions": _BUSY,
    "counts": _FEW_AND_BUSY,
    "writers": _FEW_AND_BUSY,
    "processes": _FEW_AND_BUSY,
    "leases": _FEW_AND_BUSY,
}
"""How much room is left in each page, and how soon what was updated is swept up."""

OWN_INDEXES: Final[Mapping[str, str]] = {
    "jobs_claimable": "jobs (run_id, endpoint_id, due_at, priority DESC, (id + 0)) WHERE state = 'queued'",
    "jobs_of_trouble": "jobs (run_id, trouble, id) WHERE (state = 'cancelled' OR state = 'failed')",
    "jobs_given_up_by_number": "jobs (run_id, state, id) WHERE (state = 'cancelled' OR state = 'failed')",
    "notices_of_endpoint": "notices (endpoint_id, id)",
}
"""Those that are other ones here. The first ends as its questions go on (`expressions.not_by_key`). The others are the
server's alone. It takes four times as long as SQLite to go through the jobs of a run, which the steps pay for that end
one by a failure; and only there may notices pile up of endpoints that nobody works at, beside those of others.
"""

WRITERS: Final = (
    (
        "CREATE TABLE writers (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, seq BIGINT NOT NULL DEFAULT 0,"
        " signals BIGINT NOT NULL DEFAULT 0, notices BIGINT NOT NULL DEFAULT 0)"
    ),
    # Of those that have ended: the sums over all rows must not come back to what they were.
    "INSERT INTO writers (id, seq) OVERRIDING SYSTEM VALUE VALUES (0, 0)",
)
"""A row for each process that writes, with how many transactions it has begun, and how often it has signalled to the
engines of other processes to look: for whatever it may be, and for notices alone.
"""

_FOLLOWING: Final = """
WITH before_any AS MATERIALIZED (SELECT last_value FROM {name})
SELECT coalesce(pg_sequence_last_value('{name}'::regclass) + 1, last_value) FROM before_any
"""
_PROCESSES: Final = """
CREATE TABLE processes (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, slot BIGINT NOT NULL UNIQUE CHECK (slot BETWEEN 0 AND 63),
  name TEXT COLLATE "C" NOT NULL, version TEXT COLLATE "C" NOT NULL, mark TEXT COLLATE "C" NOT NULL,
  began_at BIGINT NOT NULL, is_alone BIGINT NOT NULL, beat BIGINT NOT NULL DEFAULT 0,
  listens BIGINT NOT NULL DEFAULT 0
)
"""
_LEASES: Final = """
CREATE TABLE leases (
  shard BIGINT PRIMARY KEY, owner BIGINT REFERENCES processes, epoch BIGINT NOT NULL DEFAULT 0,
  taken_at BIGINT, left_at BIGINT, wanted_by BIGINT REFERENCES processes ON DELETE SET NULL,
  handover TEXT COLLATE "C"
)
"""
OWNERS: Final = (_PROCESSES, _LEASES)
"""A row for each process that lives, with a slot of its own, and for each shard with who owns it. See
`processes/processes.py` and `processes/leases.py`.
"""

IDENTITY: Final = (
    (
        "CREATE TABLE identity (id BIGINT PRIMARY KEY CHECK (id = 1),"
        ' webhook_key TEXT COLLATE "C" NOT NULL, lost_commits BIGINT NOT NULL DEFAULT 0)'
    ),
    "INSERT INTO identity VALUES (1, '')",
)
"""One row: the fingerprint of the key that webhooks are signed by, and when it was found that the server has lost what
it had confirmed, until somebody accepts that (0: it has not).
"""

SENT_MARKS: Final = (
    "CREATE TABLE sent_marks (slot BIGINT PRIMARY KEY, number BIGINT NOT NULL)",
    "INSERT INTO sent_marks SELECT slot, 0 FROM generate_series(0, 63) AS each (slot)",
)
"""For each slot of processes, the number of the file of marks that was made last for it (0: none)."""


def create(connection: Connection, metadata: MetaData) -> None:
    """All tables, empty, but for the one of the schema's version."""
    for table in metadata.sorted_tables:
        keys: list[ForeignKeyConstraint] | None = [] if table.name in UNBOUND else None
        connection.execute(CreateTable(table, include_foreign_key_constraints=keys))
        for index in sorted(table.indexes, key=lambda each: str(each.name)):
            if index.name not in OWN_INDEXES:
                connection.exec_driver_sql(f"CREATE INDEX {index.name} ON {_definition(table, index)}")
        for column in filter(is_packed, table.columns):
            connection.exec_driver_sql(f"ALTER TABLE {table.name} ALTER COLUMN {column.name} SET STORAGE EXTERNAL")
    for name, definition in OWN_INDEXES.items():
        connection.exec_driver_sql(f"CREATE INDEX {name} ON {definition}")
    for statement in (*WRITERS, *OWNERS, *IDENTITY, *SENT_MARKS):
        connection.exec_driver_sql(statement)
    for name, settings in STORAGE.items():
        connection.exec_driver_sql(f"ALTER TABLE {name} SET ({settings})")


def _definition(table: Table, index: Index) -> str:
    """The index, ending with the number of its row, as each of SQLite's does by itself: questions go on from there."""
    named = [each for each in index.expressions if not isinstance(each, str)]
    words = [str(each.compile(dialect=DIALECT, compile_kwargs={"include_table": False})) for each in named]
    key = list(table.primary_key)
    if len(key) == 1 and key[0].name not in words:
        words.append(key[0].name)
    where = index.dialect_options["sqlite"]["where"]
    condition = "" if where is None else f" WHERE {where}"
    return f"{table.name} ({', '.join(words)}){condition}"


def tables_version(connection: Connection) -> str | None:
    """The schema's version; None where there are no tables of ours."""
    if connection.scalar(text("SELECT to_regclass('alembic_version')")) is None:
        return None
    return str(connection.scalar(text("SELECT version_num FROM alembic_version")))


def orphans_of(metadata: MetaData, *, most: int) -> Iterator[tuple[Table, Table, Select[tuple[object]]]]:
    """Each table whose rows belong to rows of another one, and the question for up to `most` that do not."""
    for table in metadata.sorted_tables:
        for key in sorted(table.foreign_keys, key=_name_of):
            column, parent = key.parent, key.column
            joined = table.outerjoin(parent.table, column == parent)
            lost = select(column).select_from(joined).where(column.is_not(None), parent.is_(None))
            yield table, parent.table, lost.limit(most)


def _name_of(key: ForeignKey) -> str:
    return key.parent.name


def following_number(sequence: str) -> str:
    """The question for a number so that `sequence` gives none from it on, and has given all before it, by now.

    Who reads the row of a sequence takes no lock of it. While the server writes to its log that it will give the next
    32 numbers, the last of those stands there as the last one given. The function waits until that is over; it says
    nothing only where none was ever taken, and then the row, read before it, is right.
    """
    return _FOLLOWING.format(name=sequence)
