"""How SQLite says what portable SQL cannot, each thing once: batches, upserts, bulk statements, hints, kinds of tables.

A batch is one bound JSON text, whatever number of rows it has: one statement, compiled once, for any of them.
"""

import re
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain
from operator import itemgetter
from typing import Any, Final, NamedTuple

import msgspec
from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Insert,
    Select,
    Table,
    Update,
    bindparam,
    func,
    insert,
    literal_column,
    select,
    text,
    update,
)
from sqlalchemy.dialects import sqlite
from sqlalchemy.dialects.sqlite import insert as insert_or
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.ledger.sqlite.connection import driver_of

ROWS_AT_ONCE: Final = 16
"""Rows that one INSERT takes: two fifths less than an INSERT for each, and more rows gain nothing more (measured)."""

GUARDED_AT_ONCE: Final = 40
"""Rows that one guarded UPDATE takes: between two statements the event loop may have to wait for the interpreter."""

GUARDED_APART_MAX: Final = 4
"""So few rows are updated one by one."""

# --- batches

BATCH: Final = func.json_each(bindparam("batch")).table_valued("value")
"""The rows of the statement's batch, to be joined to."""

ORDERED_BATCH: Final = func.json_each(bindparam("batch")).table_valued("key", "value")
"""The rows of a batch of single values (`value`) with their positions (`key`)."""

IN_BATCH: Final[Select[tuple[Any]]] = select(BATCH.c.value)
"""The values of a batch of single values, for `in_`."""


def field(position: int) -> Any:
    """A value of the batch's row, which is a sequence."""
    return func.json_extract(BATCH.c.value, f"$[{position}]")


def batch_of(rows: Iterable[object]) -> dict[str, Any]:
    """The parameter of a statement that speaks of a batch: single values, or sequences of them."""
    return {"batch": msgspec.json.encode(list(rows)).decode()}


class Among:
    """A query of all rows, or of those alone whose `column` is among some values; `of` each of them what is asked."""

    def __init__(
        self, query: Select[Any], column: Any, of: Callable[[Select[Any]], Select[Any]] = lambda rows: rows
    ) -> None:
        self._all, self._some = of(query), of(query.where(column.in_(IN_BATCH)))

    def of(self, among: Iterable[object] | None) -> tuple[Select[Any], Any]:
        """The statement and its parameters; None for all rows."""
        return (self._all, None) if among is None else (self._some, batch_of(among))


# --- inserts


def upsert(table: Table, change: Callable[[Any], Mapping[str, Any]]) -> Insert:
    """An INSERT that, where the primary key is there already, changes its row: `change` gets the new row's columns."""
    new = insert_or(table)
    return new.on_conflict_do_update(index_elements=list(table.primary_key.columns), set_=change(new.excluded))


def insert_new(table: Table) -> Insert:
    """An INSERT that leaves alone what is there already."""
    return insert(table).prefix_with("OR IGNORE")


def replace_into(table: Table) -> Insert:
    """An INSERT that takes the place of what is there already."""
    return insert(table).prefix_with("OR REPLACE")


def update_over(table: Table) -> Update:
    """An UPDATE whose rows take the place of what has their key already."""
    return update(table).prefix_with("OR REPLACE")


class Many:
    """A statement that is executed for each of many rows, which are mappings.

    The driver gets plain tuples: what SQLAlchemy does for each row costs more than what SQLite does (measured: a fifth
    of a step's whole cost). `columns` are those that an INSERT sets. It is compiled once it is needed: whoever only
    looks at a ledger never does.
    """

    def __init__(self, statement: Insert | Update, *columns: str) -> None:
        self._statement, self._columns = statement, columns

    async def execute(self, connection: AsyncConnection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Executes it for each of `rows`."""
        sql, sql_at_once, tuple_of = self._compiled
        tuples = [tuple_of(row) for row in rows]
        together = len(tuples) - len(tuples) % ROWS_AT_ONCE
        if sql_at_once is not None and together > ROWS_AT_ONCE:  # a single one would be waited for
            starts = range(0, together, ROWS_AT_ONCE)
            chunks = [tuple(chain.from_iterable(tuples[start : start + ROWS_AT_ONCE])) for start in starts]
            await connection.exec_driver_sql(sql_at_once, chunks)
            tuples = tuples[together:]
        if tuples:
            await connection.exec_driver_sql(sql, tuples)

    @cached_property
    def _compiled(self) -> tuple[str, str | None, Callable[[Mapping[str, Any]], tuple[Any, ...]]]:
        """The statement, an INSERT of many rows at once, and what makes the driver's tuple of a row."""
        compiled = self._statement.compile(dialect=sqlite.dialect(), column_keys=self._columns)
        assert compiled.positiontup is not None
        sql, tuple_of = str(compiled), itemgetter(*compiled.positiontup)
        if not isinstance(self._statement, Insert):
            return sql, None, tuple_of
        row = f"({', '.join('?' * len(compiled.positiontup))})"
        assert sql.endswith(f"VALUES {row}")
        return sql, sql + f", {row}" * (ROWS_AT_ONCE - 1), tuple_of


class Guarded:
    """An UPDATE that is executed for each of many rows, and may find a row no more as it was.

    Its parameters are `place(0)`, `place(1)` … of a row. Each of a whole batch's values picked out of its text takes
    twice as long (measured: 8.2 us for a row of 17 values, and 3.2 so), and one statement for each row lets go of the
    interpreter for each.
    """

    def __init__(self, statement: Update) -> None:
        self._statement = statement

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
        places = [int(name.removeprefix(_PLACE)) for name in compiled.positiontup]
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


_PLACE: Final = "place_"


def placeholder(position: int) -> BindParameter[Any]:
    """A value of the row that a `Guarded` statement is executed for."""
    return bindparam(f"{_PLACE}{position}")


class BulkInsert:
    """An INSERT of rows that are tuples already: handed to the driver as they are, they cost half of what rows cost."""

    def __init__(self, table: Table, *columns: str) -> None:
        self._sql = str(insert(table).compile(dialect=sqlite.dialect(), column_keys=columns))

    async def execute(self, connection: AsyncConnection, rows: Sequence[tuple[Any, ...]]) -> None:
        """Executes it for each of `rows`, which have `columns` in the order of the table."""
        await connection.exec_driver_sql(self._sql, list(rows))


# --- expressions


def without_index(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """The same column (of a table, by its name there), of which no index is used.

    SQLite's planner knows too little of how many rows an index leads to.
    """
    return literal_column(f"+{column}", type_=column.type)


def lesser(one: Any, other: Any) -> Any:
    """The smaller one of two values."""
    return func.min(one, other)


def greatest(*values: Any) -> Any:
    """The largest one of several values."""
    return func.max(*values)


def contains(text_: Any, part: str) -> ColumnElement[bool]:
    """Whether `part`, whose letters of ASCII are small ones, is in `text_`, which may have capital ones."""
    return func.instr(func.lower(text_), part) > 0


def is_not_true(condition: ColumnElement[bool]) -> ColumnElement[bool]:
    """Whether `condition` is false or unknown."""
    return func.coalesce(condition, literal_column("0")) == literal_column("0")


# --- tables

KEPT_BY_KEY: Final[dict[str, Any]] = {"sqlite_with_rowid": False}
"""A table whose rows lie in the order of its primary key, and have no number beside it."""

NO_NUMBER_TWICE: Final[dict[str, Any]] = {"sqlite_autoincrement": True}
"""A table in which the number of a row that was removed does not come back."""


def only_where(condition: str) -> dict[str, Any]:
    """An index of the rows that meet `condition`."""
    return {"sqlite_where": text(condition)}
