"""Compact JSON: every token as it came, and no white space between them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.text.json_compact import compact, without_mark
from tests.texts import texts

values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | texts(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts(), inner, max_size=4),
)


@given(values, st.sampled_from([None, 1, 4]), st.booleans())
def test_white_space_goes_and_nothing_else(value: Any, indent: int | None, ascii_only: bool) -> None:
    raw = json.dumps(value, indent=indent, ensure_ascii=ascii_only, separators=(" , ", " : "))
    dense = json.dumps(value, ensure_ascii=ascii_only, separators=(",", ":"))
    try:
        expected = dense.encode()
    except UnicodeEncodeError:
        return

    assert compact(raw.encode()) == expected


@given(values)
def test_compacting_twice_is_compacting_once(value: Any) -> None:
    once = compact(json.dumps(value).encode())

    assert compact(once) == once
    assert b"\n" not in once


def test_numbers_and_keys_stay_as_they_are_written() -> None:
    raw = b' { "b" : 1.50e+3 , "a":123456789012345678901234567890, "b" : -0 }\n'

    assert compact(raw) == b'{"b":1.50e+3,"a":123456789012345678901234567890,"b":-0}'


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"1 2", b"NaN", b"[1,]", b"'a'", b'"\xff"', b'{"a":\xc3}', b"01", b'"\\ud800"', b'"\n"']
)
def test_what_is_not_one_json_document_is_refused(raw: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  the message is the library's
        compact(raw)


def test_absurd_nesting_is_refused() -> None:
    with pytest.raises(RecursionError):
        compact(b"[" * 100_000 + b"]" * 100_000)


@given(st.binary())
def test_bytes_become_one_line_of_json_or_a_value_error(raw: bytes) -> None:
    try:
        line = compact(raw)
    except ValueError:
        return
    assert b"\n" not in line
    assert json.loads(line) == json.loads(raw)


def test_a_byte_order_mark_is_no_part_of_json() -> None:
    assert without_mark(b'\xef\xbb\xbf{"a": 1}') == b'{"a": 1}'
    assert without_mark(b"[]") == b"[]"
