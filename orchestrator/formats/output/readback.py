"""Files of outcomes read again, to be compared with what they would be now: of each format the smallest part that is
one row, and a file may be several.
"""

import csv
import io
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from orchestrator.errors import UsageError
from orchestrator.formats.input.parquet import pyarrow
from orchestrator.formats.output.columns import INPUT, METADATA, OF_ANY, OUTPUT, Cell, CellKind, Column
from orchestrator.formats.output.outcome_lines import WrittenOutcome
from orchestrator.formats.output.text import DELIMITERS, MARK, csv_safe_text, texts_of
from orchestrator.formats.output.writers import FileForm, parts_of, sink_of
from orchestrator.formats.text.compression import DamagedInputError, unpacked_stream
from orchestrator.settings.words_and_defaults import Include, OnMisfit, OutputFormat
from orchestrator.stores.object_url import Location, ObjectUrl
from orchestrator.stores.store_errors import is_missing
from orchestrator.units import MIB

SHOWN_CHARS: Final = 80
BATCH_ROWS: Final = 200
FILE_BYTES_MAX: Final = 1 << 62
CELL_BYTES_MAX: Final = (1 << 31) - 1

_SIGNS: Final[Mapping[Include, str]] = {
    Include.INPUT: INPUT,
    Include.LINE: "line",
    Include.WORKER: "worker",
    Include.ENDPOINT: "endpoint",
    Include.TIMES: "ended_at",
    Include.METADATA: METADATA,
}
"""By what member or column a row shows that it carries something besides."""

_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_string: Final = msgspec.json.Decoder(str)


class _Named(msgspec.Struct):
    custom_id: str


_named: Final = msgspec.json.Decoder(_Named)


class Written(NamedTuple):
    """A row as it stands in a file; `value` is what `Reader.expected` makes of its outcome."""

    value: Any
    place: str
    """Where it is, as in `line 3 of results.jsonl`."""


class Reader(Protocol):
    """Reads the rows of a file. All of it raises `UsageError` where that cannot be done."""

    def __iter__(self) -> Iterator[Written]: ...

    @property
    def is_errors(self) -> bool:
        """Whether it is one of errors."""
        ...

    @property
    def needs_input(self) -> bool:
        """Whether something of the inputs stands in the rows; known once the first one was read."""
        ...

    @property
    def include(self) -> tuple[Include, ...]:
        """What the rows carry besides; known likewise."""
        ...

    def is_of(self, row: Written, outcome: WrittenOutcome) -> bool:
        """Whether `row` is what is written for `outcome`."""
        ...

    def custom_id(self, row: Written) -> str | None:
        """Whose row it is; None where it is none of ours."""
        ...

    def shown(self, row: Written) -> str:
        """How it begins, for people."""
        ...


def reader_of(path: Location, format_: OutputFormat, *, is_errors: bool) -> Reader:
    """What reads the file at `path`, or, where there is none, those that it was split into."""
    files = [path] if path.exists() else list(parts_of(path)) or [path]
    match format_:
        case OutputFormat.PARQUET:
            return _ParquetReader(files, _form([], is_errors=is_errors))
        case OutputFormat.CSV | OutputFormat.TSV:
            return _TableReader(files, DELIMITERS[format_.value], is_errors=is_errors)
        case _:
            return _LineReader(files, format_, is_errors=is_errors)


class _Formed:
    """What the rows of a file have is known once its first one was read."""

    def __init__(self, files: Sequence[Location], form: FileForm) -> None:
        self._files = files
        self._form = form
        self._columns = form.columns
        self._names: list[str] = []
        self._fits = False

    def _begin_table(self, names: list[str]) -> None:
        """The columns of a file; those of the first are those of all."""
        if not self._names:
            self._names = names
            self._form = _form(names, is_errors=self._form.is_errors)
            self._columns = self._form.columns
            self._fits = [column.name for column in self._columns.all] == names

    @property
    def is_errors(self) -> bool:
        return self._form.is_errors

    @property
    def needs_input(self) -> bool:
        return self._form.needs_input

    @property
    def include(self) -> tuple[Include, ...]:
        return self._form.include


class _LineReader(_Formed):
    """JSON lines and OpenAI Batch: a row is its line."""

    def __init__(self, files: Sequence[Location], format_: OutputFormat, *, is_errors: bool) -> None:
        super().__init__(files, FileForm(format=format_, is_errors=is_errors, on_misfit=OnMisfit.JSON))
        self._lines: list[bytes] = []
        self._rows = sink_of(self._form, self._open)
        self._is_begun = False

    def _open(self) -> Callable[[bytes], object]:
        return self._lines.append

    def __iter__(self) -> Iterator[Written]:
        for file in self._files:
            for number, line in enumerate(_packed_lines(file), start=1):
                if not self._is_begun:
                    self._begin(line)
                yield Written(line, f"line {number} of {file}")

    def _begin(self, line: bytes) -> None:
        self._is_begun = True
        if self._form.format is OutputFormat.JSONL:
            members = _members_of(line)
            include = _included([*members, *(f"error.{name}" for name in _members_of(members.get("error", b"")))])
            flat = _flattened(list(members), is_errors=self._form.is_errors)
            self._form = msgspec.structs.replace(self._form, include=include, flatten=flat)
            self._rows = sink_of(self._form, self._open)

    def is_of(self, row: Written, outcome: WrittenOutcome) -> bool:
        self._lines.clear()
        self._rows.write(outcome)
        return bool(row.value == self._lines[0])

    def custom_id(self, row: Written) -> str | None:
        try:
            return _named.decode(row.value).custom_id
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return None

    def shown(self, row: Written) -> str:
        return _text(row.value[:SHOWN_CHARS])


