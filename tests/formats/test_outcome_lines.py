"""The lines of the results and the errors file: key order, and outputs whose tokens stay as they are."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.formats.outcome_lines import error_line, result_line
from tests.texts import texts

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts()
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(texts(), inner), max_leaves=6)


def line_of(output: bytes | None) -> bytes:
    return result_line(custom_id="a", job_id="j", output=output, attempts=1, delay_ms=None, execution_ms=None)


def test_a_result_line_has_its_keys_in_their_order() -> None:
    line = result_line(custom_id="é", job_id="j-1", output=b'{"b":1,"a":2}', attempts=2, delay_ms=5, execution_ms=70)

    assert (
        line
        == (
            '{"custom_id":"é","job_id":"j-1","status":"COMPLETED","output":{"b":1,"a":2},"attempts":2,'
            '"delay_ms":5,"execution_ms":70}\n'
        ).encode()
    )


def test_what_is_not_known_about_a_result_is_null() -> None:
    line = result_line(custom_id="a", job_id=None, output=None, attempts=1, delay_ms=None, execution_ms=None)

    assert line == (
        b'{"custom_id":"a","job_id":null,"status":"COMPLETED","output":null,"attempts":1,'
        b'"delay_ms":null,"execution_ms":null}\n'
    )


def test_an_error_line_has_its_keys_in_their_order() -> None:
    line = error_line(custom_id="a", job_id="j", status="FAILED", trouble="failed", message="two\nlines", attempts=3)

    assert line == (
        b'{"custom_id":"a","job_id":"j","status":"FAILED","error":{"class":"failed","message":"two\\nlines"},'
        b'"attempts":3}\n'
    )


@given(st.text(st.characters()))
def test_any_message_fits_on_an_error_line(message: str) -> None:
    line = error_line(custom_id="a", job_id=None, status=None, trouble="rejected", message=message, attempts=0)

    assert line.count(b"\n") == 1
    assert json.loads(line)["error"]["message"] == message.encode(errors="backslashreplace").decode()


@given(values, st.sampled_from([None, 1, 4]), st.booleans())
def test_an_output_loses_its_white_space_and_nothing_else(value: object, indent: int | None, ascii_only: bool) -> None:
    pretty = json.dumps(value, indent=indent, ensure_ascii=ascii_only).replace("\n", "\r\n\t")
    compact = json.dumps(value, separators=(",", ":"), ensure_ascii=ascii_only)

    assert f',"output":{compact},"attempts"'.encode() in line_of(pretty.encode())


@pytest.mark.parametrize(
    "output", [b"123456789012345678901234567890", b"1e999", b"1E+05", b"-0.0", b'"\\u00e9\\/"', b'{"b":1,"a":2,"b":3}']
)
def test_the_tokens_of_an_output_stay_as_they_came(output: bytes) -> None:
    assert b'"output":' + output + b"," in line_of(output)


@pytest.mark.parametrize("output", [b"", b'{"a":', b"NaN", b"1 2", b'"\xff"', b'"\\ud800"', b'"\n"', b"[1,]", b"01"])
def test_what_is_not_one_json_document_is_no_output(output: bytes) -> None:
    with pytest.raises(ValueError, match=r"JSON|truncated|utf-8"):
        line_of(output)


@given(st.binary())
def test_bytes_become_one_line_of_json_or_a_value_error(output: bytes) -> None:
    try:
        line = line_of(output)
    except ValueError:
        return
    assert line.count(b"\n") == 1
    assert json.loads(line)["output"] == json.loads(output)
