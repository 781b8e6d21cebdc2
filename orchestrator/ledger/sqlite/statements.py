"""How SQLite says what has no portable words: see `ledger/statements.py` and `ledger/expressions.py`."""

# ruff: noqa: S608  all that is put together here is ours

import re
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from itertools import chain
from operator import itemgetter
from typing import Any, Final, NamedTuple

from sqlalchemy import BLOB, Insert, cast, func, insert, select, text
from sqlalchemy.dialects import sqlite
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql import operators
from sqlalchemy.sql.compiler import SQLCompiler

from orchestrator.ledger import expressions, named_batches, statements, table_scans, write_stops
from orchestrator.ledger.sqlite.connection import driver_of
from orchestrator.ledger.statements import body_of, compile_functions, position_of

ROWS_AT_ONCE: Final = 16
"""Rows that one INSERT takes: two fifths less than an INSERT for each, and more rows gain nothing more (measured)."""

BULK_ROWS_AT_ONCE: Final = (256, ROWS_AT_ONCE)
"""The same of rows by the thousand, which cost a sixth less than by an INSERT for each (measured)."""

GUARDED_AT_ONCE: Final = 40
"""Rows that one guarded UPDATE takes: between two statements the event loop may have to wait for the interpreter."""

GUARDED_APART_MAX: Final = 4
"""So few rows are updated one by one."""

CHANGES: Final = ("INSERT", "UPDATE")

# --- what is executed


