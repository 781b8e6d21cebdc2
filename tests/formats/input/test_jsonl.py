"""Reading JSON Lines: what becomes a row, and what every bad line is told."""

import errno
import hashlib
import io
import json
import os
import re
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.text.durations import Policy
from orchestrator.formats.input.jsonl import BODY_BYTES_MAX, LINE_BYTES_EXTRA
from orchestrator.formats.input.rows import Row, RowProblem
from tests.formats.input_files import read_rows
from tests.texts import texts

ENVIRON = {"S3_ID": "id-1234", "S3_SECRET": "secret-5678", "EMPTY": ""}

short_texts = texts(max_size=6)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | short_texts
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(short_texts, inner, max_size=3), max_leaves=4
)
objects = st.dictionaries(short_texts, values, min_size=1, max_size=4)
bare_inputs = objects.filter(lambda parsed: "custom_id" not in parsed and "input" not in parsed)
custom_ids = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=40)


def read(*lines: bytes | str, **options: object) -> list[Row | RowProblem]:
    data = b"\n".join(line.encode() if isinstance(line, str) else line for line in lines)
    return list(read_rows(io.BytesIO(data), environ=ENVIRON, **options))


def row(line: bytes | str, **options: object) -> Row:
    (item,) = read(line, **options)
    assert isinstance(item, Row), item
    return item


def problem(line: bytes | str, **options: object) -> str:
    (item,) = read(line, **options)
    assert isinstance(item, RowProblem), item
    assert item.line == 1
    return item.text


def test_a_line_in_job_form_gives_its_parts() -> None:
    line = (
        b'{"custom_id":"a","input":{"n":1e5,"s":"\\u00e9"},"policy":{"ttl":10000,"executionTimeout":5000},'
        b'"s3Config":{"accessSecret":"env:S3_SECRET","accessId":"env:S3_ID","bucketName":"b"},"priority":-3}'
    )

    assert row(line) == Row(
        line=1,
        custom_id="a",
        derived=False,
        input=b'{"n":1e5,"s":"\\u00e9"}',
        digest=hashlib.sha256('{"n":100000.0,"s":"é"}'.encode()).digest(),
        policy=b'{"executionTimeout":5000,"ttl":10000}',
        s3_config=b'{"accessId":"env:S3_ID","accessSecret":"env:S3_SECRET","bucketName":"b"}',
        priority=-3,
    )


def test_without_an_input_object_the_whole_line_is_the_input() -> None:
    bare = row(b' { "prompt" : "cat", "policy": 5 }\r')

    assert bare.input == b'{ "prompt" : "cat", "policy": 5 }'
    assert (bare.policy, bare.s3_config) == (None, None)


@pytest.mark.parametrize(
    ("line", "sent"),
    [
        (b'{"custom_id":"x","a":1}', b'{"a":1}'),
        (b'{"a":1,"custom_id":"x"}', b'{"a":1}'),
        (b'{"a":1e5 , "custom_id" : "x" , "b":"\\u00e9"}', b'{"a":1e5 ,  "b":"\\u00e9"}'),
        (b'{"a":[1,{"custom_id":"y"}], "custom_id":"x" }', b'{"a":[1,{"custom_id":"y"}]}'),
        (b'{"custom\\u005fid":"x","a":"\\"custom_id\\":"}', b'{"a":"\\"custom_id\\":"}'),
        (b'{"a":"custom_id","custom_id":"x","b":"}"}', b'{"a":"custom_id","b":"}"}'),
        (b'{"a":"\\"custom_id","custom_id":"x"}', b'{"a":"\\"custom_id"}'),
        (b'{"custom_id":"x","a":"custom_id"}', b'{"a":"custom_id"}'),
        (b'{"a":"\\u00e9","custom_id":"x"}', b'{"a":"\\u00e9"}'),
    ],
)
def test_a_custom_id_is_cut_out_and_every_other_token_stays(line: bytes, sent: bytes) -> None:
    bare = row(line)

    assert (bare.custom_id, bare.derived, bare.input) == ("x", False, sent)


