"""How PostgreSQL executes what has no portable words: see `ledger/statements.py`.

What is executed for many rows is one statement whose parameters are arrays, one for each value of a row: the server
plans and executes it once, and there is one answer to wait for.
"""

# ruff: noqa: S608  all that is put together here is ours

import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from functools import cached_property
from operator import itemgetter
from typing import Any, Final, NamedTuple

from sqlalchemy import Insert, LargeBinary, String, Update
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.types import NULLTYPE

from orchestrator.ledger import statements, table_scans, write_stops
from orchestrator.ledger.database import BUSY_TIMEOUT_MS
from orchestrator.ledger.postgres.connection import server_driver
from orchestrator.ledger.postgres.dialect import DIALECT
from orchestrator.ledger.postgres.tables import following_number
from orchestrator.ledger.postgres.texts import array_of_numbers, array_of_texts
from orchestrator.ledger.statements import body_of, position_of

_PARAMETER: Final = re.compile(r"\$(\d+)(?:::[A-Z]+(?: PRECISION)?)?")
_GIVEN: Final = re.compile(r"\bgiven\.c(\d+)\b")
_INSERT: Final = re.compile(r"(.+?) VALUES \((.+?)\)( ON CONFLICT .+)?", re.DOTALL)
_PATIENT: Final = f"SET LOCAL lock_timeout = {BUSY_TIMEOUT_MS}"
_STOP: Final = """
CREATE FUNCTION write_stop() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = TG_ARGV[0]; END $$
"""
_CHANGES: Final = re.compile(r" DO UPDATE ")


class _Arrays(NamedTuple):
    """A statement with a row of `given` in the place of each of its parameters, and where such rows come from."""

    sql: str
    given: str
    names: tuple[str, ...]
    """Of its parameters, in the order of the arrays."""

    as_array: tuple[Callable[[Sequence[Any]], Any], ...]
    """What makes an array of the values of each."""

    def of(self, columns: Iterable[Sequence[Any]]) -> list[Any]:
        """The arrays, each of the values of one parameter. One that is unknown in all rows is an empty array: there are
        as many rows as the longest has elements, that of a key, and what others are short of is NULL. Most of what is
        written is so, or the same in all rows: that both are shorter to say is a thirtieth of what a step takes.
        """
        return [
            as_array(() if column[0] is None and column.count(None) == len(column) else column)
            for as_array, column in zip(self.as_array, columns, strict=True)
        ]

    def update(self) -> str:
        """An UPDATE of all rows at once."""
        change, condition = self.sql.split(" WHERE ")
        return f"{change} FROM {self.given} WHERE {condition}"


def _arrays(statement: Insert | Update, columns: Sequence[str] | None = None) -> _Arrays:
    if isinstance(statement, Insert):
        statement = statement.inline()  # else it would return keys
    compiled = statement.compile(dialect=DIALECT, column_keys=columns)
    assert compiled.positiontup is not None
    kinds, as_array = list[str](), list[Callable[[Sequence[Any]], Any]]()
    for position, name in enumerate(compiled.positiontup, start=1):
        type_ = compiled.binds[name].type
        assert type_ is not NULLTYPE, f"the type of {name} has to be said: {compiled}"
        kind = DIALECT.type_compiler_instance.process(type_.dialect_impl(DIALECT))
        if isinstance(type_, LargeBinary):
            kinds.append(f"${position}::{kind}[]")
            as_array.append(list)
        else:
            kinds.append(f"${position}::TEXT::{kind}[]")
            as_array.append(array_of_texts if isinstance(type_, String) else array_of_numbers)
    given = ", ".join(f"c{position}" for position in range(1, len(kinds) + 1))
    return _Arrays(
        _PARAMETER.sub(lambda found: f"given.c{found[1]}", str(compiled)),
        f"unnest({', '.join(kinds)}) WITH ORDINALITY AS given({given}, n)",
        tuple(compiled.positiontup),
        tuple(as_array),
    )


