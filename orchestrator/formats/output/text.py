"""Outcomes as lines of text: JSON lines, CSV and TSV, in which no cell is a formula (CSV injection).

Of a table of text an empty cell is null, and an empty text is two quotes. A whole output or input is its JSON text, and
so is nothing else, unless that is asked for: an object in a cell is a misfit.
"""

import re
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from orchestrator.errors import MisfitError
from orchestrator.formats.output import openai_lines
from orchestrator.formats.output.columns import Cell, CellKind, Column, Columns, kind_of_cell
from orchestrator.formats.output.outcome_lines import ErrorLine, WrittenOutcome, encode_outcome
from orchestrator.settings.words_and_defaults import OnMisfit

_encode: Final = msgspec.json.Encoder().encode
_string: Final = msgspec.json.Decoder(str)

DELIMITERS: Final = {"csv": ",", "tsv": "\t"}

COMPUTED: Final = ("=", "+", "-", "@", "\t", "\r")
"""With these begins what a spreadsheet takes for a formula."""

MARK: Final = "'"
"""Before a text it has a spreadsheet take it is."""

SEPARATORS: Final = ",;\t"
"""What spreadsheets split a line by: behind one of these an unquoted text would begin a cell."""

_is_number: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?").fullmatch


def misfit(outcome: WrittenOutcome, what: str) -> MisfitError:
    """Why the row of `outcome` cannot be written as it is."""
    row = f"{outcome.line.custom_id} (row {outcome.number:,} of the input)"
    return MisfitError(f"{row}: {what}; write it as its JSON text with <setting on-misfit={OnMisfit.JSON}>")


def flat_line(columns: Columns) -> Callable[[WrittenOutcome], bytes]:
    """What makes JSON lines of outcomes, with members by their paths."""

    def line(outcome: WrittenOutcome) -> bytes:
        if isinstance(outcome.line, ErrorLine):
            row = encode_outcome(outcome)
            members = {path: _raw(text) for path, text in columns.members(outcome)}
            return b"%b,%b\n" % (row[:-2], _encode(members)[1:])
        cells = zip(columns.all, columns.cells(outcome), strict=True)
        return _encode({column.name: _raw(cell) for column, cell in cells}) + b"\n"

    return line


def _raw(cell: Cell) -> object:
    return msgspec.Raw(cell) if isinstance(cell, bytes) else cell


def table_line(
    columns: Columns, delimiter: str, on_misfit: OnMisfit, *, csv_safe: bool = False
) -> Callable[[WrittenOutcome], bytes]:
    """What makes lines of a table of outcomes, of which no spreadsheet computes a cell with `csv_safe`. Raises
    `MisfitError` there.
    """
    is_special = _special(SEPARATORS if csv_safe else delimiter)

    def line(outcome: WrittenOutcome) -> bytes:
        texts = texts_of(columns, outcome, on_misfit)
        return _joined(map(csv_safe_text, texts) if csv_safe else texts, delimiter, is_special)

    return line


def csv_safe_text(text: str | None) -> str | None:
    """The text of a cell, with an apostrophe before what a spreadsheet would compute. A number is one there, too."""
    if text is None or not text.startswith(COMPUTED) or _is_number(text):
        return text
    return MARK + text


def table_header(columns: Columns, delimiter: str) -> bytes:
    """The first line, which names the columns."""
    return _joined([column.name for column in columns.all], delimiter, _special(delimiter))


def _special(delimiters: str) -> Callable[[str], object]:
    """Finds what makes a cell need its quotes."""
    return re.compile(f'[{delimiters}"\r\n]').search


def _joined(texts: Iterable[str | None], delimiter: str, is_special: Callable[[str], object]) -> bytes:
    """The line of a table with these cells. The standard writer knows no null beside an empty text."""
    return (delimiter.join([_quoted(text, is_special) for text in texts]) + "\n").encode()


def _quoted(text: str | None, is_special: Callable[[str], object]) -> str:
    if text is None:
        return ""
    if not text or is_special(text):
        return '"' + text.replace('"', '""') + '"'
    return text


def texts_of(columns: Columns, outcome: WrittenOutcome, on_misfit: OnMisfit) -> list[str | None]:
    """The cells of a row as texts. Raises `MisfitError` for one that is none, and may not be JSON."""
    cells = columns.cells(outcome)
    return [_text(column, cell, outcome, on_misfit) for column, cell in zip(columns.all, cells, strict=True)]


def _text(column: Column, cell: Cell, outcome: WrittenOutcome, on_misfit: OnMisfit) -> str | None:
    if cell is None or isinstance(cell, str):
        return cell
    if isinstance(cell, int):
        return str(cell)
    if column.holds is CellKind.JSON:
        return cell.decode()
    if cell.startswith(b'"'):
        return _string.decode(cell)
    if cell.startswith((b"{", b"[")) and on_misfit is OnMisfit.ERROR:
        raise misfit(outcome, f"{column.name} is {kind_of_cell(cell)}, and a cell is one value")
    return None if cell == b"null" else cell.decode()


def batch_line(on_misfit: OnMisfit) -> Callable[[WrittenOutcome], bytes]:
    """What makes lines of an OpenAI Batch file of outcomes. Raises `MisfitError` there."""

    def line(outcome: WrittenOutcome) -> bytes:
        if isinstance(outcome.line, ErrorLine):
            return openai_lines.error_line(outcome.line)
        try:
            return openai_lines.result_line(outcome.line, is_any_body=on_misfit is OnMisfit.JSON)
        except ValueError as error:
            raise misfit(outcome, str(error)) from None

    return line
