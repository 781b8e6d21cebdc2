"""Job records in every form in which they come."""

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from orchestrator.core.service.job_record import (
    MESSAGE_CHARS_MAX,
    MILLISECONDS_MAX,
    Record,
    is_remote_id,
    plausible,
    read_members,
    read_record,
)
from tests.texts import CHARACTERS, texts

DEEP = b"[" * 100_000 + b"]" * 100_000


def read(body: bytes) -> Record:
    record = read_record(body)
    assert record is not None
    return record


# --- what is kept ----------------------------------------------------------------------------------------------------


def test_a_webhook_as_the_service_sends_it_is_read_whole() -> None:
    body = (
        b'{"delayTime":512,"executionTime":40,"id":"ab12-u1","input":{"n": 1},'
        b'"output":{"n": 2},"status":"COMPLETED","webhook":"https://example.com/hooks/1.mac","workerId":"w7"}'
    )

    assert read_record(body) == Record(
        remote_id="ab12-u1",
        status="COMPLETED",
        output=b'{"n":2}',
        delay_ms=512,
        execution_ms=40,
        worker_id="w7",
    )


def test_an_empty_object_is_a_record_that_says_nothing() -> None:
    assert read_record(b" {} ") == Record(remote_id=None, status="")


def test_a_bare_error_object_is_a_record_without_a_status() -> None:
    assert read_record(b'{"error":"job has expired"}') == Record(remote_id=None, status="", error="job has expired")


def test_unknown_fields_are_passed_over_whatever_they_hold() -> None:
    body = b'{"status":"FAILED","retries":1,"stream":[{"output":"x"}],"status2":null,"huge":' + b"9" * 5_000 + b"}"

    assert read_record(body) == Record(remote_id=None, status="FAILED")


def test_of_a_field_that_comes_twice_the_last_counts() -> None:
    assert read(b'{"status":"IN_PROGRESS","status":"COMPLETED"}').status == "COMPLETED"


@pytest.mark.parametrize("value", [b"null", b"1", b"1.5", b"true", b"[]", b"{}"])
@pytest.mark.parametrize("field", ["status", "workerId"])
def test_a_text_field_of_another_type_is_taken_as_absent(field: str, value: bytes) -> None:
    body = b'{"%s":%s,"output":{"kept":1}}' % (field.encode(), value)

    assert read_record(body) == Record(remote_id=None, status="", output=b'{"kept":1}')


def test_one_field_of_the_wrong_type_takes_no_other_with_it() -> None:
    body = b'{"id":"a-u1","status":"COMPLETED","output":[1],"delayTime":"soon","executionTime":7,"workerId":3}'

    assert read_record(body) == Record(remote_id="a-u1", status="COMPLETED", output=b"[1]", execution_ms=7)


def test_one_field_that_is_no_text_takes_no_other_with_it() -> None:
    body = b'{"id":"a-u1","status":"COMPLETED","output":1,"delayTime":"soon","workerId":"\xff"}'

    assert read_record(body) == Record(remote_id="a-u1", status="COMPLETED", output=b"1")


@pytest.mark.parametrize("remote_id", ["", "../x", "a/b", "a\n", "a" * 129, 1, 1.5, True, [], {}])
def test_an_id_that_must_not_enter_a_path_is_that_of_no_job_of_ours(remote_id: object) -> None:
    read_back = read(msgspec.json.encode({"id": remote_id, "status": "COMPLETED", "output": 1}))

    assert read_back == Record(remote_id=None, status="COMPLETED", output=b"1", is_misnamed=True)
    assert not read_back.may_be_of("a-u1")


def test_a_record_is_of_the_job_that_it_names_or_of_any_if_it_names_none() -> None:
    assert read(b'{"id":"a-u1"}').may_be_of("a-u1")
    assert not read(b'{"id":"a-u1"}').may_be_of("a-u2")
    assert read(b'{"id":null}').may_be_of("a-u1")
    assert read(b"{}").may_be_of("a-u1")


@given(st.from_regex(r"\A[A-Za-z0-9_-]{1,128}\Z", alphabet=CHARACTERS))
def test_every_id_of_the_right_form_is_usable(text: str) -> None:
    assert is_remote_id(text)


@pytest.mark.parametrize("value", [None, 5, b"ab", ["ab"], ""])
def test_what_is_no_text_is_no_id(value: object) -> None:
    assert not is_remote_id(value)


# --- output ----------------------------------------------------------------------------------------------------------


def test_an_output_of_null_is_not_an_absent_one() -> None:
    assert read(b'{"status":"COMPLETED","output":null}').output == b"null"
    assert read(b'{"status":"COMPLETED"}').output is None


def test_an_output_keeps_its_tokens_as_they_came() -> None:
    output = (
        b'{ "b" : 123456789012345678901234567890 ,\n "a" : [ 1.50 , 2e+3 , -0.0 , 1e999 , "\\u00e9 \\/" ] , "b" : 1 }'
    )

    assert read(b'{"output":' + output + b"}").output == (
        b'{"b":123456789012345678901234567890,"a":[1.50,2e+3,-0.0,1e999,"\\u00e9 \\/"],"b":1}'
    )


