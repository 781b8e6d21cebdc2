"""Lines of an input, none of them longer in memory than a bound."""

import os
import stat
from collections.abc import Callable, Iterator
from typing import BinaryIO, Final, NamedTuple, TypeVar

from orchestrator.formats.input.rows import RowProblem
from orchestrator.formats.input.unsupported import START_BYTES, not_json_lines
from orchestrator.formats.text.compression import DamagedInputError
from orchestrator.units import MIB

SKIP_BYTES: Final = MIB
"""How much of an overlong line is read, and dropped, at a time."""

BLANK_BYTES_MAX: Final = 256 * 1024
"""More white space than this between two rows is a bomb: packed, a gigabyte of it takes a megabyte."""

TOO_LARGE_ADVICE: Final = "put large data into storage and send its URL"

Made = TypeVar("Made")

_WHITE_SPACE: Final = b" \t\r\n"
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


def read_lines(
    stream: BinaryIO, read: Callable[[int, bytes], Made], *, line_bytes_max: int
) -> Iterator[Made | RowProblem]:
    """What `read` makes of each line of JSON lines in `stream`, of its number from 1 on and its text.

    Blank lines are left out, and white space around a line. An input that is something else ends with its first line.
    """
    size, number, is_begun = _size(stream), 0, False
    for number, line in enumerate(bounded_lines(stream, line_bytes_max), start=1):
        text = _text(line, number)
        if text and not is_begun:
            if told := not_json_lines(text):
                yield RowProblem(line=number, text=told)
                return
            is_begun = True
        if isinstance(line, Overlong):
            yield RowProblem(
                line=number, text=f"longer than {line_bytes_max:,} bytes; {TOO_LARGE_ADVICE}", is_oversize=True
            )
        elif text:
            yield read(number, text)
    if size is not None and stream.tell() < size:
        yield RowProblem(line=number + 1, text="the file became shorter while it was read")


def _text(line: "bytes | Overlong", number: int) -> bytes:
    """What stands in a line, or at the start of an overlong one, without white space around it."""
    text = line.start if isinstance(line, Overlong) else line
    return (text.removeprefix(_BYTE_ORDER_MARK) if number == 1 else text).strip(_WHITE_SPACE)


def _size(stream: BinaryIO) -> int | None:
    """How long a file is that has a length, else None."""
    try:
        found = os.fstat(stream.fileno())
    except OSError:  # not even a file
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


class Overlong(NamedTuple):
    """A line that is too long to be held."""

    start: bytes
    """How it begins."""


def bounded_lines(stream: BinaryIO, line_bytes_max: int) -> Iterator[bytes | Overlong]:
    """The lines of `stream` with their line ends; an `Overlong` for each line that is longer than `line_bytes_max`.

    The last line needs no line end. Of an overlong line never more than `line_bytes_max` + 2 bytes are held. Raises
    `DamagedInputError` behind `BLANK_BYTES_MAX` of blank lines.
    """
    # Two bytes more than the longest line, so that CR LF fits behind it.
    read_bytes, blank = line_bytes_max + 2, 0
    while line := stream.readline(read_bytes):
        if line.isspace():
            blank += len(line)
            check_blank(blank)
        elif blank:
            blank = 0
        if len(line) < read_bytes or line.endswith(b"\n"):
            yield line
        else:
            _skip_line(stream)
            yield Overlong(line[:START_BYTES])


def check_blank(size: int) -> None:
    """Raises `DamagedInputError` where so much white space behind each other is no input any more."""
    if size > BLANK_BYTES_MAX:
        raise DamagedInputError(f"more than {BLANK_BYTES_MAX:,} bytes of nothing but blank lines behind each other")


def _skip_line(stream: BinaryIO) -> None:
    while (rest := stream.readline(SKIP_BYTES)) and not rest.endswith(b"\n"):
        pass
