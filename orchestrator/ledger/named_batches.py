"""Rows that are called as the texts of a batch, found name by name: how each database is told so stands in its room."""

from typing import Any

from sqlalchemy import BindParameter, Column, ColumnElement, Select, and_, literal_column, select
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
        first = select(rows[key.name], rows[name.name]).where(
            rows[group.name] == given, rows[name.name] >= TEXTS.c.value
        )
        nearest = first.order_by(rows[name.name]).limit(literal_column("1")).lateral("nearest")
        met = nearest.c[name.name] == TEXTS.c.value
        self.numbers: Select[Any] = select(nearest.c[key.name]).select_from(TEXTS.join(nearest, met))


def named_in_batch(key: Column[int], group: Column[int], given: BindParameter[int], name: Column[str]) -> NamedInBatch:
    """Whether a row is of the `given` group and is called as a text of the batch says; no two of a group are called so.

    PostgreSQL is told for each name to go to its place in the index of both. Its planner believes that of a group of
    which it has no statistics there are hardly any rows, and would go through all of them for each batch.
    """
    return NamedInBatch(key, group, given, name)
