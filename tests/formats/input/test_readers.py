"""The readers of inputs: what each format gives, and what each broken file is told."""

import gzip
import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from orchestrator.errors import UsageError
from orchestrator.formats.input import json_array
from orchestrator.formats.input.readers import ReadOptions, read_inputs
from orchestrator.formats.input.rows import Row, RowProblem
from orchestrator.formats.input.sources import InputPositions, sources_of
from orchestrator.settings.words_and_defaults import InputFormat
from tests.formats.input_files import Put, inputs, problems, read
from tests.texts import texts

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

REQUEST = {"custom_id": "r1", "method": "POST", "url": "/v1/chat/completions", "body": {"model": "m", "n": 1}}


def checked_zstd(data: bytes) -> bytes:
    """As the command `zstd` packs, with a checksum."""
    return zstd.compress(data, options={zstd.CompressionParameter.checksum_flag: 1})


# --- JSON


def test_a_json_array_is_read_by_its_elements_which_stay_as_they_are(put: Put) -> None:
    source = put("a.json", ' [ {"custom_id": "1", "n": 1e5, "s": "]"},\n{"big": 12345678901234567890123} ]\n')
    rows = read(source)
    assert [row.input for row in rows if isinstance(row, Row)] == [
        b'{ "n": 1e5, "s": "]"}',
        b'{"big": 12345678901234567890123}',
    ]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('[{"a":1},]', [(2, "there is nothing between two commas, or behind the last one")]),
        ('[{"a":1}', [(1, "the array ends too early: its closing bracket is missing")]),
        ('[{"a":1}] {', [(2, "more text behind the end of the array")]),
        ('[{"a":1}, 5]', [(2, "a number, not an object; write one object a line")]),
        ('[{"a":"x]', [(1, "the array ends too early: its closing bracket is missing")]),
        ('[{"a":"' + "x" * 500_000, [(1, "longer than 165,536 bytes; what comes behind it was not read")]),
    ],
)
def test_an_array_that_is_none_is_told_with_its_element(put: Put, content: str, told: list[tuple[int, str]]) -> None:
    assert problems(put("a.json", content)) == told


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts(max_size=4), inner, max_size=3),
    max_leaves=5,
)


@given(st.lists(json_values, max_size=5), st.integers(1, 7), st.booleans())
def test_an_array_is_cut_into_what_it_was_made_of(values: list[Any], step: int, is_spread: bool) -> None:
    class Slow(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(step)

    text = b" " * 0 + json.dumps(values, indent=1 if is_spread else None).encode()
    found = list(json_array.elements(Slow(text), bytes_max=10_000))
    assert [json.loads(each.text) for each in found if isinstance(each, json_array.Element)] == values
    assert [each.number for each in found if isinstance(each, json_array.Element)] == list(range(1, len(values) + 1))


# --- OpenAI Batch


def test_requests_of_a_batch_become_jobs_of_a_worker_that_takes_them(put: Put) -> None:
    source = put("batch.jsonl", json.dumps(REQUEST) + "\n")
    made = {"openai_route": "/v1/chat/completions", "openai_input": REQUEST["body"]}
    assert inputs(source) == [("r1", made)]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"method": "GET"}, 'method must be POST, not "GET"'),
        ({"url": "https://a/b"}, 'url must be a path, as in "/v1/chat/completions", not "https://a/b"'),
        ({"body": [1]}, "body must be an object, not an array"),
        ({"body": {"stream": True}}, "a job in the queue has no stream; leave stream out of the body"),
        (
            {"priority": 1},
            'unknown key "priority"; a request of an OpenAI Batch file has none but its four, and metadata',
        ),
        ({"custom_id": 5}, "custom_id must be a string, not a number"),
        ({"custom_id": None}, "custom_id must be a string, not null"),
    ],
)
def test_a_request_that_is_none_is_told(put: Put, change: dict[str, Any], told: str) -> None:
    lines = [json.dumps(REQUEST), json.dumps(REQUEST | change)]
    assert problems(put("batch.jsonl", "\n".join(lines))) == [(2, told)]


