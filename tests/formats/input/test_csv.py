"""Tables of text, and how inputs are made of records."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import UsageError
from orchestrator.formats.input import csv as tables
from orchestrator.formats.input.rows import InputRecord, Row
from orchestrator.formats.templates.field_templates import check_templates, template_of
from orchestrator.settings.words_and_defaults import CellType
from tests.formats.input_files import Put, inputs, problems, read
from tests.texts import texts

REQUEST = {"custom_id": "r1", "method": "POST", "url": "/v1/chat/completions", "body": {"model": "m", "n": 1}}


# --- tables


def test_a_table_has_a_row_for_each_line_and_its_columns_are_the_input(put: Put) -> None:
    source = put("a.csv", 'custom_id,prompt,n\n1,"a fox, ""red""",5\n2,ünï,\n')
    assert inputs(source) == [("1", {"prompt": 'a fox, "red"', "n": "5"}), ("2", {"prompt": "ünï", "n": ""})]


def test_a_cell_may_go_over_lines_and_its_row_stands_where_it_begins(put: Put) -> None:
    rows = read(put("a.csv", 'a,b\n"x\ny",1\n\n2,3\n'))
    assert [(row.line, row.input) for row in rows if isinstance(row, Row)] == [
        (2, b'{"a":"x\\ny","b":"1"}'),
        (5, b'{"a":"2","b":"3"}'),
    ]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tsv", "a\tb\n1\t2\n"),
        ("a.csv", "a;b\r\n1;2\r\n"),
        ("a.csv", "\ufeffa,b\n1,2"),
        ("A.CSV", "a,b\n1,2\n"),
        ("a.tab", "a\tb\n1\t2\n"),
    ],
)
def test_tabs_semicolons_and_marks_are_understood(put: Put, name: str, content: str) -> None:
    assert inputs(put(name, content)) == [(None, {"a": "1", "b": "2"})]


def test_columns_have_the_types_that_are_said_and_empty_cells_are_null_then(put: Put) -> None:
    source = put("a.csv", 'n,x,ok,meta,text\n12345678901234567890,1.5,yes,"{""k"": [1]}",7\n,,,,\n')
    types = (("n", CellType.INT), ("x", CellType.FLOAT), ("ok", CellType.BOOL), ("meta", CellType.JSON))
    assert inputs(source, types=types) == [
        (None, {"n": 12345678901234567890, "x": 1.5, "ok": True, "meta": {"k": [1]}, "text": "7"}),
        (None, {"n": None, "x": None, "ok": None, "meta": None, "text": ""}),
    ]


@pytest.mark.parametrize(
    ("kind", "cell", "told"),
    [
        (CellType.INT, "1.5", "n: '1.5' is no whole number"),
        (CellType.FLOAT, "a", "n: 'a' is no number"),
        (CellType.BOOL, "maybe", "n: 'maybe' is neither true nor false"),
        (CellType.JSON, "{", "n: not JSON"),
    ],
)
def test_a_cell_that_has_another_type_is_told(put: Put, kind: CellType, cell: str, told: str) -> None:
    [(line, text)] = problems(put("a.csv", f"n,x\n1,2\n{cell},2\n"), types=(("n", kind),))[-1:]
    assert line == 3
    assert text.startswith(told)


def test_a_float_that_is_no_number_is_null(put: Put) -> None:
    assert inputs(put("a.csv", "n\nnan\n"), types=(("n", CellType.FLOAT),)) == [(None, {"n": None})]


def test_a_type_of_a_column_that_is_not_there_is_told_at_once(put: Put) -> None:
    found = problems(put("a.csv", "a,b\n1,2\n"), types=(("c", CellType.INT),))
    assert found == [(1, "there is no column 'c'; the first line names a, b")]


def test_types_are_for_tables_of_text_only(put: Put) -> None:
    with pytest.raises(UsageError, match="types= is for CSV and TSV; the values of jsonl have types"):
        read(put("a.jsonl", '{"a":1}'), types=(("a", CellType.INT),))


cells = texts(max_size=5).filter(lambda text: "\x00" not in text)


@given(st.lists(st.tuples(cells, cells), max_size=5))
def test_what_the_standard_library_writes_is_read_as_it_was(rows: list[tuple[str, str]]) -> None:
    import csv

    text = io.StringIO()
    csv.writer(text).writerows([("a", "b"), *rows])
    found = list(tables.csv_records(io.BytesIO(text.getvalue().encode()), bytes_max=1_000))
    assert [record.values for record in found if isinstance(record, InputRecord)] == [{"a": a, "b": b} for a, b in rows]


