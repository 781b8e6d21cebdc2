"""What is sent for a chunk, and which part of its output is of which row."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.chunks.chunk_form import ChunkForm, ChunkPart, TravellingRow, checked_template
from tests.texts import texts

BY_PLACE = ChunkForm()
BY_ID = ChunkForm('{"rows":"{rows}"}', "rows")
ROWS = [TravellingRow("a", b'{"n":1}'), TravellingRow('b"', b"2")]


def test_a_chunk_has_the_inputs_of_its_rows_as_they_came() -> None:
    assert BY_PLACE.joint(ROWS) == b'{"items":[{"n":1},2]}'
    assert BY_ID.joint(ROWS) == b'{"rows":[{"id":"a","input":{"n":1}},{"id":"b\\"","input":2}]}'
    form = ChunkForm(checked_template('{"a": {"prompts": "{inputs}", "again": "{inputs}"}, "seed": 1.50}'))
    assert form.joint(ROWS[:1]) == b'{"a":{"prompts":[{"n":1}],"again":[{"n":1}]},"seed":1.50}'


def test_what_rows_say_is_no_template() -> None:
    assert BY_PLACE.joint([TravellingRow("x", b'"{inputs}"')]) == b'{"items":["{inputs}"]}'


@pytest.mark.parametrize(
    "text",
    ["", "[]", "5", '{"a":1}', '{"a":"{inputs} "}', '{"{inputs}":1}', '{"a":"{inputs}","b":"{rows}"}', "{" * 9_000],
)
def test_what_is_no_template(text: str) -> None:
    with pytest.raises(ValueError, match=r"no JSON object|needs"):
        checked_template(text)


@pytest.mark.parametrize("output", [b'[{"y":1},2]', b'{"items":[{"y":1},2]}'])
def test_parts_go_by_place(output: bytes) -> None:
    assert BY_PLACE.split(output, ["a", "b"]) == [ChunkPart(b'{"y":1}'), ChunkPart(b"2")]


def test_what_names_all_rows_is_believed_before_places() -> None:
    swapped = b'[{"id":"b","y":2},{"id":"a","y":1}]'
    assert BY_PLACE.split(swapped, ["a", "b"]) == [ChunkPart(b'{"id":"a","y":1}'), ChunkPart(b'{"id":"b","y":2}')]
    assert BY_PLACE.split(swapped, ["a", "c"]) == [ChunkPart(b'{"id":"b","y":2}'), ChunkPart(b'{"id":"a","y":1}')]


def test_parts_may_name_their_rows() -> None:
    output = b'{"rows":[{"id":"b","output":2},{"id":"a","y":1},{"id":"c","error":"no","output":3}]}'
    assert BY_ID.split(output, ["a", "b", "c"]) == [
        ChunkPart(b'{"id":"a","y":1}'),
        ChunkPart(b"2"),
        ChunkPart(error="no"),
    ]


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (b'{"error":"out of memory"}', ChunkPart(error="out of memory")),
        (b'{"error":{"code":7}}', ChunkPart(error='{"code":7}')),
        (b'{"error":null,"y":1}', ChunkPart(b'{"error":null,"y":1}')),
        (b'{"error":""}', ChunkPart(b'{"error":""}')),
        (b"null", ChunkPart(b"null")),
    ],
)
def test_a_part_is_an_output_or_an_error(part: bytes, expected: ChunkPart) -> None:
    assert BY_PLACE.split(b"[" + part + b"]", ["a"]) == [expected]


@pytest.mark.parametrize(
    ("form", "output", "why"),
    [
        (BY_PLACE, None, "there is no output"),
        (BY_PLACE, b"7", "the output is no list of parts"),
        (BY_PLACE, b'{"parts":[1,2]}', "the output is no list of parts"),
        (BY_ID, b"[1,2]", 'the member "rows" of the output is no list of parts'),
        (BY_PLACE, b"[1]", "the output has 1 parts, and the chunk 2 rows"),
        (BY_PLACE, b"[1,2,3]", "the output has 3 parts, and the chunk 2 rows"),
        (BY_ID, b'{"rows":[{"id":"a"},{"id":7}]}', 'a part of the output has no "id"'),
        (BY_ID, b'{"rows":[{"id":"a"},3]}', 'a part of the output has no "id"'),
        (BY_ID, b'{"rows":[{"id":"a"},{"id":"a"}]}', "two parts of the output have the id 'a'"),
        (BY_ID, b'{"rows":[{"id":"a"},{"id":"c"}]}', "no part of the output has the id 'b'"),
    ],
)
def test_what_is_no_output_of_these_rows(form: ChunkForm, output: bytes | None, why: str) -> None:
    assert form.split(output, ["a", "b"]) == why


@given(st.lists(texts(), unique=True, min_size=1, max_size=5), st.booleans())
def test_a_handler_that_gives_back_what_it_gets_gives_each_row_its_own(names: list[str], by_id: bool) -> None:
    form = ChunkForm('{"items":"{rows}"}') if by_id else BY_PLACE
    rows = [TravellingRow(name, json.dumps({"of": name}).encode()) for name in names]
    found = form.split(form.joint(rows), names)
    assert isinstance(found, list)
    got = [json.loads(part.output or b"") for part in found]
    assert [each["input"] if by_id else each for each in got] == [{"of": name} for name in names]
