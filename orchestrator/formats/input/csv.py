"""Reading tables of text, CSV and TSV: the first line names the columns, and each one after it is a record.

Cells are text, unless a column has a type of its own: `int`, `float`, `bool` or `json`, of which an empty cell is null.
"""

import csv
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Final

import msgspec

from orchestrator.core.text.name_match import nearest
from orchestrator.formats.input.lines import Overlong, bounded_lines
from orchestrator.formats.input.rows import InputRecord, RowProblem
from orchestrator.formats.input.unsupported import not_text
from orchestrator.formats.text.json_text import json_problem
from orchestrator.settings.words_and_defaults import CellType

COLUMNS_MAX: Final = 10_000

_BYTE_ORDER_MARK: Final = "\ufeff"
_BOOLS: Final = {**dict.fromkeys(("true", "1", "yes"), True), **dict.fromkeys(("false", "0", "no"), False)}


def csv_records(
    stream: BinaryIO, *, delimiter: str | None = None, types: Mapping[str, CellType] | None = None, bytes_max: int
) -> Iterator[InputRecord | RowProblem]:
    """The records of the table in `stream`, with a `RowProblem` in place of each that is none.

    A `delimiter` that is not given is the comma, or, where the first line has none, the semicolon that stands in it.
    No line and no cell may be longer than `bytes_max`.
    """
    lines = _Lines(stream, bytes_max)
    first = next(lines, "")
    csv.field_size_limit(bytes_max)
    try:
        names = next(csv.reader([first], delimiter=delimiter or _delimiter_of(first), strict=True), [])
    except csv.Error as error:
        yield RowProblem(line=1, text=_words(error))
        return
    if told := lines.problem or header_problem(names):
        yield told if isinstance(told, RowProblem) else RowProblem(line=1, text=told)
        return
    convert = [(names.index(name), CONVERSIONS[kind]) for name, kind in (types or {}).items() if name in names]
    if unknown := [name for name in types or {} if name not in names]:
        near = nearest(unknown[0], names)
        advice = "" if near is None else f"did you mean {near!r}? "
        named = f"the first line names {', '.join(names)[:200]}"
        yield RowProblem(line=1, text=f"there is no column {unknown[0]!r}; {advice}{named}")
        return
    reader = csv.reader(lines, delimiter=delimiter or _delimiter_of(first), strict=True)
    while True:
        begin = lines.number + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            yield RowProblem(line=begin, text=f"{_words(error)}; what comes behind it was not read")
            return
        if lines.problem is not None:
            yield lines.problem
            return
        if cells is None:
            return
        if cells:
            yield _record(begin, names, cells, convert)


class _Lines:
    """The lines of a stream as text, until one cannot be taken."""

    def __init__(self, stream: BinaryIO, bytes_max: int) -> None:
        self._lines = bounded_lines(stream, bytes_max)
        self.number = 0
        self.problem: RowProblem | None = None

    def __iter__(self) -> "_Lines":
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self.number += 1
        try:
            if isinstance(line, Overlong):
                self._tell("too long; what comes behind it was not read")
                raise StopIteration
            if self.number == 1 and (told := not_text(line)):
                self._tell(told)
                raise StopIteration
            text = line.decode()
        except UnicodeDecodeError as error:
            self._tell(f"not valid UTF-8: byte 0x{error.object[error.start]:02x}; save the file as UTF-8")
            raise StopIteration from None
        return text.removeprefix(_BYTE_ORDER_MARK) if self.number == 1 else text

    def _tell(self, text: str) -> None:
        self.problem = RowProblem(line=self.number, text=text)


def _delimiter_of(first: str) -> str:
    return ";" if ";" in first and "," not in first else ","


def header_problem(names: Sequence[str]) -> str | None:
    """Why these cannot be the names of columns."""
    if not names:
        return "the first line must name the columns"
    if len(names) > COLUMNS_MAX:
        return f"{len(names):,} columns; {COLUMNS_MAX:,} are possible"
    if "" in names:
        return f"column {names.index('') + 1} has no name; the first line must name the columns"
    [(name, times)] = Counter(names).most_common(1)
    return f"{times} columns are called {name!r}; each needs a name of its own" if times > 1 else None


def _record(
    line: int, names: Sequence[str], cells: list[Any], convert: Sequence[tuple[int, "Conversion"]]
) -> InputRecord | RowProblem:
    if len(cells) != len(names):
        few = "a cell" if len(cells) == 1 else f"{len(cells):,} cells"
        return RowProblem(line=line, text=f"{few}, and the first line names {len(names):,} columns")
    for place, conversion in convert:
        try:
            cells[place] = conversion(cells[place]) if cells[place].strip() else None
        except ValueError as error:
            return RowProblem(line=line, text=f"{names[place]}: {error}")
    return InputRecord(line, dict(zip(names, cells, strict=True)))


def _words(error: csv.Error) -> str:
    said = str(error)
    if "unexpected end of data" in said:
        return "a quoted cell has no end"
    if "new-line character" in said:
        return "a line ends with CR alone; save the file with the line ends LF or CR LF"
    if "field larger" in said:
        return "a cell is too long, or its closing quote is missing"
    return f"not CSV: {said}"


Conversion = Callable[[str], Any]


def _int(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{text!r:.40} is no whole number") from None


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text!r:.40} is no number") from None


def _bool(text: str) -> bool:
    value = _BOOLS.get(text.strip().lower())
    if value is None:
        raise ValueError(f"{text!r:.40} is neither true nor false")
    return value


def _json(text: str) -> object:
    raw = text.strip().encode()
    if told := json_problem(raw):
        raise ValueError(told)
    return msgspec.json.decode(raw)


CONVERSIONS: Final[Mapping[CellType, Conversion]] = {
    CellType.INT: _int,
    CellType.FLOAT: _float,
    CellType.BOOL: _bool,
    CellType.JSON: _json,
}