# --- from records to inputs


def test_any_column_can_be_the_id_and_is_not_sent(put: Put) -> None:
    assert inputs(put("a.csv", "key,p\nx1,fox\n"), id_field="key") == [("x1", {"p": "fox"})]
    assert inputs(put("a.jsonl", '{"key": 7, "p": "fox"}'), id_field="key") == [("7", {"p": "fox"})]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"p": 1}', "there is no 'key'; this row has p"),
        ('{"key": 1.5, "p": 1}', "the id in 'key' must be a text or a whole number, not a number"),
        ('{"key": null, "p": 1}', "the id in 'key' must be a text or a whole number, not null"),
        ('{"key": true, "p": 1}', "the id in 'key' must be a text or a whole number, not true or false"),
        ('{"key": "", "p": 1}', "custom_id has 0 characters; it takes 1 to 256"),
        ("[1]", "an array, not an object; write one object a line"),
        ('{"key": "a"}', "the input is empty; the service would drop the job"),
        ('{"key": "a", "n": 1e999}', "not usable: Number out of range - at `$[...]`"),
        (
            r'{"key": "a", "s": "\ud83d"}',
            "not JSON: half of a surrogate pair, an escape such as \\ud83d without the other half after it",
        ),
        ("[" * 5_000, "not usable: nested too deeply"),
    ],
)
def test_a_record_without_an_id_or_an_input_is_told(put: Put, line: str, told: str) -> None:
    source = put("a.jsonl", '{"key": "first", "p": 1}\n' + line)
    assert problems(source, id_field="key") == [(2, told)]


def test_one_column_can_hold_the_whole_input(put: Put) -> None:
    table = put("a.csv", 'id,job\n1,"{""n"": 1e5, ""s"": ""é""}"\n')
    [row] = read(table, id_field="id", input_field="job")
    assert isinstance(row, Row)
    assert (row.custom_id, row.input) == ("1", '{"n": 1e5, "s": "é"}'.encode())
    assert inputs(put("a.jsonl", '{"id":"1","job":{"n":1}}'), id_field="id", input_field="job") == [("1", {"n": 1})]


@pytest.mark.parametrize(
    ("cell", "told"),
    [
        ("[1]", "the input in 'job' must be an object, not an array"),
        ("{", "the input in 'job' is not JSON"),
        ("5", "the input in 'job' must be an object, not a number"),
    ],
)
def test_a_column_that_holds_no_input_is_told(put: Put, cell: str, told: str) -> None:
    [(line, text)] = problems(put("a.csv", f"job,b\n{cell},1\n"), input_field="job")
    assert (line, text[: len(told)]) == (2, told)


def test_templates_make_the_fields_of_the_input_and_no_others_are_sent(put: Put) -> None:
    source = put("a.csv", "custom_id,caption,n\n1,a fox,5\n")
    templates = (("prompt", "draw {{ row.caption }}"), ("steps", "{{ row.n | int * 2 }}"), ("style", "photo"))
    assert inputs(source, templates=templates) == [("1", {"prompt": "draw a fox", "steps": 10, "style": "photo"})]


def test_a_template_sees_the_fields_of_a_row_and_no_methods() -> None:
    assert template_of("{{ row.items }}")({"items": [1]}) == [1]
    assert template_of("{{ row['a b'].c[0] }}!")({"a b": {"c": "xyz"}}) == "x!"
    assert template_of("a\n")({}) == "a\n"


@pytest.mark.parametrize(
    ("template", "told"),
    [
        ("{{ row.capton }}", "prompt: there is no 'capton'; this row has a, zero"),
        ("{{ row.zeros }}", "prompt: there is no 'zeros'; did you mean 'zero'? this row has a, zero"),
        ("{{ row.a.b }} and more", "has no attribute 'b'"),
        ("x{{ caption }}", "'caption' is undefined; a field of the row is written row.caption"),
        ("{{ 1 / row.zero }}", "division by zero"),
        ("{{ row.a.__class__.__mro__ }}", "unsafe"),
    ],
)
def test_a_template_that_fails_is_told_for_its_row(put: Put, template: str, told: str) -> None:
    source = put("a.jsonl", '{"a": "x", "zero": 0}')
    [(line, text)] = problems(source, templates=(("prompt", template),))
    assert line == 1
    assert text.startswith("prompt: ")
    assert told in text


def test_what_is_no_template_is_refused_before_anything_is_read() -> None:
    with pytest.raises(UsageError, match=r"map= prompt=\{\{ row\.a: this is no template: "):
        check_templates([("prompt", "{{ row.a")])