def test_a_number_longer_than_python_reads_is_kept() -> None:
    digits = b"9" * 5_000

    assert read(b'{"output":' + digits + b"}").output == digits


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts(), inner, max_size=4),
    max_leaves=20,
)


@given(JSON)
def test_any_output_comes_back_as_one_line_of_the_same_value(value: object) -> None:
    raw = msgspec.json.format(msgspec.json.encode(value), indent=3)
    output = read(b'{"status":"COMPLETED","output":' + raw + b"}").output

    assert output is not None
    assert b"\n" not in output
    assert output == msgspec.json.encode(value)


# --- error -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (b'"out of memory"', "out of memory"),
        (b'""', ""),
        (b'"caf\\u00e9"', "caf\N{LATIN SMALL LETTER E WITH ACUTE}"),
        (b"null", None),
        (b'{ "code" : 5, "why": "x" }', '{"code":5,"why":"x"}'),
        (b"[ 1 ]", "[1]"),
        (b"5", "5"),
        (b"false", "false"),
        (b"[1e999]", "[1e999]"),
    ],
)
def test_an_error_is_text_whatever_its_type(error: bytes, text: str | None) -> None:
    assert read(b'{"status":"FAILED" , "error" : ' + error + b" }").error == text


def test_a_number_in_an_error_that_python_cannot_read_does_not_cost_the_record() -> None:
    assert read(b'{"status":"FAILED","error":[' + b"9" * 5_000 + b"]}").status == "FAILED"


@pytest.mark.parametrize("error", [b'"' + b"x" * 100_000 + b'"', b'["' + b"x" * 100_000 + b'"]'])
def test_of_a_long_error_the_beginning_is_kept(error: bytes) -> None:
    assert len(read(b'{"error":' + error + b"}").error or "") == MESSAGE_CHARS_MAX


# --- durations -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "milliseconds"),
    [
        (b"0", 0),
        (b"512", 512),
        (b"512.9", 512),
        (b"1e3", 1_000),
        (b"-1", None),
        (b"-0.5", None),
        (b"null", None),
        (b'"512"', None),
        (b"true", None),
        (b"[512]", None),
        (str(MILLISECONDS_MAX).encode(), MILLISECONDS_MAX),
        (str(MILLISECONDS_MAX + 1).encode(), None),
        (b"9007199254740991", None),
        (b"1e400", None),
        (b"-1e400", None),
        (b"12345678901234567890123", None),
        (b"1e300", None),
    ],
)
def test_a_duration_is_a_sane_number_or_absent(value: bytes, milliseconds: int | None) -> None:
    read_back = read(b'{"status":"COMPLETED","delayTime":%s,"executionTime":%s}' % (value, value))

    assert (read_back.delay_ms, read_back.execution_ms) == (milliseconds, milliseconds)


@pytest.mark.parametrize("field", ["id", "status", "workerId", "delayTime", "executionTime"])
def test_a_number_that_nobody_can_read_costs_nothing_but_itself(field: str) -> None:
    body = b'{"%s":1e400,"output":{"kept":1},"error":"kept"}' % field.encode()

    assert read(body) == Record(
        remote_id=None, status="", output=b'{"kept":1}', error="kept", is_misnamed=field == "id"
    )


def test_a_time_is_not_longer_than_that_since_the_submission() -> None:
    minute = 60_000_000
    seconds = Record(remote_id="r-1", status="COMPLETED", delay_ms=5_000, execution_ms=20_000)
    days = Record(remote_id="r-1", status="COMPLETED", delay_ms=86_400_000, execution_ms=20_000)

    assert plausible(seconds, within_us=minute) is seconds
    assert plausible(seconds, within_us=-minute) is seconds, "clocks differ"
    assert plausible(days, within_us=minute) == msgspec.structs.replace(days, delay_ms=None)
    assert plausible(days, within_us=2 * 86_400_000_000) is days


def test_a_status_has_no_nul() -> None:
    record = read_record(rb'{"status":"FAI\u0000LED","error":"a\u0000b"}')
    assert record is not None
    assert (record.status, record.error) == ("FAI\ufffdLED", "a\0b")