@body_of(statements.Many, "sqlite")
class SQLiteMany:
    """The driver gets plain tuples, and those of an INSERT many at once."""

    def __init__(self, many: statements.Many) -> None:
        self._statement, self._columns = many.statement, many.columns

    async def execute(self, connection: AsyncConnection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Executes it for each of `rows`."""
        sql, tuple_of = self._compiled
        tuples = [tuple_of(row) for row in rows]
        if isinstance(self._statement, Insert):
            await _insert(connection, sql, tuples)
        elif tuples:
            await connection.exec_driver_sql(sql, tuples)

    @cached_property
    def _compiled(self) -> tuple[str, Callable[[Mapping[str, Any]], tuple[Any, ...]]]:
        """The statement, and what makes the driver's tuple of a row."""
        compiled = self._statement.compile(dialect=sqlite.dialect(), column_keys=self._columns)
        assert compiled.positiontup is not None
        return str(compiled), itemgetter(*compiled.positiontup)


@body_of(statements.Guarded, "sqlite")
class SQLiteGuarded:
    """Each of a whole batch's values picked out of its text takes twice as long (measured: 8.2 us for a row of 17
    values, and 3.2 so), and one statement for each row lets go of the interpreter for each.
    """

    def __init__(self, guarded: statements.Guarded) -> None:
        self._statement = guarded.statement

    async def execute(self, connection: AsyncConnection, rows: Sequence[tuple[Any, ...]]) -> list[bool]:
        """Executes it for each of `rows`, of plain values and about a row each; returns whether each changed it."""
        return await (await driver_of(connection)).in_thread(partial(self._execute, rows))

    def _execute(self, rows: Sequence[tuple[Any, ...]], cursor: sqlite3.Cursor) -> list[bool]:
        """All together first: it is rare that one is no more as it was, and then they are told apart."""
        if len(rows) > GUARDED_APART_MAX:
            cursor.execute("SAVEPOINT together")
            is_all = self._together(rows, cursor) == len(rows)
            if not is_all:
                cursor.execute("ROLLBACK TO together")
            cursor.execute("RELEASE together")
            if is_all:
                return [True] * len(rows)
        return [cursor.execute(self._compiled.one, self._compiled.values_of(row)).rowcount > 0 for row in rows]

    def _together(self, rows: Sequence[tuple[Any, ...]], cursor: sqlite3.Cursor) -> int:
        """How many rows that has changed."""
        nothing = (None,) * len(rows[0])  # which no row is
        filled = [*rows, *(nothing for _ in range(-len(rows) % GUARDED_AT_ONCE))]
        starts = range(0, len(filled), GUARDED_AT_ONCE)
        chunks = [tuple(chain.from_iterable(filled[start : start + GUARDED_AT_ONCE])) for start in starts]
        return cursor.executemany(self._compiled.many, chunks).rowcount

    @cached_property
    def _compiled(self) -> "_Compiled":
        compiled = self._statement.compile(dialect=sqlite.dialect())
        assert compiled.positiontup is not None
        places = [position_of(name) for name in compiled.positiontup]
        columns = iter(places)
        one = str(compiled)
        row = f"({', '.join('?' * len(places))})"
        values = f"FROM (VALUES {', '.join([row] * GUARDED_AT_ONCE)}) AS given"
        change, condition = re.sub(r"\?", lambda _: f"given.column{next(columns) + 1}", one).split(" WHERE ")
        return _Compiled(one, f"{change} {values} WHERE {condition}", itemgetter(*places))


class _Compiled(NamedTuple):
    one: str
    many: str
    """For as many rows as are executed at once, whose values follow one another."""

    values_of: Callable[[tuple[Any, ...]], tuple[Any, ...]]
    """Of a row, in the order of `one`."""


@body_of(statements.BulkInsert, "sqlite")
class SQLiteBulkInsert:
    def __init__(self, bulk: statements.BulkInsert) -> None:
        self._sql = str(insert(bulk.table).compile(dialect=sqlite.dialect(), column_keys=bulk.columns))

    async def execute(self, connection: AsyncConnection, rows: Sequence[tuple[Any, ...]]) -> None:
        """Inserts `rows`."""
        await _insert(connection, self._sql, rows, at_once=BULK_ROWS_AT_ONCE)


async def _insert(
    connection: AsyncConnection, sql: str, rows: Sequence[tuple[Any, ...]], *, at_once: Sequence[int] = (ROWS_AT_ONCE,)
) -> None:
    """By an INSERT of as many rows `at_once` as there are, the most first, and at last by one for each."""
    for number in at_once:
        together = len(rows) - len(rows) % number
        if together > number:  # a single one would be waited for
            starts = range(0, together, number)
            chunks = [tuple(chain.from_iterable(rows[start : start + number])) for start in starts]
            await connection.exec_driver_sql(_of_rows(sql, number), chunks)
            rows = rows[together:]
    if rows:
        await connection.exec_driver_sql(sql, list(rows))


@lru_cache
def _of_rows(sql: str, number: int) -> str:
    """The INSERT `sql` for so many rows."""
    row = sql.partition(" VALUES ")[2]
    return sql + f", {row}" * (number - 1)


@body_of(statements.NumberSequence, "sqlite")
class SQLiteNumberSequence:
    """Who writes is alone: the next number is the one above the highest."""

    def __init__(self, sequence: statements.NumberSequence) -> None:
        table = sequence.column.table
        self._latest = select(func.max(sequence.column))
        self._remembered = text(f"SELECT seq FROM sqlite_sequence WHERE name = '{table.name}'")
        self._forget = text(f"DELETE FROM sqlite_sequence WHERE name = '{table.name}'")
        self._remember = text(f"INSERT INTO sqlite_sequence VALUES ('{table.name}', :latest)")
        self._is_remembered = bool(table.dialect_options["sqlite"]["autoincrement"])
        """Whether SQLite remembers the highest number of a row that was removed."""

    async def following(self, connection: AsyncConnection) -> int:
        """No row that comes gets a smaller number."""
        latest: int = (await connection.execute(self._latest)).scalar() or 0
        if self._is_remembered:
            latest = max(latest, (await connection.execute(self._remembered)).scalar() or 0)
        return latest + 1

    async def go_on_at(self, connection: AsyncConnection, number: int) -> None:
        """Where SQLite remembers none, it is the one above the highest anyway."""
        if self._is_remembered:
            await connection.execute(self._forget)
            await connection.execute(self._remember, {"latest": number - 1})

    async def take(self, connection: AsyncConnection, number: int, at_least: int) -> Sequence[int]:
        """So many numbers that follow one another."""
        first = max(at_least, await self.following(connection))
        return range(first, first + number)


@body_of(table_scans.TableScan, "sqlite")
class SQLiteTableScan:
    """By two cursors side by side: one knows how large the rows are that the other one fetches."""

    def __init__(self, scan: table_scans.TableScan) -> None:
        # What stands there as a text is as good: SQLite lets each value have a type of its own.
        columns = [cast(each, BLOB) if isinstance(each.type, BLOB) else each for each in scan.table.columns]
        self._rows = str(scan.rows.with_only_columns(*columns).compile(dialect=sqlite.dialect()))
        self._sizes = None if scan.sizes is None else str(scan.sizes.compile(dialect=sqlite.dialect()))

    async def pages(self, connection: AsyncConnection) -> AsyncIterator[Sequence[table_scans.Row]]:
        """Some rows at a time."""
        driver = await driver_of(connection)
        rows = await driver.in_thread(lambda cursor: cursor.connection.execute(self._rows))
        sizes = None
        if (asked := self._sizes) is not None:
            sizes = await driver.in_thread(lambda cursor: cursor.connection.execute(asked))
        known: list[int] = []
        while page := await driver.in_thread(lambda _: _page(rows, sizes, known)):
            yield page


def _page(rows: sqlite3.Cursor, sizes: sqlite3.Cursor | None, known: list[int]) -> list[table_scans.Row]:
    """The next rows; of those behind them the sizes are `known`."""
    if sizes is None:
        return rows.fetchmany(table_scans.PAGE_ROWS)
    known += [size for (size,) in sizes.fetchmany(table_scans.PAGE_ROWS - len(known))]
    number = table_scans.page_rows(known)
    del known[:number]
    return rows.fetchmany(number) if number else []


@body_of(write_stops.WriteStop, "sqlite")
class SQLiteWriteStop:
    """By triggers, the only ones that there are: a connection that is open finds them with its next statement."""

    def __init__(self, stop: write_stops.WriteStop) -> None:
        self._stops = {
            f"stop_{verb.lower()}_{table.name}": (verb, table.name) for table in stop.tables for verb in CHANGES
        }

    async def put_up(self, connection: AsyncConnection, why: str) -> None:
        """Before each change."""
        said = why.replace("'", "''")
        for name, (verb, table) in self._stops.items():
            await connection.exec_driver_sql(
                f"CREATE TRIGGER {name} BEFORE {verb} ON {table} BEGIN SELECT RAISE(ABORT, '{said}'); END"
            )

    async def take_down(self, connection: AsyncConnection) -> None:
        """All of them."""
        for name in self._stops:
            await connection.exec_driver_sql(f"DROP TRIGGER {name}")


# --- what is compiled


compile_functions(
    "sqlite",
    {
        statements.Numbers: "json_each({})",
        statements.Texts: "json_each({})",
        statements.Rows: "json_each({})",
        statements.Field: "json_extract({})",
        expressions.Greatest: "max({})",
        expressions.Least: "min({})",
        expressions.PlaceIn: "instr({})",
        expressions.IsMet: "coalesce({}, 0)",
    },
)


@compiles(expressions.Unindexed, "sqlite")
def _unindexed(element: expressions.Unindexed, compiler: SQLCompiler, **kw: Any) -> str:
    return f"+{compiler.process(element.column, **kw)}"


@compiles(expressions.NobodyBeside, "sqlite")
def _nobody_beside(element: expressions.NobodyBeside, compiler: SQLCompiler, **kw: Any) -> str:
    return compiler.process(element.column, **kw)


@compiles(expressions.AloneOrBeside, "sqlite")
def _alone_or_beside(element: expressions.AloneOrBeside, compiler: SQLCompiler, **kw: Any) -> str:
    return compiler.process(element.alone, **kw)


@compiles(expressions.NobodyHas, "sqlite")
def _nobody_has(_element: expressions.NobodyHas, _compiler: SQLCompiler, **_kw: Any) -> str:
    return "0"


@compiles(expressions.NoProcess, "sqlite")
def _no_process(_element: expressions.NoProcess, _compiler: SQLCompiler, **_kw: Any) -> str:
    return "0"


@compiles(named_batches.NamedInBatch, "sqlite")
def _named_in_batch(element: named_batches.NamedInBatch, compiler: SQLCompiler, **kw: Any) -> str:
    """By the index of both: it looks up each name, whatever it knows of the rows."""
    return compiler.process(element.meets, **kw)


@compiles(named_batches.InOrderOfNames, "sqlite")
def _in_order_of_names(element: named_batches.InOrderOfNames, compiler: SQLCompiler, **kw: Any) -> str:  # noqa: ARG001
    return "0"  # it goes by the best index anyway


@compiles(expressions.NotByKey, "sqlite")
def _not_by_key(element: expressions.NotByKey, compiler: SQLCompiler, **kw: Any) -> str:
    """The column: its planner takes the index all of whose columns are known."""
    return compiler.process(element.column, **kw)


@compiles(expressions.AsNumber, "sqlite")
def _as_number(element: expressions.AsNumber, compiler: SQLCompiler, **kw: Any) -> str:
    [condition] = element.clauses
    return compiler.process(condition.self_group(against=operators.add), **kw)


@compiles(statements.InPlaceOfPrefix, "sqlite")
def _in_place_of_prefix(_element: statements.InPlaceOfPrefix, _compiler: SQLCompiler, **_kw: Any) -> str:
    return ""


@compiles(expressions.Joined, "sqlite")
def _joined(element: expressions.Joined, compiler: SQLCompiler, **kw: Any) -> str:
    values, _by = element.clauses
    return f"group_concat({compiler.process(values, **kw)})"


@compiles(expressions.OfGreatest, "sqlite")
def _of_greatest(element: expressions.OfGreatest, compiler: SQLCompiler, **kw: Any) -> str:
    return compiler.process(element.column, **kw)
