"""The limits that come with answers: their grammar and their meaning (contract, Limits)."""

from typing import Any

import pytest
from hypothesis import given

from orchestrator.core.limits.ratelimit_headers import ListMember, Window, parse_list, read_windows
from tests.texts import texts

SECOND = 1_000_000
NOW = 1_000 * SECOND

LIMIT = '"minute";r=58;t=21, "hour";r=2950;t=1500, "day";r=49000;t=40000'
POLICY = '"minute";q=60;w=60, "hour";q=3000;w=3600, "day";q=50000;w=86400'


# --- structured fields -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "members"),
    [
        ("", []),
        ("a", [("a", {})]),
        (' "a b" ,\t"c"', [("a b", {}), ("c", {})]),
        (r'"a\"\\b"', [('a"\\b', {})]),
        ('"a, b";x=1,c', [("a, b", {"x": 1}), ("c", {})]),
        ("a;x;y=?0;z=?1", [("a", {"x": True, "y": False, "z": True})]),
        ("a; x=-1.5; x=2", [("a", {"x": 2})]),
        ("-12, 1.5, ?1, *t/u:v", [(-12, {}), (1.5, {}), (True, {}), ("*t/u:v", {})]),
    ],
)
def test_lists_are_parsed_as_the_rfc_says(text: str, members: list[tuple[Any, Any]]) -> None:
    assert parse_list(text) == tuple(ListMember(value, parameters) for value, parameters in members)


@pytest.mark.parametrize(
    "text",
    ['"a', "a,", ",a", "a b", "a;", "a;X=1", "a;x=", "(a b)", ":YQ==:", "1.", "1.2345", "é", "a,,b", "a ;x=1", '"\\a"'],
)
def test_a_list_that_breaks_the_grammar_is_no_list(text: str) -> None:
    assert parse_list(text) is None


@given(texts(max_size=40))
def test_no_text_breaks_the_parser(text: str) -> None:
    parse_list(text)
    read_windows(text, text, NOW)


# --- windows ---------------------------------------------------------------------------------------------------------


def test_the_three_windows_are_read() -> None:
    """Contract, Limits 1 to 3."""
    assert read_windows(LIMIT, POLICY, NOW) == (
        Window(name="minute", remaining=58, reset_at=NOW + 21 * SECOND, quota=60, window_s=60),
        Window(name="hour", remaining=2950, reset_at=NOW + 1500 * SECOND, quota=3000, window_s=3600),
        Window(name="day", remaining=49000, reset_at=NOW + 40000 * SECOND, quota=50000, window_s=86400),
    )


@pytest.mark.parametrize(
    ("limit", "policy", "windows"),
    [
        (None, None, ()),
        ("", "", ()),
        ("minute;r=1;t=2", None, (Window(name="minute", remaining=1, reset_at=NOW + 2 * SECOND),)),
        (None, '"minute";q=60', (Window(name="minute", quota=60),)),
        ('"minute";r=1', None, ()),
        ('"minute";r=1.5;t=2', None, ()),
        ('"minute";r=-1;t=2', None, ()),
        ('"minute";r;t=2', None, ()),
        ('"minute";r=1;t=9999999999', None, ()),
        ("1;r=1;t=2", None, ()),
        ("broken;", '"minute";q=60;w=60', (Window(name="minute", quota=60, window_s=60),)),
    ],
)
def test_what_is_missing_or_makes_no_sense_is_left_out(limit: Any, policy: Any, windows: Any) -> None:
    """Contract, Limits 4: both headers are optional."""
    assert read_windows(limit, policy, NOW) == windows
