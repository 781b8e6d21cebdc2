"""Input files for the tests of their readers."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, BinaryIO

from orchestrator.core.service.row_variables import EVERYTHING, RowVariables
from orchestrator.formats.input.lines import read_lines
from orchestrator.formats.input.readers import ReadOptions, read_inputs, until_unreadable
from orchestrator.formats.input.rows import Row, RowProblem
from orchestrator.formats.input.sources import InputPositions
from orchestrator.settings.input_settings import InputSettings

Put = Callable[[str, bytes | str], str]
"""Writes a file of that name, and returns its path."""


def read(
    *sources: str, body_bytes_max: int = 100_000, places: InputPositions | None = None, **settings: Any
) -> list[Row | RowProblem]:
    return list(read_inputs(sources, reading_of(body_bytes_max, **settings), places))


def reading_of(body_bytes_max: int = 100_000, **settings: Any) -> ReadOptions:
    """How the files of the tests are read."""
    return ReadOptions(settings=InputSettings(**settings), body_bytes_max=body_bytes_max)


def read_rows(stream: BinaryIO, *, environ: Mapping[str, str], **options: Any) -> Iterator[Row | RowProblem]:
    """The rows of JSON lines; the options are those of `ReadOptions`."""
    reading = ReadOptions(variables=RowVariables(environ, (EVERYTHING,)), **options)
    rows = read_lines(stream, reading.rows().read, line_bytes_max=reading.line_bytes_max)
    return until_unreadable(rows)


def inputs(*sources: str, **settings: Any) -> list[tuple[str | None, Any]]:
    """The id (None: derived) and the input of each row."""
    found = read(*sources, **settings)
    assert all(isinstance(row, Row) for row in found), found
    rows = [row for row in found if isinstance(row, Row)]
    return [(None if row.derived else row.custom_id, json.loads(row.input)) for row in rows]


def problems(*sources: str, **settings: Any) -> list[tuple[int, str]]:
    return [(item.line, item.text) for item in read(*sources, **settings) if isinstance(item, RowProblem)]
