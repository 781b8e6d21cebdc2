"""Parquet, by pyarrow, which comes with the extra `parquet`.

What JSON has no form for has one of ours: dates and times are ISO 8601 (with `Z` where the column has a time zone, in
UTC; a single nanosecond has nine digits behind its second), durations too, decimals are texts that keep every digit,
bytes are Base64, NaN and infinities are null, and a map is an object: of a key that it has twice the last value counts.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Final

from orchestrator.errors import UsageError
from orchestrator.formats.input.csv import header_problem
from orchestrator.formats.input.rows import InputRecord, RowProblem
from orchestrator.installation import missing_package

MAGIC: Final = b"PAR1"
BATCH_ROWS: Final = 1_000
BUFFER_BYTES: Final = 1024 * 1024

_NS: Final = 1_000_000_000
_US_NS: Final = 1_000
_DAY_S: Final = 86_400
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001  a time of a column without a zone is of nobody's


def not_installed() -> str:
    """What is missing, and the command that installs it here."""
    return missing_package("Parquet", "pyarrow", "parquet")


def parquet_records(file: object) -> Iterator[InputRecord | RowProblem]:
    """The records of `file`, a path or a stream that can be sought in, numbered from 1.

    Raises `UsageError` where pyarrow is not installed.
    """
    pa, parquet = pyarrow()
    number = 0
    try:
        with parquet.ParquetFile(file, pre_buffer=False, buffer_size=BUFFER_BYTES) as opened:
            if told := header_problem(opened.schema_arrow.names):
                yield RowProblem(line=1, text=told)
                return
            for batch in opened.iter_batches(batch_size=BATCH_ROWS, use_threads=False):
                for values in _rows(pa, batch):
                    number += 1
                    yield InputRecord(number, values)
    except (pa.ArrowException, OSError, KeyError, ValueError, OverflowError) as error:
        yield RowProblem(line=number + 1, text=f"from here on it cannot be read: {_first_line(error)}")


def _rows(pa: Any, batch: Any) -> Iterator[dict[str, Any]]:
    """The rows of a batch as values of Python, which knows neither nanoseconds nor maps that have a key twice."""
    columns = [_values(pa, column) for column in batch.columns]
    names = batch.schema.names
    for values in zip(*columns, strict=True):
        yield dict(zip(names, values, strict=True))


def _values(pa: Any, column: Any) -> list[Any]:
    if _needs_help(pa, column.type):
        return [_value(pa, scalar) for scalar in column]
    values: list[Any] = column.to_pylist()
    return values


def _needs_help(pa: Any, kind: Any) -> bool:
    """Whether values of that type can be something that Python has no value for."""
    types = pa.types
    if types.is_map(kind):
        return True
    if types.is_timestamp(kind) or types.is_time64(kind) or types.is_duration(kind):
        return bool(kind.unit == "ns")
    if types.is_dictionary(kind):
        return _needs_help(pa, kind.value_type)
    return any(_needs_help(pa, kind.field(place).type) for place in range(kind.num_fields))


def _value(pa: Any, scalar: Any) -> Any:
    """The value of a scalar, whatever it is made of."""
    kind, types = scalar.type, pa.types
    if not scalar.is_valid or not _needs_help(pa, kind):
        value = scalar.as_py()
    elif types.is_dictionary(kind):
        value = _value(pa, scalar.value)
    elif types.is_map(kind):
        value = {_key(_value(pa, pair["key"])): _value(pa, pair["value"]) for pair in scalar.values}
    elif types.is_struct(kind):
        value = {name: _value(pa, part) for name, part in scalar.items()}
    elif types.is_nested(kind):
        value = [_value(pa, part) for part in scalar.values]
    else:
        value = _of_nanoseconds(types, scalar) if scalar.value % _US_NS else scalar.as_py()
    return value


def _key(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool) else str(value)


def _of_nanoseconds(types: Any, scalar: Any) -> str:
    """A time, or how long something took, that Python has no value for, with all digits behind its second."""
    kind, value = scalar.type, scalar.value
    if types.is_duration(kind):
        seconds, left = divmod(abs(value), _NS)
        days, rest = divmod(seconds, _DAY_S)
        whole = f"P{days}D" if days else "P"
        return f"{'-' if value < 0 else ''}{whole}T{rest}.{f'{left:09}'.rstrip('0')}S"
    seconds, left = divmod(value, _NS)
    at = _EPOCH + timedelta(seconds=seconds)
    if types.is_time(kind):
        return f"{at:%H:%M:%S}.{left:09}"
    return f"{at.isoformat(timespec='seconds')}.{left:09}{'' if kind.tz is None else 'Z'}"


def _first_line(error: Exception) -> str:
    return (str(getattr(error, "strerror", None) or error).splitlines() or [type(error).__name__])[0][:200]


def pyarrow() -> tuple[Any, Any]:
    """The packages `pyarrow` and `pyarrow.parquet`. Raises `UsageError` where they are not installed."""
    try:
        import pyarrow as pa  # noqa: PLC0415  an extra, and slow to load
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError:
        raise UsageError(not_installed()) from None
    return pa, parquet
