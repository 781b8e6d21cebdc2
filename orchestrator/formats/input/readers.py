"""The readers of inputs by name: from one or several files, folders or standard input to rows.

What an input is written in is said, or told by its name, or else by what it begins with. A row's line counts on through
all files; `InputPositions` says which file that is in.
"""

import io
import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from orchestrator.core.lanes.via import Via
from orchestrator.core.service.row_variables import NO_VARIABLES, RowVariables
from orchestrator.core.text.durations import Policy
from orchestrator.errors import UsageError
from orchestrator.formats.input import csv, folder, json_array, openai_batch, parquet
from orchestrator.formats.input.jsonl import BODY_BYTES_MAX, LINE_BYTES_EXTRA, NO_POLICY, RowReader, members_of
from orchestrator.formats.input.lines import read_lines
from orchestrator.formats.input.records import RecordReader
from orchestrator.formats.input.rows import Row, RowProblem
from orchestrator.formats.input.sources import InputPositions, shown_sources
from orchestrator.formats.text.compression import DamagedInputError, bare_name, is_compressed, unpacked_stream
from orchestrator.settings.input_settings import InputSettings
from orchestrator.settings.words_and_defaults import STANDARD_INPUT, InputFormat
from orchestrator.stores.object_url import Location, ObjectUrl, location_of
from orchestrator.user_code import here

PROBLEMS_READ_MAX: Final = 1_000_000
"""Behind so many a file is not read any further: nothing of it will be taken."""

_BY_SUFFIX: Final = {
    ".csv": InputFormat.CSV,
    ".tsv": InputFormat.TSV,
    ".tab": InputFormat.TSV,
    ".parquet": InputFormat.PARQUET,
    ".pq": InputFormat.PARQUET,
}
_JSON_SUFFIXES: Final = (".jsonl", ".ndjson", ".json")
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_WHITE_SPACE: Final = b" \t\r\n"


class ReadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How rows are read, and what they are checked against; the others are `RowReader`'s."""

    settings: InputSettings = InputSettings()
    variables: RowVariables = NO_VARIABLES
    run_policy: Policy = NO_POLICY
    webhook_bytes: int = 0
    body_bytes_max: int = BODY_BYTES_MAX
    is_resumable: bool = False
    vias: Sequence[Via] = (Via.QUEUE,)
    problems_max: int = PROBLEMS_READ_MAX
    is_left_out: Callable[[Path], bool] = lambda _: False
    """Which files of a folder are none of its inputs."""

    folder: Path = msgspec.field(default_factory=here)
    """Paths count from there."""

    def rows(self) -> RowReader:
        """What checks the rows of one file."""
        return RowReader(
            self.variables,
            self.run_policy,
            self.webhook_bytes,
            self.body_bytes_max,
            is_resumable=self.is_resumable,
            vias=self.vias,
        )

    def records(self) -> RecordReader:
        """What makes rows of the records of one file."""
        settings = self.settings
        return RecordReader(
            self.rows(),
            id_field=settings.id_field,
            input_field=settings.input_field,
            templates=settings.templates,
        )

    def objects(self) -> Callable[[int, bytes], Row | RowProblem]:
        """What reads objects in JSON: as jobs or inputs, or as records where an input is made of them."""
        return self.records().read_text if self.settings.are_records else self.rows().read

    @property
    def line_bytes_max(self) -> int:
        """No line, cell or element may be longer."""
        return self.body_bytes_max + LINE_BYTES_EXTRA


def read_inputs(
    sources: Sequence[str], reading: ReadOptions, places: InputPositions | None = None
) -> Iterator[Row | RowProblem]:
    """The rows of all `sources` in their order, with a `RowProblem` in place of each that is none.

    Raises `UsageError` where one cannot be opened, or not be read as what it is said to be.
    """
    places = places or InputPositions()
    before = 0
    for source in sources:
        last = before
        rows = _rows(source, reading, partial(places.begin, before + 1, shown_sources([source])))
        for item in until_unreadable(rows, problems_max=reading.problems_max):
            moved = msgspec.structs.replace(item, line=item.line + before) if before else item
            last = moved.line
            yield moved
        before = last


def until_unreadable(
    rows: Iterator[Row | RowProblem], *, problems_max: int = PROBLEMS_READ_MAX
) -> Iterator[Row | RowProblem]:
    """`rows`, and a `RowProblem` behind the last one where the file cannot be read any further, or is to be: behind
    `problems_max` of them.
    """
    last = problems = 0
    try:
        for item in rows:
            last = item.line
            yield item
            problems += isinstance(item, RowProblem)
            if problems >= problems_max:
                yield RowProblem(line=last + 1, text=f"{problems:,} problems; what comes behind them was not read")
                return
    except DamagedInputError as error:
        yield RowProblem(line=last + 1, text=str(error))
    except OSError as error:
        yield RowProblem(line=last + 1, text=f"from here on it cannot be read: {error.strerror}")


