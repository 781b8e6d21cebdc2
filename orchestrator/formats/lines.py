"""Lines of a byte stream, none of them longer in memory than a bound."""

from collections.abc import Iterator
from typing import BinaryIO, Final

from orchestrator.units import MIB

SKIP_BYTES: Final = MIB
"""How much of an overlong line is read, and dropped, at a time."""


def bounded_lines(stream: BinaryIO, line_bytes_max: int) -> Iterator[bytes | None]:
    """The lines of `stream` with their line ends; None in place of each line that is longer than `line_bytes_max`.

    The last line needs no line end. Of an overlong line never more than `line_bytes_max` + 2 bytes are held.
    """
    # Two bytes more than the longest line, so that CR LF fits behind it.
    read_bytes = line_bytes_max + 2
    while line := stream.readline(read_bytes):
        if len(line) < read_bytes or line.endswith(b"\n"):
            yield line
        else:
            _skip_line(stream)
            yield None


def _skip_line(stream: BinaryIO) -> None:
    while (rest := stream.readline(SKIP_BYTES)) and not rest.endswith(b"\n"):
        pass
