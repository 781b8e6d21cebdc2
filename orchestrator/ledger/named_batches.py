"""Rows that are called as the texts of a batch, found name by name: how each database is told so stands in its room."""

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import (
    BindParameter,
    Column,
    ColumnElement,
    CursorResult,
    Executable,
    Select,
    and_,
    literal_column,
    select,
    true,
)
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.visitors import InternalTraversal

from orchestrator.ledger.statements import TEXTS, TEXTS_IN_BATCH


class NamedInBatch(ColumnElement[bool]):
    """See `named_in_batch`."""

    _traverse_internals = [  # noqa: RUF012  # as SQLAlchemy has it
        ("number", InternalTraversal.dp_clauseelement),
        ("meets", InternalTraversal.dp_clauseelement),
        ("numbers", InternalTraversal.dp_clauseelement),
    ]

    def __init__(self, key: Column[int], group: Column[int], given: BindParameter[int], name: Column[str]) -> None:
        self.number = key
        self.meets = and_(group == given, name.in_(TEXTS_IN_BATCH))
        rows = key.table.alias("named").columns
        named = select(rows[key.name]).where(
            rows[group.name] == given, rows[name.name].between(TEXTS.c.value, TEXTS.c.value)
        )
        found = named.order_by(rows[name.name]).limit(literal_column("1")).lateral("found")
        self.numbers: Select[Any] = select(found.c[key.name]).select_from(TEXTS.join(found, true()))


def named_in_batch(key: Column[int], group: Column[int], given: BindParameter[int], name: Column[str]) -> NamedInBatch:
    """Whether a row is of the `given` group and is called as a text of the batch says; no two of a group are called so.
    A question with it is asked by `found_by_name`.

    PostgreSQL is told for each name to go to its place in the index of both. Its planner believes that of a group of
    which it has no statistics there are hardly any rows, and would go through all of them for each name.
    """
    return NamedInBatch(key, group, given, name)


class InOrderOfNames(ColumnElement[str]):
    """What makes a database go by the index that has the order which a statement asks for."""

    inherit_cache = True


_IN_ORDER_OF_NAMES: Final = select(InOrderOfNames())


async def found_by_name(
    connection: AsyncConnection, question: Executable, parameters: Mapping[str, Any]
) -> CursorResult[*tuple[Any, ...]]:
    """What a question with `named_in_batch` is answered.

    Nothing is sorted any more in the transaction, so that only the index of the names is left, which has their order;
    and what was found best when there were few rows is not kept.
    """
    await connection.execute(_IN_ORDER_OF_NAMES)
    return await connection.execute(question, parameters)
