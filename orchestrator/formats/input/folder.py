"""A folder of text files: each is a record with its `name`, which is its id, too, and its `text`.

Hidden ones, folders in it, and what belongs to the run itself are left out.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from orchestrator.formats.input.rows import ID_FIELD, InputRecord, RowProblem


def files_in(folder: Path, is_left_out: Callable[[Path], bool]) -> list[Path]:
    """The files in `folder` that are records, in the order of their names. Raises `OSError`."""
    files = (path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    return sorted(path for path in files if not is_left_out(path))


def folder_records(files: Sequence[Path], *, bytes_max: int) -> Iterator[InputRecord | RowProblem]:
    """The records of these files, numbered from 1."""
    for number, path in enumerate(files, start=1):
        yield _record(number, path, bytes_max)


def _record(number: int, path: Path, bytes_max: int) -> InputRecord | RowProblem:
    try:
        with path.open("rb") as file:
            data = file.read(bytes_max + 1)
        if len(data) > bytes_max:
            return RowProblem(line=number, text=f"{path.name}: longer than {bytes_max:,} bytes", is_oversize=True)
        return InputRecord(number, {ID_FIELD: path.name, "name": path.name, "text": data.decode("utf-8-sig")})
    except OSError as error:
        return RowProblem(line=number, text=f"{path.name}: cannot be read ({error.strerror})")
    except UnicodeDecodeError as error:
        return RowProblem(line=number, text=f"{path.name}: byte {error.start + 1} is not UTF-8; is it a text file?")