class _TableReader(_Formed):
    """CSV and TSV: a row is its cells, which may stand over several lines."""

    def __init__(self, files: Sequence[Location], delimiter: str, *, is_errors: bool) -> None:
        super().__init__(files, _form([], is_errors=is_errors))
        self._delimiter = delimiter
        self._is_safe: bool | None = None
        """Whether cells are made harmless for spreadsheets; None: none has shown it yet."""

    def __iter__(self) -> Iterator[Written]:
        for file in self._files:
            csv.field_size_limit(CELL_BYTES_MAX)
            with _stream(file) as stream:
                text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
                reader = csv.reader(text, delimiter=self._delimiter, strict=True)
                try:
                    for number, cells in enumerate(reader, start=1):
                        if number == 1:
                            self._begin_table(cells)
                        else:
                            yield Written(cells, f"row {number - 1} of {file}")
                except (csv.Error, UnicodeDecodeError) as error:
                    raise UsageError(f"{file}: cannot be read from line {reader.line_num} on ({error})") from error

    def is_of(self, row: Written, outcome: WrittenOutcome) -> bool:
        texts = [text or "" for text in texts_of(self._columns, outcome, OnMisfit.JSON)]
        safe = [csv_safe_text(text) for text in texts]
        if texts == safe:
            return bool(row.value == texts)
        if self._is_safe is None and row.value in (texts, safe):
            self._is_safe = row.value == safe  # one file is written in one way
        return bool(row.value == (safe if self._is_safe else texts))

    def custom_id(self, row: Written) -> str | None:
        if not len(row.value) == len(self._columns.all) == len(self._names):
            return None
        text: str = row.value[0]
        bare = text.removeprefix(MARK)
        return bare if self._is_safe is not False and csv_safe_text(bare) == text else text

    def shown(self, row: Written) -> str:
        return self._delimiter.join(row.value)[:SHOWN_CHARS]


class _ParquetReader(_Formed):
    """Parquet: a row is its values."""

    def __iter__(self) -> Iterator[Written]:
        pa, parquet = pyarrow()
        for path in self._files:
            number = 0
            try:
                source = path.open("rb") if isinstance(path, ObjectUrl) else path
                with parquet.ParquetFile(source, pre_buffer=False, buffer_size=MIB) as file:
                    self._begin_table(file.schema_arrow.names)
                    for batch in file.iter_batches(batch_size=BATCH_ROWS, use_threads=False):
                        for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                            number += 1
                            yield Written(values, f"row {number} of {path}")
            except (pa.ArrowException, OSError, ValueError) as error:
                said = (str(error).splitlines() or [""])[0]
                raise UsageError(f"{path}: cannot be read from row {number + 1} on ({said:.200})") from error

    def is_of(self, row: Written, outcome: WrittenOutcome) -> bool:
        cells = self._columns.cells(outcome)
        return self._fits and all(
            _is_value(value, column, cell)
            for value, column, cell in zip(row.value, self._columns.all, cells, strict=True)
        )

    def custom_id(self, row: Written) -> str | None:
        return row.value[0] if self._fits else None

    def shown(self, row: Written) -> str:
        return str(row.value)[:SHOWN_CHARS]


def _is_value(value: object, column: Column, cell: Cell) -> bool:
    """Whether a value of Parquet is what stands in a cell, whichever type its column has."""
    if not isinstance(cell, bytes) or column.holds is CellKind.JSON:
        return value == (cell.decode() if isinstance(cell, bytes) else cell)
    match value:
        case None:
            return cell == b"null"
        case bool():
            return cell == (b"true" if value else b"false")
        case int():
            return cell.lstrip(b"-").isdigit() and int(cell) == value
        case float():
            return cell[:1] in b"-0123456789" and float(cell) == value
        case _:
            return value == cell.decode() or (cell.startswith(b'"') and _string.decode(cell) == value)


def _form(names: Sequence[str], *, is_errors: bool) -> FileForm:
    """How a file with such columns is written."""
    return FileForm(
        format=OutputFormat.CSV,
        is_errors=is_errors,
        include=_included(names),
        flatten=_flattened(names, is_errors=is_errors),
    )


def _included(names: Collection[str]) -> tuple[Include, ...]:
    has_text = (Include.TEXT,) if "error.text" in names else ()
    return (*(each for each, sign in _SIGNS.items() if sign in names), *has_text)


def _flattened(names: Sequence[str], *, is_errors: bool) -> tuple[str, ...]:
    """The paths among the names of columns or members: without any, the output is a whole."""
    found = tuple(name for name in names if name == OUTPUT or name.startswith((f"{OUTPUT}.", *OF_ANY)))
    return () if found == (OUTPUT,) and not is_errors else found


def written_at_ns(path: Location) -> int:
    """When a file, or the first that it was split into, was written. Raises `UsageError` where there is none."""
    try:
        return path.stat().st_mtime_ns
    except OSError as error:
        if is_missing(error) and (part := next(parts_of(path), None)) is not None:
            return part.stat().st_mtime_ns
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from error


def _members_of(text: bytes | msgspec.Raw) -> Mapping[str, msgspec.Raw]:
    try:
        return _members.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return {}


def _packed_lines(path: Location) -> Iterator[bytes]:
    with _stream(path) as stream:
        yield from stream


@contextmanager
def _stream(path: Location) -> Iterator[io.BufferedReader]:
    try:
        with path.open("rb") as file:
            yield unpacked_stream(file, bytes_max=FILE_BYTES_MAX)
    except DamagedInputError as error:
        raise UsageError(f"{path}: {error}") from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from error


def _text(data: bytes) -> str:
    return data.decode(errors="replace").rstrip()