def _rows(source: str, reading: ReadOptions, begin: Callable[[str], None]) -> Iterator[Row | RowProblem]:
    """The rows of one source, counted from 1, by what it is written in."""
    place = location_of(source, reading.folder)
    source = str(place) if isinstance(place, ObjectUrl) else source
    if source != STANDARD_INPUT and isinstance(place, Path) and place.is_dir():
        begin("file")
        records = folder.folder_records(_texts_in(source, place, reading), bytes_max=reading.line_bytes_max)
        yield from reading.records().all(records)
        return
    settings = reading.settings
    with _opened(source, place) as file:
        packed = is_compressed(file.peek(1)[:4])
        stream = unpacked_stream(file, bytes_max=settings.input_bytes_max) if packed or not _is_regular(file) else file
        if stream is file and (size := os.fstat(file.fileno()).st_size) > settings.input_bytes_max:
            raise DamagedInputError(
                f"the input has {size:,} bytes; <setting max-input-bytes> allows {settings.input_bytes_max:,}"
            )
        kind = settings.format or _kind_of(place.name, stream)
        if settings.types and kind not in (InputFormat.CSV, InputFormat.TSV):
            raise UsageError(
                f"{source}: <setting types> is for CSV and TSV; the values of {kind} have types of their own"
            )
        begin({InputFormat.JSON: "element", InputFormat.PARQUET: "row"}.get(kind, "line"))
        match kind:
            case InputFormat.CSV | InputFormat.TSV:
                delimiter = "\t" if kind is InputFormat.TSV else None
                types = dict(settings.types)
                found = csv.csv_records(stream, delimiter=delimiter, types=types, bytes_max=reading.line_bytes_max)
                yield from reading.records().all(found)
            case InputFormat.PARQUET:
                if packed or not file.seekable():
                    raise UsageError(f"{source}: Parquet is read from its end, so it must be a file, and not packed")
                has_path = isinstance(place, Path) and source != STANDARD_INPUT
                yield from reading.records().all(parquet.parquet_records(place if has_path else file))
            case InputFormat.JSON:
                read = reading.objects()
                for item in json_array.elements(stream, bytes_max=reading.line_bytes_max):
                    yield item if isinstance(item, RowProblem) else read(item.number, item.text)
            case InputFormat.OPENAI_BATCH:
                yield from read_lines(stream, reading.rows().read_request, line_bytes_max=reading.line_bytes_max)
            case _:
                yield from read_lines(stream, reading.objects(), line_bytes_max=reading.line_bytes_max)


# --- what it is


def _kind_of(name: str, stream: io.BufferedReader) -> InputFormat:
    """What an input is written in, by its name, or else by what it begins with."""
    suffix = Path(bare_name(name)).suffix.lower()
    if suffix in _BY_SUFFIX:
        return _BY_SUFFIX[suffix]
    start = stream.peek(1)
    if start.startswith(parquet.MAGIC):
        return InputFormat.PARQUET
    text = start.removeprefix(_BYTE_ORDER_MARK).lstrip(_WHITE_SPACE)
    if text.startswith(b"["):
        return InputFormat.JSON
    members = members_of(1, text.split(b"\n", 1)[0].strip(_WHITE_SPACE))
    is_batch = not isinstance(members, RowProblem) and openai_batch.is_request(members)
    return InputFormat.OPENAI_BATCH if is_batch else InputFormat.JSONL


def _opened(source: str, place: Location) -> AbstractContextManager[io.BufferedReader]:
    """The bytes of `source`. Raises `UsageError` where there are none to be had."""
    if source == STANDARD_INPUT:
        return nullcontext(sys.stdin.buffer)  # type: ignore[arg-type]  # it is one, whatever its type is called
    try:
        return place.open("rb")
    except OSError as error:
        raise UsageError(f"{source}: cannot read the input ({error.strerror})") from error


def _is_regular(file: BinaryIO) -> bool:
    try:
        return stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    except OSError:
        return False


def _texts_in(source: str, place: Path, reading: ReadOptions) -> list[Path]:
    """The files of the folder `source`. Raises `UsageError` where they are inputs themselves."""
    inputs = (*_BY_SUFFIX, *_JSON_SUFFIXES)
    try:
        files = folder.files_in(place, reading.is_left_out)
    except OSError as error:
        raise UsageError(f"{source}: cannot read the folder ({error.strerror})") from error
    if found := sorted({Path(bare_name(file.name)).suffix.lower() for file in files}.intersection(inputs)):
        raise UsageError(
            f"{source}: of a folder each file of text is a row, and there are {found[0]} files in this one; name them:"
            f" {source.rstrip('/')}/*{found[0]}"
        )
    return files
