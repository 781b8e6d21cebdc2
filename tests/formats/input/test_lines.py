"""Lines of bounded length."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.formats.input.lines import Overlong, bounded_lines


@given(st.lists(st.binary().map(lambda line: line.replace(b"\n", b"")), max_size=8), st.integers(1, 12))
def test_lines_within_the_bound_come_whole_and_of_longer_ones_the_start(lines: list[bytes], bound: int) -> None:
    found = list(bounded_lines(io.BytesIO(b"".join(line + b"\n" for line in lines)), bound))

    assert len(found) == len(lines)
    for line, got in zip(lines, found, strict=True):
        start = Overlong((line + b"\n")[: bound + 2])
        assert got == line + b"\n" if len(line) <= bound else got in (start, line + b"\n")


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_a_line_as_long_as_the_bound_is_whole_with_every_line_end(end: bytes) -> None:
    assert list(bounded_lines(io.BytesIO(b"12345" + end), 5)) == [b"12345" + end]


def test_an_overlong_last_line_needs_no_line_end() -> None:
    assert list(bounded_lines(io.BytesIO(b"1\n" + b"2" * 5_000_000), 5)) == [b"1\n", Overlong(b"2222222")]
