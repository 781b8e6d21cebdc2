"""What SQL has no portable words for, each thing once: batches, upserts, statements for many rows, kinds of tables;
single expressions are in `expressions.py`.

How a database says each thing stands in its room, as `ledger/sqlite/statements.py`:

- a clause is compiled there, by the dialect of the engine that executes it: by a form (`compile_functions`) where
  that is enough, else by code of its own (`@compiles`);
- what is executed in a way of its own (`Many`, `Guarded`, `BulkInsert`, `NumberSequence`) is carried out by a *body*, a
  class that is registered with `body_of` and is chosen where it executes.

A batch is one bound text, a JSON array, whatever number of rows it has: one statement, compiled once, for any of them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec
from sqlalchemy import (
    INTEGER,
    TEXT,
    BindParameter,
    ClauseElement,
    Column,
    Insert,
    Select,
    Table,
    Update,
    bindparam,
    column,
    insert,
    select,
    text,
)
from sqlalchemy.dialects.sqlite.dml import OnConflictDoNothing, OnConflictDoUpdate
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.visitors import InternalTraversal
from sqlalchemy.types import TypeEngine

# --- functions in the words of a database


def compile_functions(dialect: str, forms: Mapping[type[FunctionElement[Any]], str]) -> None:
    """Has functions of these kinds compiled in `dialect`, each by its form, in which `{}` stands for its arguments."""
    for kind, form in forms.items():
        compiles(kind, dialect)(partial(_filled_form, form))


def _filled_form(form: str, element: Any, compiler: SQLCompiler, **kw: Any) -> str:
    return form.format(compiler.process(element.clauses, **kw))


# --- batches


class _Batch(FunctionElement[Any]):
    """The rows of the statement's batch as a table of single values, each with its position (from 0 on)."""

    inherit_cache = True


class Numbers(_Batch):
    """A batch of whole numbers."""

    inherit_cache = True


class Texts(_Batch):
    """A batch of texts."""

    inherit_cache = True


class Rows(_Batch):
    """A batch of sequences of values; a value is a `field` of its row."""

    inherit_cache = True


class BatchText(TEXT):
    """The text that a batch is sent as: of JSON, whatever is in it."""


_GIVEN: Final = bindparam("batch", type_=BatchText())

NUMBERS: Final = Numbers(_GIVEN).table_valued(column("key", INTEGER), column("value", INTEGER))
"""A batch of whole numbers (`value`) with their positions (`key`), to be joined to."""

TEXTS: Final = Texts(_GIVEN).table_valued(column("value", TEXT))
"""A batch of texts (`value`), to be joined to."""

ROWS: Final = Rows(_GIVEN).table_valued(column("value"))
"""A batch of sequences, to be joined to."""

IN_BATCH: Final[Select[tuple[Any]]] = select(NUMBERS.c.value)
"""The whole numbers of a batch, for `in_`."""

TEXTS_IN_BATCH: Final[Select[tuple[Any]]] = select(TEXTS.c.value)
"""The texts of a batch, for `in_`."""


class Field(FunctionElement[Any]):
    """A value of the batch's row; SQLite is told its `path` there."""

    name = "json_extract"
    _traverse_internals = [  # noqa: RUF012  # as SQLAlchemy has it
        *FunctionElement._traverse_internals,  # noqa: SLF001
        ("type", InternalTraversal.dp_type),
        ("position", InternalTraversal.dp_plain_obj),
    ]

    def __init__(self, position: int, type_: TypeEngine[Any]) -> None:
        super().__init__(ROWS.c.value, f"$[{position}]")
        self.position, self.type = position, type_


def field(position: int, type_: type[TypeEngine[Any]] = INTEGER) -> Any:
    """A value of the batch's row, which is a sequence; a whole number, if `type_` does not say otherwise."""
    return Field(position, type_())


