"""The lines of the results and the errors file: key order, and outputs whose tokens stay as they are."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.formats.output.outcome_lines import (
    ErrorClass,
    ErrorLine,
    OutcomeDetails,
    ResultLine,
    WrittenOutcome,
    encode_outcome,
)


def encoded(line: ResultLine | ErrorLine, more: OutcomeDetails | None = None) -> bytes:
    return encode_outcome(WrittenOutcome(number=1, line=line, more=more))


def result_line(*, output: bytes | None, **fields: Any) -> bytes:
    return encoded(ResultLine(output=msgspec.Raw(b"null" if output is None else output), **fields))


def error_line(*, trouble: str, message: str, **fields: Any) -> bytes:
    return encoded(ErrorLine(error=ErrorClass(trouble, message), **fields))


def line_of(output: bytes | None) -> bytes:
    return result_line(
        custom_id="a", job_id="j", output=output, attempts=1, paid_at_most=1, delay_ms=None, execution_ms=None
    )


def test_a_result_line_has_its_keys_in_their_order() -> None:
    line = result_line(
        custom_id="é", job_id="j-1", output=b'{"b":1,"a":2}', attempts=2, paid_at_most=4, delay_ms=5, execution_ms=70
    )

    assert (
        line
        == (
            '{"custom_id":"é","job_id":"j-1","status":"COMPLETED","output":{"b":1,"a":2},"attempts":2,"paid_at_most":4,'
            '"delay_ms":5,"execution_ms":70}\n'
        ).encode()
    )


def test_what_is_not_known_about_a_result_is_null() -> None:
    line = result_line(
        custom_id="a", job_id=None, output=None, attempts=1, paid_at_most=1, delay_ms=None, execution_ms=None
    )

    assert line == (
        b'{"custom_id":"a","job_id":null,"status":"COMPLETED","output":null,"attempts":1,"paid_at_most":1,'
        b'"delay_ms":null,"execution_ms":null}\n'
    )


def test_an_error_line_has_its_keys_in_their_order() -> None:
    line = error_line(
        custom_id="a", job_id="j", status="FAILED", trouble="failed", message="two\nlines", attempts=3, paid_at_most=5
    )

    assert line == (
        b'{"custom_id":"a","job_id":"j","status":"FAILED","error":{"class":"failed","message":"two\\nlines"},'
        b'"attempts":3,"paid_at_most":5}\n'
    )


def test_what_a_line_carries_besides_stands_behind_the_rest() -> None:
    line = ErrorLine(
        custom_id="a",
        job_id=None,
        status=None,
        error=ErrorClass("failed", "short", "all\ud83d of it"),
        attempts=1,
        paid_at_most=1,
        delay_ms=None,
        execution_ms=7,
    )
    more = OutcomeDetails(
        line=3, worker=None, sent_at="2026-01-01T00:00:00.000001Z", ended_at=None, input=msgspec.Raw(b'{"x":1e5}')
    )

    assert encoded(line, more) == (
        b'{"custom_id":"a","job_id":null,"status":null,"error":{"class":"failed","message":"short","text":"all\\\\ud83d of it"},'
        b'"attempts":1,"paid_at_most":1,"delay_ms":null,"execution_ms":7,"line":3,"worker":null,'
        b'"sent_at":"2026-01-01T00:00:00.000001Z","ended_at":null,"input":{"x":1e5}}\n'
    )
    assert encoded(line, OutcomeDetails()) == encoded(line)


@given(st.text(st.characters()))
def test_any_message_fits_on_an_error_line(message: str) -> None:
    line = error_line(
        custom_id="a", job_id=None, status=None, trouble="rejected", message=message, attempts=0, paid_at_most=0
    )

    assert line.count(b"\n") == 1
    assert json.loads(line)["error"]["message"] == message.encode(errors="backslashreplace").decode()


@pytest.mark.parametrize(
    "output", [b"123456789012345678901234567890", b"1e999", b"1E+05", b"-0.0", b'"\\u00e9\\/"', b'{"b":1,"a":2,"b":3}']
)
def test_the_tokens_of_an_output_stay_as_they_came(output: bytes) -> None:
    assert b'"output":' + output + b"," in line_of(output)
