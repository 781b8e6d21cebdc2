"""Parquet, by pyarrow, which comes with the extra `parquet`.

What JSON has no form for has one of ours: dates and times are ISO 8601 (with `Z` where the column has a time zone, in
UTC), durations too, decimals are texts that keep every digit, bytes are Base64, NaN and infinities are null, and a map
is an object.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from orchestrator.errors import UsageError
from orchestrator.formats.rows import Problem, Record
from orchestrator.formats.tables import header_problem

MAGIC: Final = b"PAR1"
BATCH_ROWS: Final = 1_000
BUFFER_BYTES: Final = 1024 * 1024

NOT_INSTALLED: Final = "Parquet needs pyarrow, which is not installed: pip install 'orchestrator[parquet]'"


def records(path: Path) -> Iterator[Record | Problem]:
    """The records of the file at `path`, numbered from 1. Raises `UsageError` where pyarrow is not installed."""
    pa, parquet = pyarrow()
    number = 0
    try:
        with parquet.ParquetFile(path, pre_buffer=False, buffer_size=BUFFER_BYTES) as file:
            if told := header_problem(file.schema_arrow.names):
                yield Problem(line=1, text=told)
                return
            for batch in file.iter_batches(batch_size=BATCH_ROWS, use_threads=False):
                for values in batch.to_pylist(maps_as_pydicts="strict"):
                    number += 1
                    yield Record(number, values)
    except (pa.ArrowException, OSError, KeyError, ValueError, OverflowError) as error:
        yield Problem(line=number + 1, text=f"from here on it cannot be read: {_first_line(error)}")


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def pyarrow() -> tuple[Any, Any]:
    """The packages `pyarrow` and `pyarrow.parquet`. Raises `UsageError` where they are not installed."""
    try:
        import pyarrow as pa  # noqa: PLC0415  an extra, and slow to load
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError:
        raise UsageError(NOT_INSTALLED) from None
    return pa, parquet
