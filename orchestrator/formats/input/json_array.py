"""One JSON array, cut into its elements as it streams: each stays the text that it was.

Only strings, brackets and commas are looked at. Whether an element is JSON is found out by whoever reads it.
"""

import re
from collections.abc import Iterator
from typing import BinaryIO, Final, NamedTuple

from orchestrator.formats.input.lines import check_blank
from orchestrator.formats.input.rows import RowProblem

READ_BYTES: Final = 256 * 1024

_WHITE_SPACE: Final = b" \t\r\n"
_TOKEN: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|["{}\[\],]', re.DOTALL)
"""A whole string, or the quote of one whose end is still to be read. Possessive: see `custom_id`."""

_OPENING: Final = (b"{", b"[")
_CLOSING: Final = (b"}", b"]")


class Element(NamedTuple):
    """The text of one element, without white space around it; `number` counts from 1."""

    number: int
    text: bytes


def elements(stream: BinaryIO, *, bytes_max: int) -> Iterator[Element | RowProblem]:
    """The elements of the array that `stream` holds from its first bracket on.

    Where it cannot be cut any further, a `RowProblem` ends them; an element of more than `bytes_max` bytes is such a
    place. Never much more than that is held.
    """
    held, number = _from_bracket(stream), 0
    while True:
        begin = 0
        for end in _ends(held):
            text, begin = held[begin : end.start()].strip(_WHITE_SPACE), end.end()
            number += 1
            if text:
                yield Element(number, text)
            elif end[0] == b"," or number > 1:
                yield RowProblem(line=number, text="there is nothing between two commas, or behind the last one")
            if end[0] == b"]":
                if _has_more(held[begin:], stream):
                    yield RowProblem(line=number + 1, text="more text behind the end of the array")
                return
        held = held[begin:]
        if len(held) > bytes_max:
            yield RowProblem(
                line=number + 1, text=f"longer than {bytes_max:,} bytes; what comes behind it was not read"
            )
            return
        more = stream.read(
            max(READ_BYTES, len(held))
        )  # twice as long, so that a long element is not looked at for ever
        if not more:
            yield RowProblem(line=number + 1, text="the array ends too early: its closing bracket is missing")
            return
        held += more


def _ends(held: bytes) -> Iterator[re.Match[bytes]]:
    """The commas, or the bracket, behind each element that `held` has the whole of."""
    depth = 0
    for token in _TOKEN.finditer(held):
        what = token[0]
        if what == b'"':  # the string goes on in what is still to be read
            return
        if depth == 0 and what in (b",", b"]"):
            yield token
        elif what in _OPENING:
            depth += 1
        elif what in _CLOSING:
            depth -= 1


def _from_bracket(stream: BinaryIO) -> bytes:
    """The first bytes behind the opening bracket, with whatever stands before it (a mark, white space) gone."""
    held = stream.read(READ_BYTES)
    return held[held.index(b"[") + 1 :]


def _has_more(held: bytes, stream: BinaryIO) -> bool:
    blank = 0
    while not held.strip(_WHITE_SPACE):
        blank += len(held)
        check_blank(blank)
        held = stream.read(READ_BYTES)
        if not held:
            return False
    return True