@body_of(statements.Many, "postgresql")
class PostgresMany:
    """An INSERT or UPDATE of all rows at once, or, where two of them are about the same row, of one after the other."""

    def __init__(self, many: statements.Many) -> None:
        self._statement, self._columns = many.statement, many.columns

    async def execute(self, connection: AsyncConnection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Executes it for each of `rows`."""
        driver = server_driver(connection)
        for together in self._about_a_row_each(rows):
            await driver.fetch(self._together, *self._arrays.of(zip(*map(self._tuple_of, together), strict=True)))

    def _about_a_row_each(self, rows: Sequence[Mapping[str, Any]]) -> Iterable[Sequence[Mapping[str, Any]]]:
        """All of them, in parts. Two rows about the same row would change it once in one statement, or, by an INSERT
        that changes what is there, not at all.
        """
        key = self._key
        if not rows:
            return ()
        if key is None or len(set(map(key, rows))) == len(rows):
            return (rows,)
        parts, before = dict[int, list[Mapping[str, Any]]](), Counter[tuple[Any, ...]]()
        for row in rows:
            before[key(row)] += 1
            parts.setdefault(before[key(row)], []).append(row)
        return parts.values()

    @cached_property
    def _arrays(self) -> _Arrays:
        return _arrays(self._statement, self._columns or None)

    @cached_property
    def _tuple_of(self) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
        return _getter(self._arrays.names)

    @cached_property
    def _key(self) -> Callable[[Mapping[str, Any]], tuple[Any, ...]] | None:
        """What tells by which row another one is changed; None for an INSERT that changes none."""
        if isinstance(self._statement, Update):
            _, condition = self._arrays.sql.split(" WHERE ")
            return _getter([self._arrays.names[int(found[1]) - 1] for found in _GIVEN.finditer(condition)])
        if not _CHANGES.search(self._arrays.sql):
            return None
        return _getter([column.name for column in self._statement.table.primary_key])

    @cached_property
    def _together(self) -> str:
        arrays = self._arrays
        if isinstance(self._statement, Update):
            return arrays.update()
        insert = _INSERT.fullmatch(arrays.sql)
        assert insert is not None, arrays.sql
        return f"{insert[1]} SELECT {insert[2]} FROM {arrays.given} ORDER BY n{insert[3] or ''}"


@body_of(statements.Guarded, "postgresql")
class PostgresGuarded:
    """All at once; the server tells of which of them there was a row to change."""

    def __init__(self, guarded: statements.Guarded) -> None:
        self._statement = guarded.statement

    async def execute(self, connection: AsyncConnection, rows: Sequence[tuple[Any, ...]]) -> list[bool]:
        """Executes it for each of `rows`, of plain values and about a row each; returns whether each changed it."""
        if not rows:
            return []
        rows, places = _in_order(rows)
        values = list(zip(*rows, strict=True))
        arrays = self._arrays
        columns = arrays.of(values[position_of(name)] for name in arrays.names)
        found = await server_driver(connection).fetch(self._sql, *columns)
        are_changed = [False] * len(rows)
        for (n,) in found:
            are_changed[places[n - 1]] = True
        return are_changed

    @cached_property
    def _arrays(self) -> _Arrays:
        return _arrays(self._statement)

    @cached_property
    def _sql(self) -> str:
        return f"{self._arrays.update()} RETURNING given.n"


def _in_order(rows: Sequence[tuple[Any, ...]]) -> tuple[Sequence[tuple[Any, ...]], Sequence[int]]:
    """Rows in the order in which everybody locks them, and where each stood."""
    places = sorted(range(len(rows)), key=lambda place: rows[place][0])
    return [rows[place] for place in places], places


@body_of(statements.BulkInsert, "postgresql")
class PostgresBulkInsert:
    """By COPY, which takes in three times as many rows as any INSERT."""

    def __init__(self, bulk: statements.BulkInsert) -> None:
        self._table = bulk.table.name
        self._columns = [column.name for column in bulk.table.columns if column.key in bulk.columns]

    async def execute(self, connection: AsyncConnection, rows: Sequence[tuple[Any, ...]]) -> None:
        """Inserts `rows`."""
        await server_driver(connection).copy_records_to_table(self._table, records=rows, columns=self._columns)


@body_of(statements.NumberSequence, "postgresql")
class PostgresNumberSequence:
    """The sequence of an identity column. It never goes back: also of removed rows no number comes again."""

    def __init__(self, sequence: statements.NumberSequence) -> None:
        name = f"{sequence.column.table.name}_{sequence.column.name}_seq"
        self._following = following_number(name)
        self._take = f"SELECT nextval('{name}') FROM generate_series(1, $1)"
        self._go_on = f"SELECT setval('{name}', $1, false)"

    async def following(self, connection: AsyncConnection) -> int:
        """No row that comes gets a smaller number."""
        return int(await server_driver(connection).fetchval(self._following))

    async def take(self, connection: AsyncConnection, number: int, at_least: int) -> Sequence[int]:  # noqa: ARG002
        """So many numbers, all of them larger than any before."""
        return [row[0] for row in await server_driver(connection).fetch(self._take, number)]

    async def go_on_at(self, connection: AsyncConnection, number: int) -> None:
        """Whatever the rows have that are there."""
        await server_driver(connection).execute(self._go_on, number)


@body_of(table_scans.TableScan, "postgresql")
class PostgresTableScan:
    """By two cursors side by side: one knows how large the rows are that the other one fetches."""

    def __init__(self, scan: table_scans.TableScan) -> None:
        self._rows = str(scan.rows.compile(dialect=DIALECT))
        self._sizes = None if scan.sizes is None else str(scan.sizes.compile(dialect=DIALECT))

    async def pages(self, connection: AsyncConnection) -> AsyncIterator[Sequence[table_scans.Row]]:
        """Some rows at a time."""
        driver = server_driver(connection)
        rows = await driver.cursor(self._rows)
        sizes = None if self._sizes is None else await driver.cursor(self._sizes)
        known: list[int] = []
        number = table_scans.PAGE_ROWS
        while True:
            if sizes is not None:
                known += [size for (size,) in await sizes.fetch(table_scans.PAGE_ROWS - len(known))]
                number = table_scans.page_rows(known)
                del known[:number]
            page = list(map(tuple, await rows.fetch(number))) if number else []
            if not page:
                return
            yield page


@body_of(write_stops.WriteStop, "postgresql")
class PostgresWriteStop:
    """By triggers, which go with the function that they call. A vacuum gives way to them, but only after a second."""

    def __init__(self, stop: write_stops.WriteStop) -> None:
        self._tables = [table.name for table in stop.tables]

    async def put_up(self, connection: AsyncConnection, why: str) -> None:
        """Before each statement that would change something."""
        driver, said = server_driver(connection), why.replace("'", "''")
        await driver.execute(f"{_PATIENT}; {_STOP}")
        for table in self._tables:
            await driver.execute(
                f"CREATE TRIGGER write_stop BEFORE INSERT OR UPDATE ON {table}"
                f" FOR EACH STATEMENT EXECUTE FUNCTION write_stop('{said}')"
            )

    async def take_down(self, connection: AsyncConnection) -> None:
        """All of them."""
        await server_driver(connection).execute(f"{_PATIENT}; DROP FUNCTION write_stop CASCADE")


def _getter(names: Sequence[str]) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    """What makes a tuple of these values of a row."""
    if len(names) == 1:
        (name,) = names
        return lambda row: (row[name],)
    return itemgetter(*names)
