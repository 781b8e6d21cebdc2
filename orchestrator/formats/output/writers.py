"""The writers of outcomes by name: from outcomes to the bytes of one file, or of several numbered ones.

What a file is written in, and how it is packed, is told by its name, or said. Everything is written as it comes, so
that memory stays flat.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from orchestrator.errors import MisfitError, UsageError
from orchestrator.formats.input.parquet import not_installed
from orchestrator.formats.output.atomic_file import Replacement, is_stream
from orchestrator.formats.output.column_checks import CheckedMembers, EmptyColumns, RowSink
from orchestrator.formats.output.columns import INPUT, Columns
from orchestrator.formats.output.coming_files import ComingFile
from orchestrator.formats.output.outcome_lines import WrittenOutcome, encode_outcome
from orchestrator.formats.output.text import DELIMITERS, batch_line, flat_line, table_header, table_line
from orchestrator.formats.text.compression import Packer, bare_name, packer
from orchestrator.settings.output_settings import OutputSettings
from orchestrator.settings.words_and_defaults import Include, OnMisfit, OutputFormat
from orchestrator.stores.object_url import Location, ObjectUrl

_BY_SUFFIX: Final = {
    ".csv": OutputFormat.CSV,
    ".tsv": OutputFormat.TSV,
    ".tab": OutputFormat.TSV,
    ".parquet": OutputFormat.PARQUET,
    ".pq": OutputFormat.PARQUET,
}


class FileForm(msgspec.Struct, frozen=True, kw_only=True):
    """How one file of outcomes is written."""

    format: OutputFormat
    is_errors: bool
    include: tuple[Include, ...] = ()
    flatten: tuple[str, ...] = ()
    on_misfit: OnMisfit = OnMisfit.ERROR
    csv_safe: bool = False
    split: int | None = None

    @property
    def columns(self) -> Columns:
        """Its columns."""
        return Columns(is_errors=self.is_errors, include=self.include, flatten=self.flatten)

    @property
    def needs_input(self) -> bool:
        """Whether something of the inputs stands in it."""
        return Include.INPUT in self.include or any(path.startswith(f"{INPUT}.") for path in self.flatten)


def forms_of(
    output: Location, errors: Location, settings: OutputSettings, include: Collection[Include]
) -> tuple[FileForm, FileForm]:
    """How results and errors are written to these files. Raises `UsageError` where they cannot be so."""
    results = form_of(output, settings, include, is_errors=False)
    is_batch = results.format is OutputFormat.OPENAI_BATCH
    beside = msgspec.structs.replace(settings, format=OutputFormat.OPENAI_BATCH if is_batch else None, split=None)
    return results, form_of(errors, beside, include, is_errors=True)


def form_of(path: Location, settings: OutputSettings, include: Collection[Include], *, is_errors: bool) -> FileForm:
    """How a file is written. Raises `UsageError` where it cannot be so."""
    form = FileForm(
        format=settings.format or format_of(path) or OutputFormat.JSONL,
        is_errors=is_errors,
        include=tuple(each for each in Include if each in include),
        flatten=settings.flatten,
        on_misfit=settings.on_misfit,
        csv_safe=settings.csv_safe,
        split=settings.split,
    )
    _check(path, form)
    return form


def format_of(path: Location) -> OutputFormat | None:
    """What a file is written in, by its name."""
    return _BY_SUFFIX.get(Path(bare_name(path.name)).suffix.lower())


def _check(path: Location, form: FileForm) -> None:
    if form.split is not None and path.is_dir():
        raise UsageError(
            f"cannot write {path}: it is a folder; name a file in it, for example {path / 'results.jsonl'}"
        )
    is_stream_of_several = form.split is not None and is_stream(path)
    if is_stream_of_several:
        raise UsageError(f"<setting split={form.split}>: {path} is one stream; name a file, or leave that out")
    if form.format is OutputFormat.PARQUET:
        if bare_name(path.name) != path.name:
            raise UsageError(f"{path}: Parquet is packed inside, and not again; call it {bare_name(path.name)}")
        if find_spec("pyarrow") is None:
            raise UsageError(f"{path}: {not_installed()}")
    if form.format is OutputFormat.OPENAI_BATCH:
        include = [each for each in form.include if each is not Include.METADATA]
        if include or form.flatten:
            more = "<setting include>" if include else "<setting flatten>"
            raise UsageError(f"{path}: lines of OpenAI Batch have no place for more; leave out {more}")


# --- rows to bytes


OpenPart = Callable[[], Callable[[bytes], object]]
"""Begins the next file; what it returns writes to it."""


def sink_of(form: FileForm, open_part: OpenPart) -> RowSink:
    """What writes rows as `form` has it, to the parts that `open_part` begins: always to one at least.

    Members that have columns of their own are to be there, unless misfits are fine.
    """
    columns = form.columns
    rows: RowSink
    match form.format:
        case OutputFormat.PARQUET:
            from orchestrator.formats.output.parquet import ParquetSink  # noqa: PLC0415  loads pyarrow

            rows = ParquetSink(columns, open_part, form.split, form.on_misfit)
        case OutputFormat.CSV | OutputFormat.TSV:
            delimiter = DELIMITERS[form.format.value]
            encode = table_line(columns, delimiter, form.on_misfit, csv_safe=form.csv_safe)
            rows = LineSink(encode, open_part, form.split, header=table_header(columns, delimiter))
        case OutputFormat.OPENAI_BATCH:
            rows = LineSink(batch_line(form.on_misfit), open_part, form.split)
        case _:
            encode = flat_line(columns) if columns.paths else encode_outcome
            rows = LineSink(encode, open_part, form.split)
    is_checked = form.flatten and not form.is_errors and form.on_misfit is OnMisfit.ERROR
    return CheckedMembers(rows, columns) if is_checked else rows


class LineSink:
    """Rows on their way into files of lines."""

    def __init__(
        self, encode: Callable[[WrittenOutcome], bytes], open_part: OpenPart, split: int | None, header: bytes = b""
    ) -> None:
        self._encode = encode
        self._open_part = open_part
        self._split = split
        self._header = header
        self._put = self._begun()
        self._rows = 0

    def write(self, outcome: WrittenOutcome) -> None:
        line = self._encode(outcome)
        if self._rows == self._split:
            self._put, self._rows = self._begun(), 0
        self._put(line)
        self._rows += 1

    def finish(self) -> None:
        """There is nothing left."""

    def abandon(self) -> None:
        """There is nothing left."""

    def _begun(self) -> Callable[[bytes], object]:
        put = self._open_part()
        if self._header:
            put(self._header)
        return put


# --- bytes to files


class OutcomeFile:
    """The coming file at `path`, or the coming parts of it, which appear whole or not at all.

    Used as a context manager: `write` as often as needed, then `commit_together` for its `parts`. Raises as
    `Replacement`.
    """

    def __init__(self, path: Location, form: FileForm, coming: Callable[[Any], ComingFile] = Replacement) -> None:
        """`coming` makes the file at a place, which appears whole."""
        self._path = path
        self._coming = coming
        self._form = form
        self._kept = ExitStack()
        self._rows: RowSink | None = None
        self._empty = None if form.is_errors else EmptyColumns(form.columns)
        self._packer: Packer | None = None
        self._is_left = False
        self.parts: list[ComingFile] = []
        self.number = 0
        """How many rows there are."""

    @property
    def is_slow(self) -> bool:
        """Whether writing may take its time: to a stream or elsewhere, packed, or in groups of rows."""
        packed = bare_name(self._path.name) != self._path.name
        return (
            packed
            or isinstance(self._path, ObjectUrl)
            or self._form.format is OutputFormat.PARQUET
            or is_stream(self._path)
        )

    def __enter__(self) -> Self:
        with ExitStack() as kept:  # what was begun goes away should the rest not begin
            self._kept = kept
            self._rows = sink_of(self._form, self._open_part)
            self._kept = kept.pop_all()
        return self

    def write(self, outcomes: Sequence[WrittenOutcome]) -> None:
        """Adds rows. Raises `MisfitError`, too, which names the file."""
        assert self._rows is not None
        for outcome in outcomes:
            try:
                self._rows.write(outcome)
            except MisfitError as error:
                raise MisfitError(f"{self._path}: {error.message}") from None
            if self._empty is not None:
                self._empty.saw(outcome)
            self.number += 1

    @property
    def empty_columns(self) -> tuple[str, ...]:
        """The columns of results, outputs or members of them, that are null in every row."""
        return () if self._empty is None else self._empty.names

    def finish(self) -> None:
        """Makes everything durable beside its place. Nothing can be written afterwards."""
        assert self._rows is not None
        try:
            self._rows.finish()
        except MisfitError as error:
            raise MisfitError(f"{self._path}: {error.message}") from None
        self._end_part()

    def _open_part(self) -> Callable[[bytes], object]:
        self._end_part()
        path = self._path if self._form.split is None else part_of(self._path, len(self.parts) + 1)
        part = self._kept.enter_context(self._coming(path))
        self.parts.append(part)
        self._packer = packer(path.name, self._put)
        return self._put if self._packer is None else self._packer.write

    def _put(self, data: bytes) -> None:
        if not self._is_left:  # what packs writes an end of its own when it goes, which nobody wants by then
            self.parts[-1].write(data)

    def _end_part(self) -> None:
        if self._packer is not None:
            self._packer.close()
            self._packer = None
        if self.parts:
            self.parts[-1].prepare()

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_left = True
        if self._rows is not None:
            self._rows.abandon()
        if self._packer is not None:
            self._packer.close()
        self._kept.close()
        if self._form.split is not None and self.parts[-1:] and self.parts[-1].is_in_place:
            for path in parts_of(self._path, len(self.parts) + 1):  # of an earlier time, which had more
                path.unlink(missing_ok=True)


def part_of(path: Location, number: int) -> Location:
    """The file with that number of those that `path` is split into."""
    return _numbered(path, f"{number:05d}")


def parts_pattern(path: Location) -> Location:
    """What the files are called that `path` is split into."""
    return _numbered(path, "*")


def is_part(path: Location, whole: Location) -> bool:
    """Whether `path` is, by its name, one of those that `whole` is split into: nobody is asked what is there."""
    before, _, after = parts_pattern(whole).name.rpartition("*")
    number = path.name.removeprefix(before).removesuffix(after)
    return number.isdecimal() and path == part_of(whole, int(number))


def _numbered(path: Location, number: str) -> Location:
    bare = Path(bare_name(path.name))
    return path.parent / f"{bare.stem}-{number}{bare.suffix}{path.name[len(bare.name) :]}"


def parts_of(path: Location, first: int = 1) -> Iterator[Location]:
    """The files that `path` was split into, from the `first` on, as long as there are any."""
    number = first
    while (part := part_of(path, number)).is_file():
        yield part
        number += 1
