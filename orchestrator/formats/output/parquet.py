"""Outcomes as Parquet, a row group at a time.

A member that has a column of its own gives it its type, which is known once all rows are: such rows wait in a temporary
file until then, so that memory stays flat. Numbers stay what they are: whole ones have 64 bits, and a column that has
others besides is of doubles only if each whole number is one.
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Any, BinaryIO, Final

import msgspec

from orchestrator.formats.input.parquet import pyarrow
from orchestrator.formats.output.columns import Cell, CellKind, Column, Columns, kind_of_cell
from orchestrator.formats.output.outcome_lines import WrittenOutcome
from orchestrator.formats.output.text import misfit
from orchestrator.formats.text.compression import Sink
from orchestrator.settings.words_and_defaults import OnMisfit
from orchestrator.units import MIB

GROUP_ROWS: Final = 20_000
GROUP_BYTES: Final = 16 * MIB
"""A row group has so many rows, and so many bytes of them, at most."""

SPOOL_BYTES: Final = 4 * MIB
"""So much waits in memory before there is a temporary file."""

_INT_BITS: Final = 63
_DOUBLE_BITS: Final = 53
_LENGTH_BYTES: Final = 4

_string: Final = msgspec.json.Decoder(str)
_cells_in: Final = msgspec.msgpack.Decoder(list)
_cells_out: Final = msgspec.msgpack.Encoder().encode


class ParquetKind(Enum):
    """What the values of a column are."""

    NONE = "null"
    BOOL = "bool"
    INT = "int64"
    FLOAT = "float64"
    TEXT = "string"
    JSON = "json"


class ColumnType:
    """The type of a column, as far as its values are known."""

    def __init__(self) -> None:
        self.kind = ParquetKind.NONE
        self._is_exact = True
        """Whether each whole number so far is a double."""

    def take(self, text: bytes) -> str | None:
        """One more value, as JSON; why it does not fit to those before, if it does not."""
        if self.kind is ParquetKind.JSON or text == b"null":
            return None
        found = _kind(text)
        if found is None:
            return f"is {kind_of_cell(text)}, and a column has values of one type, which is none of these"
        kind, is_double = found
        numbers = {self.kind, kind} == {ParquetKind.INT, ParquetKind.FLOAT}
        if numbers and self._is_exact and is_double:
            kind = ParquetKind.FLOAT
        elif self.kind not in (ParquetKind.NONE, kind):
            also = " that no double can hold beside parts of a whole" if numbers else ""
            return f"is {kind_of_cell(text)}{also}, and the rows before have {self.kind.value}"
        self.kind = kind
        self._is_exact = self._is_exact and is_double
        return None

    def value(self, text: bytes | None) -> object:
        """The value that stands in the column."""
        if text is None or text == b"null":
            return None
        match self.kind:
            case ParquetKind.BOOL:
                return text == b"true"
            case ParquetKind.INT:
                return int(text)
            case ParquetKind.FLOAT:
                return float(text)
            case ParquetKind.TEXT:
                return _string.decode(text)
            case _:
                return text.decode()


def _kind(text: bytes) -> tuple[ParquetKind, bool] | None:
    """What a JSON text is, and whether a double holds it; None where no column does."""
    match text[:1]:
        case b'"':
            return ParquetKind.TEXT, False
        case b"t" | b"f":
            return ParquetKind.BOOL, False
        case b"{" | b"[":
            return None
        case _ if text.lstrip(b"-").isdigit():
            if len(text) > _INT_BITS:
                return None
            number = int(text)
            is_held = -(1 << _INT_BITS) <= number < 1 << _INT_BITS
            return (ParquetKind.INT, abs(number) <= 1 << _DOUBLE_BITS) if is_held else None
        case _:
            return None if float(text) in (float("inf"), float("-inf")) else (ParquetKind.FLOAT, True)


class ParquetSink:
    """Rows on their way into Parquet files, of which `open_part` gives one after the other: each for `split` rows."""

    def __init__(
        self,
        columns: Columns,
        open_part: Callable[[], Callable[[bytes], object]],
        split: int | None,
        on_misfit: OnMisfit,
    ) -> None:
        self._pa, self._parquet = pyarrow()
        self._columns = columns
        self._open_part = open_part
        self._split = split
        self._on_misfit = on_misfit
        self._types = [ColumnType() if column.holds is CellKind.ANY else None for column in columns.all]
        self._spool: BinaryIO | None = None
        if any(self._types):
            self._spool = tempfile.SpooledTemporaryFile(SPOOL_BYTES)  # type: ignore[assignment]  # noqa: SIM115
        self._writer: Any = None
        self._is_begun = False
        self._left = 0
        self._group: list[list[Cell]] = []
        self._group_bytes = 0

    def write(self, outcome: WrittenOutcome) -> None:
        """One more row. Raises `MisfitError`."""
        cells = self._columns.cells(outcome)
        for column, kind, cell in zip(self._columns.all, self._types, cells, strict=True):
            if kind is None or not isinstance(cell, bytes):
                continue
            if why := kind.take(cell):
                if self._on_misfit is OnMisfit.ERROR:
                    raise misfit(outcome, f"{column.name} {why}")
                kind.kind = ParquetKind.JSON
        if self._spool is None:
            self._add(cells)
        else:
            row = _cells_out(cells)
            self._spool.write(len(row).to_bytes(_LENGTH_BYTES, "big") + row)

    def finish(self) -> None:
        """Nothing comes after."""
        if self._spool is not None:
            self._spool.seek(0)
            for cells in _spooled(self._spool):
                self._add(cells)
        if not self._is_begun:
            self._begin()
        if self._writer is not None:
            self._end()

    def abandon(self) -> None:
        """What was begun is left as it is."""
        self._group.clear()
        if self._writer is not None:
            self._writer.close()
        if self._spool is not None:
            self._spool.close()

    def _add(self, cells: list[Cell]) -> None:
        if self._writer is None:
            self._begin()
        self._group.append(cells)
        self._group_bytes += sum(len(cell) for cell in cells if isinstance(cell, str | bytes))
        self._left -= 1
        if len(self._group) >= GROUP_ROWS or self._group_bytes >= GROUP_BYTES:
            self._put_group()
        if self._left == 0:
            self._end()

    def _begin(self) -> None:
        self._is_begun = True
        self._left = self._split or -1
        sink = self._pa.PythonFile(Sink(self._open_part()), mode="w")
        self._writer = self._parquet.ParquetWriter(sink, self._schema(), compression="zstd")

    def _end(self) -> None:
        self._put_group()
        self._writer.close()
        self._writer = None

    def _put_group(self) -> None:
        if not self._group:
            return
        group, self._group, self._group_bytes = self._group, [], 0
        schema = self._writer.schema
        arrays = [
            self._pa.array(_values(column, kind, cells), type=field.type)
            for column, kind, cells, field in zip(
                self._columns.all, self._types, zip(*group, strict=True), schema, strict=True
            )
        ]
        self._writer.write_table(self._pa.Table.from_arrays(arrays, schema=schema))

    def _schema(self) -> Any:
        return self._pa.schema(
            [
                (column.name, self._type(column, kind))
                for column, kind in zip(self._columns.all, self._types, strict=True)
            ]
        )

    def _type(self, column: Column, kind: ColumnType | None) -> Any:
        if kind is None:
            return self._pa.int64() if column.holds is CellKind.COUNT else self._pa.string()
        types = {ParquetKind.BOOL: self._pa.bool_, ParquetKind.INT: self._pa.int64, ParquetKind.FLOAT: self._pa.float64}
        return types.get(kind.kind, self._pa.string)()


def _values(column: Column, kind: ColumnType | None, cells: Sequence[Cell]) -> list[object]:
    if kind is not None:
        return [kind.value(cell if isinstance(cell, bytes) else None) for cell in cells]
    if column.holds is CellKind.JSON:
        return [cell.decode() if isinstance(cell, bytes) else None for cell in cells]
    return list(cells)


def _spooled(file: BinaryIO) -> Iterator[list[Cell]]:
    while length := file.read(_LENGTH_BYTES):
        yield _cells_in.decode(file.read(int.from_bytes(length, "big")))