@given(bare_inputs, custom_ids, st.integers(0, 5), st.booleans(), st.sampled_from([(", ", ": "), (",", ":")]))
def test_any_object_comes_through_whole_wherever_its_custom_id_stands(
    parsed: dict[str, object], custom_id: str, position: int, ascii_only: bool, separators: tuple[str, str]
) -> None:
    members = list(parsed.items())
    members.insert(position, ("custom_id", custom_id))

    bare = row(json.dumps(dict(members), ensure_ascii=ascii_only, separators=separators))

    assert bare.custom_id == custom_id
    assert json.loads(bare.input) == parsed


@given(objects)
def test_the_input_of_a_job_line_is_passed_on_byte_for_byte(parsed: dict[str, object]) -> None:
    text = json.dumps(parsed, ensure_ascii=False)

    assert row(f'{{"input": {text} }}').input == text.encode()


@given(st.binary() | texts().map(str.encode) | values.map(lambda value: json.dumps(value).encode()))
def test_no_bytes_make_the_reader_raise(data: bytes) -> None:
    for item in read(data):
        if isinstance(item, Row):
            assert json.loads(item.input)
        else:
            assert item.text


@given(objects, st.randoms(use_true_random=False))
def test_key_order_and_white_space_do_not_change_the_digest(parsed: dict[str, object], chance: object) -> None:
    backwards = dict(reversed(parsed.items()))

    one, two = row(json.dumps({"input": parsed})), row(json.dumps({"input": backwards}, indent=1).replace("\n", " "))

    assert one.digest == two.digest
    assert one.derived
    assert one.custom_id == two.custom_id == one.digest.hex()[:16]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a":1}', '{"a":1.0}'),
        ('{"a":1e400}', '{"a":1e401}'),
        ('{"a":123456789012345678901234567890}', '{"a":123456789012345678901234567891}'),
        ('{"a":"1"}', '{"a":1}'),
    ],
)
def test_inputs_that_differ_have_different_digests(one: str, other: str) -> None:
    assert row(one).digest != row(other).digest


def test_numbers_of_any_size_are_passed_on_as_they_came() -> None:
    for number in ("1e999", "-1E+999", "9" * 5000, "0.1000000000000000055511151231257827", "-0", "1e-400"):
        assert row(f'{{"b":2,"a":{number}}}').input == f'{{"b":2,"a":{number}}}'.encode()


def test_a_number_out_of_range_leaves_the_rest_of_the_digest_canonical() -> None:
    assert row('{"b":1e5, "a":1e999}').digest == row('{"a":1e999,"b":100000.0}').digest