def batch_of(rows: Iterable[object]) -> dict[str, Any]:
    """The parameter of a statement that speaks of a batch: single values, or sequences of them."""
    return {_GIVEN.key: msgspec.json.encode(list(rows)).decode()}


class Among:
    """A query of all rows, or of those alone whose `column`, a whole number, is among some; `of` each of them what is
    asked.
    """

    def __init__(
        self, query: Select[Any], column: Any, of: Callable[[Select[Any]], Select[Any]] = lambda rows: rows
    ) -> None:
        self._all, self._some = of(query), of(query.where(column.in_(IN_BATCH)))

    def of(self, among: Iterable[object] | None) -> tuple[Select[Any], Any]:
        """The statement and its parameters; None for all rows."""
        return (self._all, None) if among is None else (self._some, batch_of(among))


# --- inserts


class _OnConflictUpdate(OnConflictDoUpdate):
    """SQLAlchemy's clause for SQLite, which is compiled for PostgreSQL alike."""

    inherit_cache = True
    constraint_target = None


class _OnConflictNothing(OnConflictDoNothing):
    """The same, of the other clause."""

    inherit_cache = True
    constraint_target = None


class InPlaceOfPrefix(ClauseElement):
    """The `clause` of an INSERT that SQLite is told by a prefix, `OR IGNORE` or `OR REPLACE`."""

    _traverse_internals = [("clause", InternalTraversal.dp_clauseelement)]  # noqa: RUF012  # as SQLAlchemy has it

    def __init__(self, clause: ClauseElement) -> None:
        self.clause = clause


class _PrefixedInsert(Insert):
    inherit_cache = True

    def __init__(self, table: Table, clause: ClauseElement) -> None:
        super().__init__(table)
        self._post_values_clause = InPlaceOfPrefix(clause)


def upsert(table: Table, change: Callable[[Any], Mapping[str, Any]]) -> Insert:
    """An INSERT that, where the primary key is there already, changes its row: `change` gets the new row's columns."""
    return insert(table).ext(_on_key(table, change))


def insert_new(table: Table) -> Insert:
    """An INSERT that leaves alone what is there already."""
    return _PrefixedInsert(table, _OnConflictNothing()).prefix_with("OR IGNORE", dialect="sqlite")


def replace_into(table: Table) -> Insert:
    """An INSERT that takes the place of what has its primary key already."""
    key = table.primary_key.columns
    clause = _on_key(table, lambda new: {each.name: new[each.name] for each in table.c if each.name not in key})
    return _PrefixedInsert(table, clause).prefix_with("OR REPLACE", dialect="sqlite")


def _on_key(table: Table, change: Callable[[Any], Mapping[str, Any]]) -> _OnConflictUpdate:
    new = table.alias("excluded").columns
    return _OnConflictUpdate(index_elements=list(table.primary_key.columns), set_=dict(change(new)))


# --- what is executed in a way of the database

_BODIES: Final[dict[tuple[type, str], Callable[[Any], Any]]] = {}

Body = TypeVar("Body")
Made = TypeVar("Made", bound=Callable[[Any], Any])


def body_of(kind: type, dialect: str) -> Callable[[Made], Made]:
    """Registers the class below: made of something of this `kind`, it carries that out in `dialect`."""

    def register(made: Made) -> Made:
        _BODIES[kind, dialect] = made
        return made

    return register


class CarriedOut(Generic[Body]):
    """What is carried out by a body, of which it has one for each dialect that has come up."""

    def __init__(self) -> None:
        self._bodies: dict[str, Body] = {}

    def _body(self, connection: AsyncConnection) -> Body:
        dialect = connection.dialect.name
        body = self._bodies.get(dialect)
        if body is None:
            body = self._bodies[dialect] = _BODIES[type(self), dialect](self)
        return body


Row_contra = TypeVar("Row_contra", contravariant=True)
Result_co = TypeVar("Result_co", covariant=True)


