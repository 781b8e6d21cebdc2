"""A program's inputs on their way into a run: any iterable, a file, and functions that stand for endpoints."""

import os
import sys
from collections.abc import AsyncIterable, Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from orchestrator.api.python.results import Job
from orchestrator.api.runs.keyword_options import OF_INPUT, Function
from orchestrator.core.service.row_variables import RowVariables
from orchestrator.core.text.object_urls import is_object_url
from orchestrator.engine.intake.row_pump import RowPump
from orchestrator.errors import UsageError
from orchestrator.formats.input.jsonl import RowReader
from orchestrator.formats.input.python_values import ValueReader
from orchestrator.formats.input.readers import ReadOptions, read_inputs
from orchestrator.formats.input.rows import Row, RowProblem
from orchestrator.formats.input.sources import sources_of
from orchestrator.settings.input_settings import InputSettings
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.words_and_defaults import LOCAL, STANDARD_INPUT
from orchestrator.stores.object_url import ObjectUrl, location_of

Inputs = Iterable[Mapping[str, Any] | Job] | AsyncIterable[Mapping[str, Any] | Job] | str | PathLike[str]
"""Dicts, each what a line of a file would be, or `Job`s; or the path or the URL of a file in any format."""

NO_FILE: Final = "(program)"
"""Where a function is that no file defines by its name."""


def check_inputs(inputs: object) -> None:
    """Raises `UsageError` for what nothing can be read from."""
    if isinstance(inputs, str) and is_object_url(inputs):
        ObjectUrl.parsed(inputs)
    elif isinstance(inputs, str | PathLike):
        path = Path(inputs)
        if not path.is_file() and not path.is_fifo():
            raise UsageError(f"{path}: there is no such file; inputs are a file's path, or an iterable of dicts")
    elif isinstance(inputs, Mapping | bytes | Job) or not isinstance(inputs, Iterable | AsyncIterable):
        raise UsageError(f"inputs are an iterable of dicts or Jobs, or the path of a file, not {type(inputs).__name__}")


def check_reading(inputs: Inputs, options: Mapping[str, object]) -> None:
    """Raises `UsageError` where `options` say how a file is read, and the inputs are none."""
    said = [name for name in OF_INPUT if options.get(name) is not None]
    if said and not isinstance(inputs, str | PathLike):
        raise UsageError(f"{said[0]}= says how a file is read, and these inputs are none; leave it out")


def source_of(inputs: Inputs) -> str:
    """What the ledger calls them."""
    if not isinstance(inputs, str | PathLike):
        return STANDARD_INPUT
    place = location_of(os.fspath(inputs))
    return str(place.resolve() if isinstance(place, Path) else place)


def pump_of(
    inputs: Inputs,
    *,
    variables: RowVariables,
    settings: RunSettings,
    reading: InputSettings,
    webhook_bytes: int,
    body_bytes_max: int,
    first: int,
    to_the_end: bool,
) -> RowPump:
    """What reads `inputs` into rows, counting from after `first`; the rest is as with `RowReader` and `RowPump`."""
    if isinstance(inputs, str | PathLike):
        options = ReadOptions(
            settings=reading,
            variables=variables,
            run_policy=settings.policy,
            webhook_bytes=webhook_bytes,
            body_bytes_max=body_bytes_max,
            is_resumable=settings.resumable,
            vias=settings.vias,
        )
        rows = _file_rows(os.fspath(inputs), options)
        return RowPump(rows, lambda _, row: _moved(row, first), first=first, to_the_end=to_the_end)

    def reader() -> RowReader:
        return RowReader(variables, settings.policy, webhook_bytes, body_bytes_max, settings.resumable, settings.vias)

    values = ValueReader(reader(), reader())

    def read(number: int, value: object) -> Row | RowProblem:
        if isinstance(value, Job):
            try:
                value = value.given()
            except (TypeError, UsageError) as error:
                return RowProblem(line=number, text=str(error))
        return values.read(number, value)

    return RowPump(inputs, read, first=first, to_the_end=to_the_end)


def _file_rows(source: str, options: ReadOptions) -> Iterator[Row | RowProblem]:
    """The rows of a file, or of the objects that a URL means, which is asked for where they are read."""
    yield from read_inputs(sources_of([source]) if is_object_url(source) else [source], options)


def _moved(row: object, first: int) -> Row | RowProblem:
    assert isinstance(row, Row | RowProblem)
    return replace(row, line=row.line + first) if first else row


def endpoint_of(function: Function) -> str:
    """The endpoint that stands for `function`: a command can serve it, too, where a file defines it by its name."""
    name = getattr(function, "__qualname__", type(function).__qualname__)
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    file = getattr(module, "__file__", None)
    if file is not None and getattr(module, name, None) is function:
        return f"{LOCAL}{os.path.realpath(file)}:{name}"
    return f"{LOCAL}{NO_FILE}:{name}"