def test_blank_lines_a_byte_order_mark_and_any_line_end_are_fine() -> None:
    items = read(b'\xef\xbb\xbf{"a":1}\r', b"", b" \t\r", b'{"a":2}')

    assert [(item.line, item.input) for item in items if isinstance(item, Row)] == [(1, b'{"a":1}'), (4, b'{"a":2}')]
    assert read(b"") == []
    assert read(b"\xef\xbb\xbf\n") == []


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b'{"a":"\xff"}', "not valid UTF-8: byte 0xff at position 7; save the file as UTF-8"),
        (b'{"a":1,}', "not JSON: expecting property name enclosed in double quotes, at column 8"),
        (b"{'a':1}", "not JSON: expecting property name enclosed in double quotes, at column 2"),
        (b'{"a":"x', "not JSON: it ends too early; each line must hold one whole object"),
        (b'{"a":1} {"a":2}', "not JSON: more text after the first value, at column 9; write one object a line"),
        (b'{"a":NaN}', "not JSON: NaN is not a JSON number; write null or a string"),
        (b'{"a":-Infinity}', "not JSON: -Infinity is not a JSON number; write null or a string"),
        (
            b'{"a":"\\ud83d"}',
            r"not JSON: half of a surrogate pair, an escape such as \ud83d without the other half after it",
        ),
        (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "not usable: nested too deeply"),
        (b'"x"', "a string, not an object; write one object a line"),
        (b"5", "a number, not an object; write one object a line"),
        (b"null", "null, not an object; write one object a line"),
        (b"true", "true, not an object; write one object a line"),
        (b"{}", "the input is empty; the service would drop the job"),
        (b'{"custom_id":"a"}', "the input is empty; the service would drop the job"),
        (b'{"input":{ }}', "the input is empty; the service would drop the job"),
        (b'{"input":null}', "input must be an object, not null"),
        (b'{"input":"cat","policy":{}}', "input must be an object, not a string"),
        (b'{"input":[1],"s3Config":{}}', "input must be an object, not an array"),
        (b'{"input":1,"webhook":"u"}', "input must be an object, not a number"),
        (b'{"input":{"a":1},"webhook":"u"}', "webhook cannot be set for a row; use <setting webhook-url> for the run"),
        (b'{"input":{"a":1},"customId":"u"}', 'unknown key "customId" beside input; did you mean custom_id?'),
        (
            b'{"input":{"a":1},"x":1}',
            'unknown key "x" beside input; a line in job form takes input, custom_id, policy, s3Config, priority, metadata',
        ),
        (b'{"input":{"a":1},"priority":11}', "priority must be a whole number from -10 to 10, not 11"),
        (b'{"input":{"a":1},"priority":true}', "priority must be a whole number from -10 to 10, not true"),
        (b'{"input":{"a":1},"priority":"\xc3\xa9"}', 'priority must be a whole number from -10 to 10, not "é"'),
        (
            b'{"input":{"a":1},"policy":{"ttl":1}}',
            "policy.ttl is 1 ms; the service takes 10000 (10 s) to 604800000 (7 days)",
        ),
        (b'{"custom_id":5,"a":1}', "custom_id must be a string, not a number"),
        (b'{"custom_id":null,"input":{"a":1}}', "custom_id must be a string, not null"),
        (b'{"custom_id":"","a":1}', "custom_id has 0 characters; it takes 1 to 256"),
        (b'{"custom_id":"%b","a":1}' % (b"x" * 257), "custom_id has 257 characters; it takes 1 to 256"),
        (b'{"custom_id":"a\\nb","a":1}', "custom_id has a control character (U+000A) at position 2"),
        (b'{"custom_id":"a","custom_id":"b","c":1}', "custom_id stands twice in this line"),
        (b'{"custom_id":5,"custom_id":"b","c":1}', "custom_id stands twice in this line"),
    ],
)
def test_a_bad_line_is_told_what_is_wrong_with_it(line: bytes, text: str) -> None:
    assert problem(line) == text


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ('"x"', "s3Config must be an object with the keys accessId, accessSecret, bucketName, endpointUrl"),
        ('{"bucket_name":"b"}', 'there is no key "bucket_name" in s3Config; did you mean bucketName?'),
        ('{"x":1}', 'there is no key "x" in s3Config; its keys are accessId, accessSecret, bucketName, endpointUrl'),
        ('{"bucketName":1}', "s3Config.bucketName must be a string"),
        (
            '{"accessSecret":"hunter2"}',
            (
                "s3Config.accessSecret must name an environment variable, so that the secret itself is stored nowhere: "
                'set S3_ACCESS_SECRET and write "env:S3_ACCESS_SECRET"'
            ),
        ),
        (
            '{"accessId":"env:"}',
            (
                "s3Config.accessId must name an environment variable, so that the secret itself is stored nowhere: "
                'set S3_ACCESS_ID and write "env:S3_ACCESS_ID"'
            ),
        ),
        (
            '{"accessId":"env:NO_ID","accessSecret":"env:EMPTY"}',
            "s3Config refers to NO_ID and EMPTY, which the environment does not set",
        ),
    ],
)
def test_a_wrong_s3_config_is_told_what_is_wrong_and_never_shown(config: str, text: str) -> None:
    assert problem(f'{{"input":{{"a":1}},"s3Config":{config}}}') == text


def test_empty_and_null_settings_are_the_same_as_none() -> None:
    for settings in ('"policy":null,"s3Config":null', '"policy":{}', '"policy":{"ttl":null}'):
        assert (row(f'{{"input":{{"a":1}},{settings}}}').policy) is None


def test_an_s3_config_without_secrets_needs_no_environment() -> None:
    assert row('{"input":{"a":1},"s3Config":{"endpointUrl":"u"}}').s3_config == b'{"endpointUrl":"u"}'


def test_an_input_that_is_no_object_is_a_parameter_of_that_name() -> None:
    assert row(b'{"input":"text","model":"m","custom_id":"x"}').input == b'{"input":"text","model":"m"}'