# --- what cannot be decoded ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"null", id="null"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b'"COMPLETED"', id="a string"),
        pytest.param(b"<html></html>", id="HTML"),
        pytest.param(b'{"status":"COMPLETED","output":{"a":1', id="cut"),
        pytest.param(b'{"status":"COMPLETED"} {}', id="two documents"),
        pytest.param(b'{"status":"COMPLETED","output":NaN}', id="NaN"),
        pytest.param(b'{"status":"COMPLETED","output":[Infinity]}', id="Infinity"),
        pytest.param(b'{"status":"COMPLETED","input":NaN}', id="NaN in the echoed input"),
        pytest.param(b'{"status":"COMPLETED","output":["\\ud800",NaN]}', id="NaN beside half of a character"),
        pytest.param(b'{"status":"COMPLETED","output":"\xff"}', id="an output that is not UTF-8"),
        pytest.param(b'{"status":"FAILED","error":{"a":"\xff"}}', id="an error that is not UTF-8"),
        pytest.param(b'{"status":"\xff"}', id="a status that is not UTF-8"),
        pytest.param(b'{"status":"COMPLETED","output":' + DEEP + b"}", id="an absurdly nested output"),
        pytest.param(b'{"status":"FAILED","error":' + DEEP + b"}", id="an absurdly nested error"),
        pytest.param(b'{"status":"COMPLETED","input":' + DEEP + b"}", id="an absurdly nested input"),
        pytest.param(b'{"status":5,"input":' + DEEP + b"}", id="absurdly nested after a wrong type"),
        pytest.param(b'{"status":5,"output":NaN}', id="NaN after a wrong type"),
        pytest.param(b'{"status":"COMPLETED","output":"a\nb"}', id="a bare line break in a string"),
        pytest.param('{"status":"COMPLETED"}'.encode("utf-16"), id="UTF-16"),
    ],
)
def test_what_is_no_json_record_is_none(body: bytes) -> None:
    assert read_record(body) is None


@pytest.mark.parametrize(
    ("text", "read"),
    [
        pytest.param(rb"\ud800", rb"\ufffd", id="a first half"),
        pytest.param(rb"\uDFFF", rb"\ufffd", id="a second half"),
        pytest.param(rb"\ud83d\ud83d\ude00", rb"\ufffd\ud83d\ude00", id="before a whole one"),
        pytest.param(rb"\ude00\ud83d", rb"\ufffd\ufffd", id="the halves the wrong way round"),
        pytest.param(rb"\\ud83d\ud83d", rb"\\ud83d\ufffd", id="after a backslash that only looks like one"),
        pytest.param(rb"\\\ud83d", rb"\\\ufffd", id="after a backslash"),
        pytest.param(rb"\u0000\ud83d", rb"\u0000\ufffd", id="after a NUL"),
    ],
)
def test_half_of_a_character_costs_no_more_than_itself(text: bytes, read: bytes) -> None:
    body = b'{"status":"COMPLETED","output":"%b","error":"%b"}'
    record = read_record(body % (text, text))
    assert record == read_record(body % (read, read))
    assert record is not None
    assert record.output == b'"%b"' % read


KEYS = ["id", "status", "output", "error", "delayTime", "executionTime", "workerId", "other"]


@given(st.binary())
@example(b'{"output":' + DEEP)
@example(b'{"delayTime":1e999}')
def test_no_bytes_make_reading_raise(body: bytes) -> None:
    assert read_record(body) is None or isinstance(read_record(body), Record)


@pytest.mark.no_cover
@given(st.dictionaries(st.sampled_from(KEYS), JSON, max_size=8), st.data())
def test_no_record_however_typed_or_cut_makes_reading_raise(fields: dict[str, object], data: st.DataObject) -> None:
    whole = msgspec.json.encode(fields)
    cut = data.draw(st.integers(0, len(whole)))

    assert read_record(whole) is not None
    assert read_record(whole[:cut]) is None or cut == len(whole)


@pytest.mark.no_cover
@given(st.dictionaries(st.sampled_from(KEYS), JSON, max_size=8), st.data())
def test_no_damaged_byte_makes_reading_raise(fields: dict[str, object], data: st.DataObject) -> None:
    body = bytearray(msgspec.json.encode(fields))
    body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    record = read_record(bytes(body))

    assert record is None or record.remote_id is None or is_remote_id(record.remote_id)


# --- answers of every kind -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b" ", "the answer is empty"),
        (b"{", "the answer is not JSON"),
        (b"NaN", "the answer is not JSON"),
        (b'{"n":[1e999,NaN]}', "the answer is not JSON"),
        (b"[" * 100_000, "the answer is not JSON"),
        (b"[]", "the answer is no JSON object"),
    ],
)
def test_what_is_no_object_says_why(body: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{reason}$"):
        read_members(body)


def test_numbers_beyond_all_bounds_are_json_all_the_same() -> None:
    assert read_members(b'{"n":1e999}') == {"n": float("inf")}


@pytest.mark.parametrize(
    ("record", "has_begun"),
    [
        (Record(remote_id="r", status="IN_QUEUE"), False),
        (Record(remote_id="r", status="CANCELLED", execution_ms=0), False),
        (Record(remote_id="r", status="CANCELLED", execution_ms=3), True),
        (Record(remote_id="r", status="IN_PROGRESS", worker_id="w"), True),
    ],
)
def test_a_job_has_begun_that_a_worker_had(record: Record, has_begun: bool) -> None:
    assert record.has_begun is has_begun