class ForEachRow(Protocol[Row_contra, Result_co]):
    """How one database carries out a statement that is executed for each of many rows."""

    async def execute(self, connection: AsyncConnection, rows: Sequence[Row_contra]) -> Result_co: ...


class _ForEachRow(CarriedOut[ForEachRow[Row_contra, Result_co]]):
    async def execute(self, connection: AsyncConnection, rows: Sequence[Row_contra]) -> Result_co:
        """Executes it for each of `rows`."""
        return await self._body(connection).execute(connection, rows)


class Many(_ForEachRow[Mapping[str, Any], None]):
    """A statement that is executed for each of many rows, which are mappings.

    The driver gets plain tuples: what SQLAlchemy does for each row costs more than what SQLite does (measured: a fifth
    of a step's whole cost). `columns` are those that an INSERT sets. It is compiled once it is needed: whoever only
    looks at a ledger never does.
    """

    def __init__(self, statement: Insert | Update, *columns: str) -> None:
        super().__init__()
        self.statement, self.columns = statement, columns


class Guarded(_ForEachRow[tuple[Any, ...], list[bool]]):
    """An UPDATE that is executed for each of many rows, and may find a row no more as it was.

    The rows are of plain values, and about a row each; its parameters are `placeholder(0)`, `placeholder(1)` … of one.
    Returned is whether each changed its row.
    """

    def __init__(self, statement: Update) -> None:
        super().__init__()
        self.statement = statement


_PLACE: Final = "place_"


def placeholder(position: int) -> BindParameter[Any]:
    """A value of the row that a `Guarded` statement is executed for."""
    return bindparam(f"{_PLACE}{position}")


def position_of(name: str) -> int:
    """Which value of the row the parameter `name` of a `Guarded` statement is."""
    return int(name.removeprefix(_PLACE))


class BulkInsert(_ForEachRow[tuple[Any, ...], None]):
    """An INSERT of rows that are tuples already: handed to the driver as they are, they cost half of what rows cost.

    They have `columns` in the order of the table.
    """

    def __init__(self, table: Table, *columns: str) -> None:
        super().__init__()
        self.table, self.columns = table, columns


class GivesNumbers(Protocol):
    """How one database gives the numbers of new rows."""

    async def following(self, connection: AsyncConnection) -> int: ...

    async def take(self, connection: AsyncConnection, number: int, at_least: int) -> Sequence[int]: ...

    async def go_on_at(self, connection: AsyncConnection, number: int) -> None: ...


class NumberSequence(CarriedOut[GivesNumbers]):
    """The numbers of the rows of a table, for those who have to know them before there are the rows."""

    def __init__(self, column: Column[int]) -> None:
        super().__init__()
        self.column = column

    async def following(self, connection: AsyncConnection) -> int:
        """No row that comes gets a smaller number."""
        return await self._body(connection).following(connection)

    async def take(self, connection: AsyncConnection, number: int, *, at_least: int = 0) -> Sequence[int]:
        """So many numbers in their order, for rows of this transaction. Between them there may be others.

        They are `at_least` so large where that is what was `following` before rows were removed.
        """
        return await self._body(connection).take(connection, number, at_least)

    async def go_on_at(self, connection: AsyncConnection, number: int) -> None:
        """The next row gets this number, of a table into which rows were copied that had numbers already."""
        await self._body(connection).go_on_at(connection, number)


# --- tables

KEPT_BY_KEY: Final[dict[str, Any]] = {"sqlite_with_rowid": False}
"""A table whose rows lie in the order of its primary key, and have no number beside it."""

NO_NUMBER_TWICE: Final[dict[str, Any]] = {"sqlite_autoincrement": True}
"""A table in which the number of a row that was removed does not come back."""


def only_where(condition: str) -> dict[str, Any]:
    """An index of the rows that meet `condition`; who makes tables elsewhere takes it from there, too.

    SQLAlchemy would load each other dialect whose name stands here.
    """
    return {"sqlite_where": text(condition)}
