"""Large files: how fast they are read into rows and written from outcomes, and how much memory that takes.

python -m tests.benchmarks.files read|write FILE prints what one process measured of itself.
"""

import json
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec
import pyarrow as pa
from pyarrow import parquet

from orchestrator.formats.input.readers import ReadOptions, read_inputs
from orchestrator.formats.input.rows import Row
from orchestrator.formats.output.coming_files import commit_together
from orchestrator.formats.output.outcome_lines import ResultLine, WrittenOutcome
from orchestrator.formats.output.writers import OutcomeFile, form_of
from orchestrator.settings.input_settings import InputSettings
from orchestrator.settings.output_settings import OutputSettings
from tests.benchmarks.figures import Figure
from tests.benchmarks.processes import ROOT, measured

ROWS: Final = 1_000_000
READ: Final = ("csv", "parquet", "json")
WRITTEN: Final = ("jsonl", "csv", "csv.gz", "parquet")
LARGE_BYTES: Final = 1_000_000_000
ARRAY_BYTES: Final = 300_000_000
WIDE_BYTES: Final = 1_000
"""So much a row has of the files that are large."""

GROWTH_MB_MAX: Final = 400.0
ROWS_S_MIN: Final = {"csv": 100_000.0, "parquet": 200_000.0, "json": None}
SECONDS_MAX: Final = 1_800.0
BLOCK_ROWS: Final = 10_000
_RSS_UNIT: Final = 1 if sys.platform == "darwin" else 1024

Found = dict[str, float]


def files(
    rows: int = ROWS, scale: float = 1.0, read: Sequence[str] = READ, written: Sequence[str] = WRITTEN
) -> list[Figure]:
    """A million rows of each format, and files of 1 GB (an array: 300 MB), or what `scale` makes of that."""
    figures = []
    with TemporaryDirectory() as name:
        folder = Path(name)
        for kind in read:
            path = folder / f"rows.{kind}"
            write(path, rows, b"a caption of so many words")
            found = _measured(folder, "read", path)
            assert found["rows"] == rows, found
            per_s = found["rows"] / found["seconds"]
            figures.append(_figure(f"{kind}: read", per_s, "rows/s", at_least=ROWS_S_MIN[kind]))
            path.unlink()
            size = scale * (ARRAY_BYTES if kind == "json" else LARGE_BYTES)
            write(path, int(size / WIDE_BYTES), b"x" * (WIDE_BYTES - 40))
            size_mb = path.stat().st_size / 1e6
            found = _measured(folder, "read", path)
            figures.append(
                _figure(f"{kind} of {size_mb:,.0f} MB: memory that is taken", found["mb"], "MB", at_most=GROWTH_MB_MAX)
            )
            path.unlink()
        for suffix in written:
            found = _measured(folder, "write", folder / f"{rows}.{suffix}")
            figures.append(_figure(f"{suffix}: written", found["rows"] / found["seconds"], "rows/s"))
            figures.append(
                _figure(f"{suffix} of {rows:,} rows: memory that is taken", found["mb"], "MB", at_most=GROWTH_MB_MAX)
            )
    return figures


def write(path: Path, rows: int, caption: bytes) -> None:
    """An input of so many rows, by the name of the file."""
    text = caption.decode()
    if path.suffix == ".parquet":
        columns = {"custom_id": pa.string(), "n": pa.int64(), "caption": pa.string()}
        with parquet.ParquetWriter(path, pa.schema(columns), compression="none", use_dictionary=False) as file:
            for first in range(0, rows, BLOCK_ROWS):
                numbers = range(first, min(first + BLOCK_ROWS, rows))
                values = {"custom_id": [f"r{n}" for n in numbers], "n": list(numbers), "caption": [text] * len(numbers)}
                file.write_table(pa.table(values))
        return
    with path.open("w") as out:
        out.write("custom_id,n,caption\n" if path.suffix == ".csv" else "[")
        for n in range(rows):
            if path.suffix == ".csv":
                out.write(f'r{n},{n},"{text}"\n')
            else:
                out.write(f'{"," if n else ""}{{"custom_id":"r{n}","n":{n},"caption":"{text}"}}\n')
        if path.suffix == ".json":
            out.write("]")


def _measured(folder: Path, what: str, path: Path) -> Found:
    command = (sys.executable, "-m", "tests.benchmarks.files", what, str(path))
    ended = measured(command, folder=folder, seconds_max=SECONDS_MAX, environment={"PYTHONPATH": str(ROOT)})
    assert ended.exit_code == 0, ended.stderr
    found: Found = msgspec.json.decode(ended.stdout)
    return found


def _figure(name: str, value: float, unit: str, **bounds: float | None) -> Figure:
    return Figure(benchmark="files", name=name, value=value, unit=unit, **bounds)


# --- in a process of its own


def _read(path: Path) -> int:
    reading = ReadOptions(settings=InputSettings())
    return sum(isinstance(item, Row) for item in read_inputs([str(path)], reading))


def _write(path: Path) -> int:
    rows = int(path.name.partition(".")[0])
    flatten = () if path.suffix == ".jsonl" else ("output.caption", "output.n")
    form = form_of(path, OutputSettings(flatten=flatten), (), is_errors=False)
    with OutcomeFile(path, form) as file:
        for outcome in _outcomes(rows):
            file.write((outcome,))
        file.finish()
        commit_together(file.parts)
    return rows


def _outcomes(rows: int) -> Iterator[WrittenOutcome]:
    for n in range(rows):
        output = msgspec.Raw(b'{"caption":"a lighthouse in fog","n":%d,"more":[1,2,3]}' % n)
        line = ResultLine(
            custom_id=f"r{n}", job_id="j", output=output, attempts=1, paid_at_most=1, delay_ms=5, execution_ms=6
        )
        yield WrittenOutcome(number=n, line=line)


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RSS_UNIT / 1e6


def main() -> None:
    """Reads or writes one file, and prints what that took of this process."""
    what, name = sys.argv[1:]
    before, began = _peak_mb(), time.process_time()
    rows = {"read": _read, "write": _write}[what](Path(name))
    print(json.dumps({"rows": rows, "seconds": time.process_time() - began, "mb": _peak_mb() - before}))


if __name__ == "__main__":
    main()
