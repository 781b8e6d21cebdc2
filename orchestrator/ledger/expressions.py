"""Expressions that SQL has no portable words for, each once: what is compiled as `statements.py` says."""

from typing import Any

from sqlalchemy import BOOLEAN, INTEGER, TEXT, ColumnElement, func, literal_column
from sqlalchemy.sql.elements import KeyedColumnElement, NamedColumn
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.visitors import InternalTraversal
from sqlalchemy.types import NULLTYPE


class _Function(FunctionElement[Any]):
    """A function whose type follows from its arguments; in a result SQLAlchemy calls it `name`."""

    _traverse_internals = [  # noqa: RUF012  # as SQLAlchemy has it
        *FunctionElement._traverse_internals,  # noqa: SLF001
        ("type", InternalTraversal.dp_type),
    ]


class Extreme(_Function):
    """The greatest, or the least, of several values of a row; NULL where one of them is."""

    inherit_cache = True

    def __init__(self, *values: Any) -> None:
        super().__init__(*values)
        types = [each.type for each in self.clauses if each.type is not NULLTYPE]
        self.type = next(iter(types), NULLTYPE)


class Greatest(Extreme):
    """See `greatest`."""

    name = "max"
    inherit_cache = True


class Least(Extreme):
    """See `least`."""

    name = "min"
    inherit_cache = True


def greatest(*values: Any) -> Any:
    """The largest one of several values; NULL where one of them is."""
    return Greatest(*values)


def least(*values: Any) -> Any:
    """The smallest one of several values; NULL where one of them is."""
    return Least(*values)


class Unindexed(ColumnElement[Any]):
    """See `unindexed`."""

    _traverse_internals = [("column", InternalTraversal.dp_clauseelement)]  # noqa: RUF012  # as SQLAlchemy has it

    def __init__(self, column: ColumnElement[Any]) -> None:
        self.column, self.type = column, column.type


def unindexed(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """The same column, of which no index is used: SQLite's planner knows too little of how many rows one leads to."""
    return Unindexed(column)


class NobodyBeside(ColumnElement[bool]):
    """See `nobody_beside`."""

    _traverse_internals = [("column", InternalTraversal.dp_clauseelement)]  # noqa: RUF012  # as SQLAlchemy has it

    def __init__(self, column: ColumnElement[bool]) -> None:
        self.column, self.type = column, column.type


def nobody_beside(condition: ColumnElement[bool]) -> ColumnElement[bool]:
    """The same condition, which says what others have written, where none of them can write in the same breath; where
    they can it is not met.
    """
    return NobodyBeside(condition)


class AloneOrBeside(ColumnElement[bool]):
    """See `alone_or_beside`."""

    _traverse_internals = [  # noqa: RUF012  # as SQLAlchemy has it
        ("alone", InternalTraversal.dp_clauseelement),
        ("beside", InternalTraversal.dp_clauseelement),
    ]

    def __init__(self, alone: ColumnElement[bool], beside: ColumnElement[bool]) -> None:
        self.alone, self.beside = alone, beside  # without a type: SQLite would be asked whether a truth value is 1


def alone_or_beside(alone: ColumnElement[bool], beside: ColumnElement[bool]) -> ColumnElement[bool]:
    """The condition `alone` where nobody else can write in the same breath, the one called `beside` where they can."""
    return AloneOrBeside(alone, beside)


class NotByKey(ColumnElement[Any]):
    """See `not_by_key`."""

    _traverse_internals = [("column", InternalTraversal.dp_clauseelement)]  # noqa: RUF012  # as SQLAlchemy has it

    def __init__(self, column: ColumnElement[Any]) -> None:
        self.column, self.type = column, column.type


def not_by_key(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """The same column, a number: what is sought is found in an index that ends with it, never by going along the
    primary key, as PostgreSQL's planner would. It believes that what is sought lies evenly among all rows.
    """
    return NotByKey(column)


def shard_of(endpoints: str = "endpoints") -> str:
    """SQL for the number of the shard of an endpoint, a row of that table or alias: its own number, until runs use it
    together with another one.
    """
    return f"coalesce({endpoints}.shard_id, {endpoints}.id)"


class NobodyHas(ColumnElement[bool]):
    """See `nobody_has`."""

    _traverse_internals = [("endpoint", InternalTraversal.dp_clauseelement)]  # noqa: RUF012  # as SQLAlchemy has it

    def __init__(self, endpoint: ColumnElement[Any]) -> None:
        self.endpoint, self.type = endpoint, BOOLEAN()


def nobody_has(endpoint: ColumnElement[Any]) -> ColumnElement[bool]:
    """Whether none of several processes has the endpoint of that number, though one could."""
    return NobodyHas(endpoint)


class NoProcess(ColumnElement[bool]):
    """See `no_process`."""

    _traverse_internals = [  # noqa: RUF012  # as SQLAlchemy has it
        ("number", InternalTraversal.dp_clauseelement),
        ("slot", InternalTraversal.dp_clauseelement),
    ]

    def __init__(self, number: ColumnElement[Any], slot: ColumnElement[Any]) -> None:
        self.number, self.slot, self.type = number, slot, BOOLEAN()


def no_process(number: ColumnElement[Any], slot: ColumnElement[Any]) -> ColumnElement[bool]:
    """Whether the process of that `number` in that `slot` is none of the ledger's any more, where there may be several;
    0 is the number of one that was there alone.
    """
    return NoProcess(number, slot)


class PlaceIn(_Function):
    """Where in its first argument the second one begins, from 1 on; 0 where it does not stand there."""

    name = "instr"
    type = INTEGER()
    inherit_cache = True


def contains(text_: Any, part: str) -> ColumnElement[bool]:
    """Whether `part`, whose letters of ASCII are small ones, is in `text_`, which may have capital ones."""
    return PlaceIn(func.lower(text_), part) > 0


class IsMet(_Function):
    """1 where a condition is met, 0 where it is not or that is unknown."""

    type = INTEGER()
    inherit_cache = True


def is_not_true(condition: ColumnElement[bool]) -> ColumnElement[bool]:
    """Whether `condition` is false or unknown."""
    return IsMet(condition) == literal_column("0")


class AsNumber(_Function):
    """See `as_number`."""

    type = INTEGER()
    inherit_cache = True


def as_number(condition: ColumnElement[bool]) -> ColumnElement[int]:
    """1 where `condition` is met, 0 where it is not, NULL where that is unknown."""
    return AsNumber(condition)


class Joined(_Function):
    """See `joined`."""

    name = "group_concat"
    type = TEXT()
    inherit_cache = True


def joined(values: ColumnElement[str], by: ColumnElement[Any]) -> ColumnElement[str]:
    """The texts of a group with commas between them, in the order of `by`, in which SQLite has to get the rows."""
    return Joined(values, by)


class OfGreatest(NamedColumn[Any]):
    """See `of_greatest`."""

    _traverse_internals = [  # noqa: RUF012  # as SQLAlchemy has it
        ("column", InternalTraversal.dp_clauseelement),
        ("by", InternalTraversal.dp_clauseelement),
    ]

    def __init__(self, column: KeyedColumnElement[Any], by: ColumnElement[Any]) -> None:
        self.column, self.by, self.type, self.name = column, by, column.type, column.key


def of_greatest(column: KeyedColumnElement[Any], by: ColumnElement[Any]) -> ColumnElement[Any]:
    """What stands in `column` where `by` is the greatest of a group, of which `max(by)` has to be asked, too.

    SQLite gives columns beside one max() from the row that has the maximum (sqlite.org, "Bare columns in an aggregate
    query").
    """
    return OfGreatest(column, by)