def test_around_the_deepest_nesting_requests_and_records_are_read_or_refused_in_words(put: Put) -> None:
    deep = ["[" * depth + "]" * depth for depth in range(600, 1_010)]
    requests = [json.dumps(REQUEST).replace('"n": 1', f'"n": {each}') for each in deep]
    found = read(put("batch.jsonl", "\n".join(requests)), format=InputFormat.OPENAI_BATCH)
    found += read(put("a.jsonl", "\n".join(f'{{"key": "k", "n": {each}}}' for each in deep)), id_field="key")
    assert len(found) == 2 * len(deep)
    assert {item.text for item in found if isinstance(item, RowProblem)} == {"not usable: nested too deeply"}


def test_a_request_without_an_id_is_told_which_one_it_needs(put: Put) -> None:
    line = json.dumps({key: value for key, value in REQUEST.items() if key != "custom_id"})
    told = "a request of an OpenAI Batch file has body, custom_id, method, url; custom_id is missing"
    assert problems(put("batch.jsonl", line)) == [(1, told)]


# --- Parquet


def test_parquet_has_one_form_in_json_for_each_of_its_values(put: Put, tmp_path: Path) -> None:
    import decimal
    from datetime import UTC, datetime, timedelta

    at = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
    table = pa.table(
        {
            "custom_id": ["1"],
            "n": [2**62],
            "x": [float("nan")],
            "day": [at.date()],
            "at": [at],
            "local": [at.replace(tzinfo=None)],
            "price": [decimal.Decimal("12.30")],
            "raw": [b"ab"],
            "took": pa.array([timedelta(seconds=90)]),
            "nested": [{"a": [1, None]}],
            "map": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
            "none": pa.array([None], pa.string()),
        }
    )
    parquet.write_table(table, tmp_path / "a.parquet")
    assert inputs(str(tmp_path / "a.parquet")) == [
        (
            "1",
            {
                "n": 2**62,
                "x": None,
                "day": "2026-01-02",
                "at": "2026-01-02T03:04:05.000006Z",
                "local": "2026-01-02T03:04:05.000006",
                "price": "12.30",
                "raw": "YWI=",
                "took": "PT90S",
                "nested": {"a": [1, None]},
                "map": {"k": 1},
                "none": None,
            },
        )
    ]


# --- packed, several, folders


@pytest.mark.parametrize("suffix", [".gz", ".zst", ""])
@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.json"])
def test_what_is_packed_is_told_by_its_first_bytes_and_unpacked(put: Put, name: str, suffix: str) -> None:
    content = {"a.jsonl": b'{"a":"1"}\n', "a.csv": b"a\n1\n", "a.json": b'[{"a":"1"}]'}[name]
    packed = {".gz": gzip.compress(content) + gzip.compress(b""), ".zst": zstd.compress(content), "": content}[suffix]
    assert inputs(put(name + suffix, packed)) == [(None, {"a": "1"})]
    assert inputs(put(name, packed)) == [(None, {"a": "1"})]