def test_around_the_deepest_nesting_lines_are_read_or_refused_in_words() -> None:
    refused = RowProblem(line=1, text="not usable: nested too deeply")
    lines = [b'{"a":' + b"[" * depth + b"]" * depth + b"}" for depth in range(800, 1010)]

    items = [item for line in lines for item in read(line)]

    assert isinstance(items[0], Row)
    assert items[-1] == refused
    assert all(isinstance(item, Row) or item == refused for item in items)


def test_a_file_that_mixes_the_forms_is_told_where_it_began() -> None:
    bare, job, again = read('{"a":1}', '{"input":{"a":1}}', '{"a":2}')

    assert isinstance(bare, Row)
    assert isinstance(again, Row)
    assert job == RowProblem(
        line=2,
        text='this line is in job form ({"input": {...}, ...}), but line 1 is a bare input (no input object in it); '
        "keep to one form",
    )
    assert isinstance(read('{"input":{"a":1}}', '{"a":1}')[1], RowProblem)


def test_after_a_line_in_job_form_an_input_must_be_an_object() -> None:
    assert read('{"input":{"a":1}}', '{"input":"text"}')[1] == RowProblem(
        line=2, text="input must be an object, not a string"
    )


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b"{", "not JSON: it ends too early; each line must hold one whole object"),
        (b"[" * 100_000, "not usable: nested too deeply"),
        (b"[1]", "an array, not an object; write one object a line"),
        (b"a,b", "not JSON: expecting value, at column 1"),
    ],
)
def test_only_the_first_line_tells_what_kind_a_file_is_of(line: bytes, text: str) -> None:
    assert read(b'{"a":1}', line)[1:] == [RowProblem(line=2, text=text)]


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b'[{"a":1},\n{"a":2}]', "one JSON array"),
        (b"[\n{}\n]", "one JSON array"),
        (b'{\n "a": 1\n}', "JSON that goes over several lines"),
        (b"id,prompt\n1,a fox", "CSV"),
        (b'\xef\xbb\xbf"id";"prompt"\r\n1;2', "CSV"),
        (b"\n\nid\tpr\xc3\xb6mpt\n", "CSV"),
    ],
)
def test_a_text_of_another_kind_is_named_once_with_what_to_do(data: bytes, kind: str) -> None:
    (item,) = read(data)

    assert isinstance(item, RowProblem)
    assert f"looks like {kind}" in item.text
    assert item.text.endswith((" FILE > FILE.jsonl", " <setting format=json>", " <setting format=csv>"))
    assert "\n" not in item.text


def test_an_array_on_one_line_longer_than_any_is_named_too() -> None:
    (item,) = read(b'[{"a":"' + b"x" * (BODY_BYTES_MAX + LINE_BYTES_EXTRA) + b'"}]')

    assert isinstance(item, RowProblem)
    assert "looks like one JSON array" in item.text


def test_a_request_of_an_openai_batch_among_other_lines_is_told() -> None:
    line = b'{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"model":"m"}}'

    assert problem(line).startswith("this looks like a request of an OpenAI Batch file, and the first line does not")


@pytest.mark.parametrize(
    "line",
    [
        b'{"input":{"method":"POST","url":"u","body":{}}}',
        b'{"method":"POST","url":"u","body":"text"}',
        b'{"method":"POST","url":"u","body":{},"timeout":5}',
        b'{"inputs":"text"}',
        b'{"inputs":{"question":"?"},"parameters":{}}',
        b'{"output":{"a":1}}',
    ],
)
def test_what_only_resembles_another_form_is_an_input(line: bytes) -> None:
    assert isinstance(row(line), Row)


@pytest.mark.parametrize("key", ["inputs", "imput", "Input"])
def test_a_mistyped_input_is_told(key: str) -> None:
    line = f'{{"custom_id":"a","{key}":{{"prompt":"a fox"}},"policy":{{}}}}'

    assert (
        problem(line) == f'"{key}": did you mean input? An input that has it is written {{"input": {{"{key}": ...}}}}'
    )


