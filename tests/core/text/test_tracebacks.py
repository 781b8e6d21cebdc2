"""Tracebacks in what workers said."""

import json

from orchestrator.core.text.tracebacks import DEPTH_MAX, tracebacks_in

TRACE = "Traceback (most recent call last):\n  File \"w.py\", line 3, in run\nKeyError: 'x'"


def test_one_in_a_string_of_json_has_its_lines_again() -> None:
    assert tracebacks_in(json.dumps({"error_type": "KeyError", "error_traceback": TRACE + "\n"})) == [TRACE]
    assert tracebacks_in(json.dumps(json.dumps({"error": {"deep": [TRACE, 3, None]}}))) == [TRACE]
    assert tracebacks_in(json.dumps([TRACE, TRACE])) == [TRACE]


def test_one_in_plain_text_begins_where_it_does() -> None:
    assert tracebacks_in(f"it broke\n{TRACE}") == [TRACE]
    assert tracebacks_in(f"{{ no json\n{TRACE}") == [TRACE]


def test_without_one_there_is_none() -> None:
    assert tracebacks_in("") == tracebacks_in("CUDA out of memory") == tracebacks_in('{"error": "x"}') == []
    assert tracebacks_in("[" * 100_000) == []


def test_what_is_nested_too_deep_is_not_looked_into() -> None:
    deep: object = TRACE
    for _ in range(DEPTH_MAX + 1):
        deep = [deep]
    assert tracebacks_in(json.dumps(deep)) == []