@pytest.mark.parametrize("pack", [gzip.compress, checked_zstd])
def test_a_cut_or_damaged_packed_file_is_told_and_the_rows_before_are_read(
    put: Put, pack: Callable[[bytes], bytes]
) -> None:
    import random

    lines = b"".join(b'{"a":"%x"}\n' % random.Random(n).getrandbits(400) for n in range(3_000))
    packed = pack(lines)
    for broken in (packed[:-20], packed[: len(packed) // 2]):
        found = read(put("a.jsonl", broken))
        assert isinstance(found[-1], RowProblem)
        assert "cannot be unpacked" in found[-1].text
    damaged = bytearray(packed)
    damaged[len(packed) // 2] ^= 0xFF
    assert any(isinstance(item, RowProblem) for item in read(put("a.jsonl", bytes(damaged))))


def test_a_file_that_is_too_large_is_told_before_it_is_read(put: Put) -> None:
    [(_, text)] = problems(put("a.jsonl", '{"a":1}\n' * 100), input_bytes_max=100)
    assert text == "the input has 800 bytes; <setting max-input-bytes> allows 100"


def test_several_inputs_are_one_and_each_problem_names_its_file(put: Put) -> None:
    first, second, third = put("a.jsonl", '{"a":1}\n{"a":2}\n'), put("b.csv", "a,b\n1\n"), put("c.json", "[5]")
    places = InputPositions()
    found = read(first, second, third, places=places)
    assert [item.line for item in found] == [1, 2, 4, 5]
    assert [places.of(item.line) for item in found] == [
        f"{first}, line 1",
        f"{first}, line 2",
        f"{second}, line 2",
        f"{third}, element 1",
    ]


def test_of_one_file_a_place_is_its_line_alone(put: Put) -> None:
    places = InputPositions()
    assert places.of(3) == "line 3"
    read(put("a.csv", "a\n1\n"), places=places)
    assert places.of(2) == "line 2"


def test_a_pattern_means_the_files_of_its_kind_in_order(put: Put, tmp_path: Path) -> None:
    b, a = put("b.jsonl", '{"a":2}'), put("a.jsonl", '{"a":1}')
    assert sources_of(["-", str(tmp_path / "*.jsonl")]) == ["-", a, b]
    odd = put("[odd].jsonl", '{"a":3}')
    assert sources_of([odd]) == [odd]
    with pytest.raises(UsageError, match="no file has a name like that"):
        sources_of([str(tmp_path / "*.csv")])
    assert sources_of([str(tmp_path / "*.csv")], missing_ok=True) == []


def test_a_folder_of_texts_has_a_row_for_each_file(put: Put, tmp_path: Path) -> None:
    put("texts/b.txt", "two\nlines")
    put("texts/a.md", "\ufeffone")
    put("texts/.hidden", "no")
    put("texts/deeper/c.txt", "no")
    folder = str(tmp_path / "texts")
    assert inputs(folder) == [
        ("a.md", {"name": "a.md", "text": "one"}),
        ("b.txt", {"name": "b.txt", "text": "two\nlines"}),
    ]
    assert inputs(folder, templates=(("prompt", "{{ row.text }}"),))[0] == ("a.md", {"prompt": "one"})


def test_a_file_in_a_folder_that_is_no_text_is_told_by_its_name(put: Put, tmp_path: Path) -> None:
    put("texts/a.png", b"\x89PNG\xff")
    put("texts/b.txt", "x" * 200_000)
    places = InputPositions()
    assert problems(str(tmp_path / "texts"), places=places) == [
        (1, "a.png: byte 1 is not UTF-8; is it a text file?"),
        (2, "b.txt: longer than 165,536 bytes"),
    ]
    assert places.of(2) == "file 2"


def test_a_folder_of_inputs_is_refused_with_what_was_probably_meant(put: Put, tmp_path: Path) -> None:
    put("inputs/a.csv.gz", b"")
    with pytest.raises(UsageError, match=r"name them: .*/inputs/\*\.csv"):
        read(str(tmp_path / "inputs"))


def test_what_is_said_wins_over_the_name(put: Put) -> None:
    assert inputs(put("a.txt", "a,b\n1,2\n"), format=InputFormat.CSV) == [(None, {"a": "1", "b": "2"})]
    assert problems(put("a.txt", "a,b\n1,2\n")) == [
        (1, "the file looks like CSV, not like JSON lines; call it .csv, or say <setting format=csv>")
    ]


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read the input"):
        read(str(tmp_path / "none.csv"))


def test_a_pipe_is_read_as_it_comes() -> None:
    descriptor, into = os.pipe()
    os.write(into, b'{"a":1}\n{"a":2}\n')
    rows = read_inputs([f"/dev/fd/{descriptor}"], ReadOptions())
    assert [next(rows).line, next(rows).line] == [1, 2]
    os.close(into)
    assert list(rows) == []
    os.close(descriptor)


def carried(*sources: str, **settings: Any) -> list[tuple[Any, bytes | None]]:
    found = read(*sources, **settings)
    return [(json.loads(row.input), row.metadata) for row in found if isinstance(row, Row)]


def test_what_a_row_carries_is_no_part_of_its_input(put: Put) -> None:
    job = '{"input":{"a":1},"metadata":{"lang": "de", "n": 1.50}}\n{"input":{"a":2},"metadata":null}\n'
    assert carried(put("a.jsonl", job)) == [({"a": 1}, b'{"lang":"de","n":1.50}'), ({"a": 2}, None)]
    assert carried(put("b.jsonl", '{"a":1,"metadata":{"b":2}}')) == [({"a": 1, "metadata": {"b": 2}}, None)]
    request = '{"custom_id":"1","method":"POST","url":"/v1/x","body":{"m":1},"metadata":{"k":"v"}}'
    assert carried(put("c.jsonl", request)) == [({"openai_route": "/v1/x", "openai_input": {"m": 1}}, b'{"k":"v"}')]
    table = put("d.csv", 'a,metadata\n1,"{""k"": 2}"\n2,\n')
    templates = (("p", "{{ row.a }}"),)
    assert carried(table, templates=templates) == [({"p": "1"}, b'{"k":2}'), ({"p": "2"}, None)]
    assert carried(table) == [({"a": "1", "metadata": '{"k": 2}'}, None), ({"a": "2", "metadata": ""}, None)]


@pytest.mark.parametrize(
    ("metadata", "told"),
    [
        ("[1]", "metadata must be an object, not an array"),
        ('"x"', "metadata must be an object, not a string"),
        ('{"x":"%s"}' % ("y" * 65_536), "metadata has 65,544 bytes, over the limit of 65,536"),
    ],
)
def test_what_a_row_carries_has_to_be_an_object_of_some_size(put: Put, metadata: str, told: str) -> None:
    [(line, text)] = problems(put("a.jsonl", f'{{"input":{{"a":1}},"metadata":{metadata}}}'))
    assert (line, text) == (1, told)


def test_parquet_has_single_nanoseconds_and_maps_that_have_a_key_twice(put: Put, tmp_path: Path) -> None:
    at = 1_700_000_000_000_000_123
    table = pa.table(
        {
            "custom_id": ["1", "2"],
            "at": pa.array([at, at - 123], pa.timestamp("ns")),
            "zoned": pa.array([at, None], pa.timestamp("ns", "Europe/Berlin")),
            "clock": pa.array([3_600_000_000_001, 1_000], pa.time64("ns")),
            "took": pa.array([86_401_500_000_001, -1_000_000_001], pa.duration("ns")),
            "map": pa.array([[("k", 1), ("k", 2)], None], pa.map_(pa.string(), pa.int64())),
            "by_number": pa.array([[(7, [at])], []], pa.map_(pa.int64(), pa.list_(pa.timestamp("ns")))),
            "nested": pa.array([[{"at": at}], []], pa.list_(pa.struct([("at", pa.timestamp("ns"))]))),
            "often": pa.array(["x", "y"]).dictionary_encode(),
        }
    )
    parquet.write_table(table, tmp_path / "a.parquet")
    told = "2023-11-14T22:13:20.000000123"
    assert inputs(str(tmp_path / "a.parquet")) == [
        (
            "1",
            {
                "at": told,
                "zoned": f"{told}Z",
                "clock": "01:00:00.000000001",
                "took": "P1DT1.500000001S",
                "map": {"k": 2},
                "by_number": {"7": [told]},
                "nested": [{"at": told}],
                "often": "x",
            },
        ),
        (
            "2",
            {
                "at": "2023-11-14T22:13:20",
                "zoned": None,
                "clock": "00:00:00.000001",
                "took": "-PT1.000000001S",
                "map": None,
                "by_number": {},
                "nested": [],
                "often": "y",
            },
        ),
    ]
