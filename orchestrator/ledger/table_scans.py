"""A whole table, read some rows at a time: how each database goes about it stands in its room."""

from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, Protocol

from sqlalchemy import ColumnElement, LargeBinary, Select, Table, func, literal_column, select
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.ledger.statements import CarriedOut
from orchestrator.units import MIB

Row = tuple[Any, ...]


class GivesPages(Protocol):
    """How one database goes through a whole table."""

    def pages(self, connection: AsyncConnection) -> AsyncIterator[Sequence[Row]]: ...


class TableScan(CarriedOut[GivesPages]):
    """All rows of a table in the order of its key, which is the same in each database."""

    def __init__(self, table: Table) -> None:
        super().__init__()
        self.table = table

    @property
    def rows(self) -> Select[Any]:
        """The question for them."""
        return self._ordered(*self.table.columns)

    @property
    def sizes(self) -> Select[Any] | None:
        """The question for how many bytes each has that may be large, in the same order; None where none can be."""
        nothing: ColumnElement[Any] = literal_column("0")
        large = [func.length(each) for each in self.table.columns if isinstance(each.type, LargeBinary)]
        return self._ordered(sum((func.coalesce(each, nothing) for each in large), nothing)) if large else None

    def _ordered(self, *columns: ColumnElement[Any]) -> Select[Any]:
        return select(*columns).select_from(self.table).order_by(*self.table.primary_key)

    def pages(self, connection: AsyncConnection) -> AsyncIterator[Sequence[Row]]:
        """Some rows at a time, whose size is bounded, unless it is a single one."""
        return self._body(connection).pages(connection)


PAGE_ROWS: Final = 5_000
PAGE_BYTES: Final = 8 * MIB


def page_rows(sizes: Sequence[int]) -> int:
    """How many of the next rows, which have these sizes, make a page."""
    total = 0
    for n, size in enumerate(sizes):
        total += size
        if n and total > PAGE_BYTES:
            return n
    return len(sizes)