def test_the_body_limit_counts_the_whole_request_exactly() -> None:
    line = (
        '{"input":{"a":1},"policy":{"ttl":10000},'
        '"s3Config":{"accessId":"env:S3_ID","accessSecret":"env:S3_SECRET","bucketName":"b"}}'
    )
    webhook = "https://example.org/hooks/1.00"
    body = {
        "input": {"a": 1},
        "policy": {"ttl": 10000, "lowPriority": True},
        "s3Config": {"accessId": "id-1234", "accessSecret": "secret-5678", "bucketName": "b"},
        "webhook": webhook,
    }
    size = len(json.dumps(body, separators=(",", ":")))
    options = {"run_policy": Policy(low_priority=True), "webhook_bytes": len(webhook)}

    assert row(line, body_bytes_max=size, **options).input == b'{"a":1}'
    assert problem(line, body_bytes_max=size - 1, **options) == (
        f"its request would have {size} bytes, over the limit of {size - 1}; put large data into storage and send its URL"
    )


def test_the_policy_of_the_run_counts_for_rows_that_have_none() -> None:
    size = len('{"input":{"a":1},"policy":{"ttl":10000}}')

    for line in ('{"a":1}', '{"input":{"a":1}}', '{"a":1,"custom_id":"x"}'):
        assert row(line, body_bytes_max=size, run_policy=Policy(ttl_ms=10_000)).policy is None
        assert "over the limit" in problem(line, body_bytes_max=size - 1, run_policy=Policy(ttl_ms=10_000))


def test_a_line_far_over_the_limit_is_skipped_and_the_next_is_read() -> None:
    long = b'{"a":"' + b"x" * (LINE_BYTES_EXTRA + 200) + b'"}'

    skipped, kept = read(long, b'{"a":1}', body_bytes_max=100)

    told = "longer than 65,636 bytes; put large data into storage and send its URL"
    assert skipped == RowProblem(line=1, text=told, is_oversize=True)
    assert isinstance(kept, Row)
    assert kept.line == 2


class _EndlessLine(io.RawIOBase):
    """A line of `size` bytes that exists nowhere."""

    def __init__(self, size: int) -> None:
        self._left = size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        count = min(len(buffer), self._left)
        buffer[:count] = b"x" * count
        self._left -= count
        return count


def test_memory_is_bounded_by_the_limit_and_not_by_the_line() -> None:
    stream = io.BufferedReader(_EndlessLine(100 * 1024 * 1024))
    tracemalloc.start()
    try:
        items: Iterator[Row | RowProblem] = read_rows(stream, environ={})
        assert [type(item) for item in items] == [RowProblem]
        assert tracemalloc.get_traced_memory()[1] < 3 * BODY_BYTES_MAX
    finally:
        tracemalloc.stop()


def test_a_secret_never_stands_in_a_row_or_a_problem() -> None:
    items = read(
        '{"input":{"a":1},"s3Config":{"accessId":"env:S3_ID","accessSecret":"env:S3_SECRET"}}',
        '{"input":{"a":1},"s3Config":{"accessId":"id-1234","accessSecret":"secret-5678"}}',
    )

    assert not re.search("id-1234|secret-5678", repr(items))


class Broken(io.RawIOBase):
    """A disk that can be read up to a point."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        if not self._data:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        given, self._data = self._data[: len(into)], self._data[len(into) :]
        into[: len(given)] = given
        return len(given)


def test_an_input_that_cannot_be_read_to_its_end_is_a_problem_of_the_line_where_it_broke() -> None:
    stream = io.BufferedReader(Broken(b'{"n":1}\nbad\n{"n":3}\n'))

    rows = list(read_rows(stream, environ=ENVIRON))

    assert [type(row) for row in rows] == [Row, RowProblem, Row, RowProblem]
    assert rows[-1] == RowProblem(line=4, text="from here on it cannot be read: Input/output error")


def test_a_file_that_becomes_shorter_while_it_is_read_is_not_taken_for_a_whole_one(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(b"".join(b'{"n":%d,"text":"%s"}\n' % (n, b"a" * 1_000) for n in range(1, 101)))
    with path.open("rb") as stream:
        rows = read_rows(stream, environ=ENVIRON)
        first = next(rows)
        os.truncate(path, path.stat().st_size // 100 * 50)
        *_, last = rows

    assert isinstance(first, Row)
    assert isinstance(last, RowProblem)
    assert "shorter while it was read" in last.text
