import csv
import gzip
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyarrow import parquet

from orchestrator.errors import MisfitError, StorageError, UsageError
from orchestrator.formats.output import parquet as outcome_parquet
from orchestrator.formats.output.coming_files import commit_together
from orchestrator.formats.output.outcome_lines import OutcomeDetails, WrittenOutcome
from orchestrator.formats.output.readback import reader_of
from orchestrator.formats.output.writers import OutcomeFile, form_of, forms_of, part_of
from orchestrator.formats.text.compression import unpacked_stream
from orchestrator.settings.output_settings import OutputSettings
from orchestrator.settings.words_and_defaults import Include, OnMisfit, OutputFormat
from tests.formats.outcomes import failure, result, write

OUTPUTS = (
    b'{"text":"a \\"quoted\\", b\\r\\nc","n":1152921504606846977,"x":0.5,"none":null,"yes":true,"empty":"","in":{"a.b":[1,{"k":"v"}]}}',
    b'{"text":"\xc3\xa9\xf0\x9f\x8c\x8a\\u0000 ","n":-9223372036854775808,"x":2,"none":null,"yes":false,"empty":""}',
    b"123456789012345678901234567890",
    b'"a text"',
    b"null",
    b"[1.10,[],{}]",
)
PATHS = ("output.text", "output.n", "output.x", "output.none", "output.yes", "output.empty", "input.sku")
VALUES: tuple[tuple[Any, ...], ...] = (
    ('a "quoted", b\r\nc', 1152921504606846977, 0.5, None, True, "", "s1"),
    ("é🌊\x00 ", -9223372036854775808, 2, None, False, "", "s2"),
)


def outcomes() -> list[WrittenOutcome]:
    return [result(n, output, input_=b'{"sku":"s%d"}' % n) for n, output in enumerate(OUTPUTS, start=1)]


def table(path: Path, delimiter: str = ",") -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_bytes().decode(), newline=""), delimiter=delimiter, strict=True))


@pytest.mark.parametrize("name", ["o.csv", "o.parquet", "o.jsonl"])
@pytest.mark.parametrize(
    ("flatten", "outputs", "empty"),
    [
        ((), (b"null", b"null"), ("output",)),
        ((), (b"null", b"0"), ()),
        (PATHS, OUTPUTS[:2], ("output.none",)),
        (("output", "output.n", "output.a"), (b'{"n":null}', b'{"n":[]}', b"null"), ("output.a",)),
        ((), (), ()),
    ],
)
def test_columns_that_are_null_in_every_row_are_known(
    tmp_path: Path, name: str, flatten: tuple[str, ...], outputs: tuple[bytes, ...], empty: tuple[str, ...]
) -> None:
    form = form_of(tmp_path / name, OutputSettings(flatten=flatten, on_misfit=OnMisfit.JSON), (), is_errors=False)
    with OutcomeFile(tmp_path / name, form) as file:
        for n, output in enumerate(outputs, start=1):
            file.write([result(n, output, input_=b'{"sku":"a"}')])
        file.finish()
        assert file.empty_columns == empty


def test_errors_have_no_empty_columns(tmp_path: Path) -> None:
    form = form_of(tmp_path / "e.csv", OutputSettings(), (), is_errors=True)
    with OutcomeFile(tmp_path / "e.csv", form) as file:
        file.write([failure(1)])
        file.finish()
        assert file.empty_columns == ()


@pytest.mark.parametrize("name", ["o.csv", "o.tsv", "o.parquet", "o.jsonl", "o.csv.gz", "o.jsonl.zst", "o.tsv.zstd"])
def test_whole_outputs_come_back_as_the_worker_wrote_them(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write(path, outcomes())
    if name.endswith(".gz"):
        path.write_bytes(gzip.decompress(path.read_bytes()))
    elif name.endswith(("zst", "zstd")):
        path.write_bytes(unpacked_stream(io.BufferedReader(io.BytesIO(path.read_bytes())), bytes_max=10_000).read())
    if "csv" in name or "tsv" in name:
        rows: list[Any] = [row["output"] for row in table(path, "\t" if "tsv" in name else ",")]
    elif "parquet" in name:
        rows = [row["output"] for row in parquet.read_table(path).to_pylist()]
    else:
        rows = [
            line.split(b'"output":', 1)[1].split(b',"attempts"')[0].decode() for line in path.read_bytes().splitlines()
        ]
    assert rows == [output.decode() for output in OUTPUTS]


def test_members_have_columns_of_their_own(tmp_path: Path) -> None:
    write(tmp_path / "o.csv", outcomes()[:2], flatten=PATHS)
    found = table(tmp_path / "o.csv")
    assert list(found[0]) == ["custom_id", "job_id", "status", *PATHS, "attempts", "paid_at_most", "delay_ms", "execution_ms"]  # fmt: skip
    texts = {None: "", True: "true", False: "false"}
    said = [tuple(texts.get(value, str(value)) if isinstance(value, bool | None) else str(value) for value in row) for row in VALUES]  # fmt: skip
    assert [tuple(row[path] for path in PATHS) for row in found] == said
    assert b',,true,"",s1,1,2,,3\n' in (tmp_path / "o.csv").read_bytes(), "null is no empty text"
    write(tmp_path / "o.parquet", outcomes()[:2], flatten=PATHS)
    read = parquet.read_table(tmp_path / "o.parquet")
    assert [tuple(row[path] for path in PATHS) for row in read.to_pylist()] == list(VALUES)
    types = [str(read.schema.field(path).type) for path in PATHS]
    assert types == ["string", "int64", "double", "string", "bool", "string", "string"]
    write(tmp_path / "o.jsonl", outcomes()[:2], flatten=PATHS)
    lines = [json.loads(line) for line in (tmp_path / "o.jsonl").read_bytes().splitlines()]
    assert [tuple(line[path] for path in PATHS) for line in lines] == list(VALUES)
    assert "output" not in lines[0]


def test_a_path_leads_into_arrays_and_to_nothing(tmp_path: Path) -> None:
    rows = [result(1, b'[{"a":[0,{"b":"x"}]},"y"]'), result(2, b'{"0":"z"}'), result(3, b"7"), result(4, b'{"a":[1]}')]
    write(tmp_path / "o.csv", rows, flatten=("output.0.a.1.b", "output.0", "output.a.0"), on_misfit=OnMisfit.JSON)
    found = [[row["output.0.a.1.b"], row["output.0"], row["output.a.0"]] for row in table(tmp_path / "o.csv")]
    assert found == [["x", '{"a":[0,{"b":"x"}]}', ""], ["", "z", ""], ["", "", ""], ["", "", "1"]]


def test_rows_carry_more_and_errors_have_columns_too(tmp_path: Path) -> None:
    more = OutcomeDetails(line=4, worker=None, sent_at="2026-01-01T00:00:00.000000Z", ended_at=None)
    write(tmp_path / "o.csv", [result(4, more=more)], include=(Include.LINE, Include.WORKER, Include.TIMES))
    [row] = table(tmp_path / "o.csv")
    assert (row["line"], row["worker"], row["sent_at"][:4], row["ended_at"]) == ("4", "", "2026", "")
    failed = [failure(1, "a\udc80b", input_=b'{"sku":"s"}')]
    write(tmp_path / "e.parquet", failed, flatten=("output.x", "input.sku"))
    [read] = parquet.read_table(tmp_path / "e.parquet").to_pylist()
    assert read == {
        "custom_id": "r1", "job_id": None, "status": None, "error.class": "failed", "error.message": r"a\udc80b",
        "input.sku": "s", "attempts": 3, "paid_at_most": 3,
    }  # fmt: skip
    write(tmp_path / "e.jsonl", failed, flatten=("output.x", "input.sku"))
    line = json.loads((tmp_path / "e.jsonl").read_bytes())
    assert (line["error"]["message"], line["input.sku"]) == (r"a\udc80b", "s")


@pytest.mark.parametrize(
    ("name", "values", "why"),
    [
        ("o.csv", [b"1", b"[1]"], "output.v is an array, and a cell is one value"),
        ("o.csv", [b"1", b"{}"], "output.v is an object, and a cell is one value"),
        ("o.parquet", [b"1", b'"1"'], "output.v is a text, and the rows before have int64"),
        ("o.parquet", [b"true", b"0"], "output.v is a number, and the rows before have bool"),
        ("o.parquet", [b"null", b"9223372036854775808"], "output.v is a number, and a column has values of one type, which is none of these"),
        ("o.parquet", [b"9007199254740993", b"0.5"], "output.v is a number that no double can hold beside parts of a whole, and the rows before have int64"),
        ("o.parquet", [b"0.5", b"9007199254740993"], "output.v is a number that no double can hold beside parts of a whole, and the rows before have float64"),
        ("o.parquet", [b"1", b"1e999"], "output.v is a number, and a column has values of one type, which is none of these"),
        ("o.parquet", [b"1", b"-" + b"9" * 5000], "output.v is a number, and a column has values of one type, which is none of these"),
    ],
)  # fmt: skip
def test_a_misfit_names_its_row_and_nothing_is_written(
    tmp_path: Path, name: str, values: list[bytes], why: str
) -> None:
    path = tmp_path / name
    path.write_text("before")
    rows = [result(n, b'{"v":%b}' % value) for n, value in enumerate(values, start=1)]
    with pytest.raises(MisfitError) as refused:
        write(path, rows, flatten=("output.v",))
    advice = "write it as its JSON text with on_misfit=json"
    assert str(refused.value) == f"{path}: r2 (row 2 of the input): {why}; {advice}"
    assert [each.name for each in tmp_path.iterdir()] == [name]
    assert path.read_text() == "before"
    write(path, rows, flatten=("output.v",), on_misfit=OnMisfit.JSON)
    if name == "o.parquet":
        found = [row["output.v"] for row in parquet.read_table(path).to_pylist()]
        assert found == [None if value == b"null" else value.decode() for value in values]
    else:
        assert [row["output.v"] for row in table(path)] == [value.decode() for value in values]


def test_whole_numbers_become_doubles_beside_others_where_nothing_is_lost(tmp_path: Path) -> None:
    rows = [
        result(n, b'{"v":%b}' % value) for n, value in enumerate([b"1", b"-0", b"2.5", b"null", b"9007199254740992"])
    ]
    write(tmp_path / "o.parquet", rows, flatten=("output.v",))
    found = [row["output.v"] for row in parquet.read_table(tmp_path / "o.parquet").to_pylist()]
    assert found == [1.0, 0.0, 2.5, None, 9007199254740992.0]


@pytest.mark.parametrize("name", ["o.csv", "o.jsonl.gz", "o.parquet"])
def test_a_file_is_split_into_numbered_ones_and_those_left_over_go(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write(path, outcomes(), split=2)
    assert sorted(each.name for each in tmp_path.iterdir()) == [part_of(path, n).name for n in (1, 2, 3)]
    read = list(reader_of(path, form_format(path), is_errors=False))
    assert len(read) == len(OUTPUTS)
    write(path, outcomes(), split=4)
    assert sorted(each.name for each in tmp_path.iterdir()) == [part_of(path, n).name for n in (1, 2)]
    write(path, [], split=4)
    assert sorted(each.name for each in tmp_path.iterdir()) == [part_of(path, 1).name]


def form_format(path: Path) -> OutputFormat:
    return form_of(path, OutputSettings(), (), is_errors=False).format


def test_a_name_says_how_parts_are_called() -> None:
    assert part_of(Path("a/results.v2.csv.gz"), 7) == Path("a/results.v2-00007.csv.gz")
    assert part_of(Path("results"), 123456) == Path("results-123456")


def test_of_files_that_appear_together_all_do_or_none(tmp_path: Path) -> None:
    first, second = tmp_path / "o.csv", tmp_path / "e.jsonl"
    first.write_text("before")
    forms = forms_of(first, second, OutputSettings(), ())
    with OutcomeFile(first, forms[0]) as results, OutcomeFile(second, forms[1]) as errors:
        for each in (results, errors):
            each.finish()
        second.mkdir()  # which no file can be renamed over
        with pytest.raises(StorageError, match=r"cannot write .*e\.jsonl: Is a directory"):
            commit_together([*results.parts, *errors.parts])
    assert first.read_text() == "before"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["e.jsonl", "o.csv"]


@pytest.mark.parametrize(
    ("output", "settings", "include", "message"),
    [
        ("o.parquet.gz", {}, (), "o.parquet.gz: Parquet is packed inside, and not again; call it o.parquet"),
        ("o.jsonl", {"format": OutputFormat.OPENAI_BATCH}, (Include.LINE,), "o.jsonl: lines of OpenAI Batch have no place for more; leave out include="),
        ("o.jsonl", {"format": OutputFormat.OPENAI_BATCH, "flatten": ("output.a",)}, (), "o.jsonl: lines of OpenAI Batch have no place for more; leave out flatten="),
        ("/dev/stdout", {"split": 5}, (), "split=5: /dev/stdout is one stream; name a file, or leave that out"),
    ],
)  # fmt: skip
def test_what_cannot_be_written_is_refused_before_anything_is_sent(
    output: str, settings: dict[str, Any], include: tuple[Include, ...], message: str
) -> None:
    with pytest.raises(UsageError) as refused:
        forms_of(Path(output), Path("e.jsonl"), OutputSettings(**settings), include)
    assert str(refused.value) == message


def test_errors_are_in_json_lines_unless_their_name_says_otherwise() -> None:
    def formats(output: str, errors: str, **settings: Any) -> list[OutputFormat]:
        return [form.format for form in forms_of(Path(output), Path(errors), OutputSettings(**settings), ())]

    assert formats("o.csv", "o.csv.errors.jsonl") == ["csv", "jsonl"]
    assert formats("o", "e.tab.zst", format=OutputFormat.PARQUET) == ["parquet", "tsv"]
    assert formats("o.csv", "e.csv", format=OutputFormat.OPENAI_BATCH) == ["openai-batch"] * 2


def test_the_same_rows_are_the_same_packed_bytes(tmp_path: Path) -> None:
    for name in ("a.csv.gz", "b.csv.gz"):
        write(tmp_path / name, outcomes())
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()


def test_parquet_has_groups_of_rows_that_are_never_large(tmp_path: Path) -> None:
    large = b'"%b"' % os.urandom(300_000).hex().encode()
    rows = [result(n, large) for n in range(60)]
    write(tmp_path / "o.parquet", rows)
    groups = parquet.ParquetFile(tmp_path / "o.parquet").metadata
    assert groups.num_row_groups > 1
    assert (
        max(groups.row_group(n).total_byte_size for n in range(groups.num_row_groups)) < 2 * outcome_parquet.GROUP_BYTES
    )


# --- OpenAI Batch


def batch(path: Path) -> Iterator[Any]:
    return map(json.loads, path.read_bytes().splitlines())


@pytest.mark.parametrize(
    ("output", "status"),
    [
        (b'{"id":"c1"}', 200),
        (b'[{"id":"c1","error":null}]', 200),
        (b'{"object":"error","message":"too long","code":400}', 400),
        (b'[{"error":{"message":"x","code":404}}]', 404),
        (b'{"error":{"message":"x","code":null}}', 500),
        (b'{"error":"x"}', 500),
        (b'{"object":"error","code":99}', 500),
        (b'{"object":7}', 200),
    ],
)
def test_the_body_of_a_response_is_the_output(tmp_path: Path, output: bytes, status: int) -> None:
    write(tmp_path / "o.jsonl", [result(1, output)], format=OutputFormat.OPENAI_BATCH)
    [line] = batch(tmp_path / "o.jsonl")
    body = json.loads(output.strip(b"[]"))
    assert line == {
        "id": "batch_req_j1-u1",
        "custom_id": "r1",
        "response": {"status_code": status, "request_id": "j1-u1", "body": body},
        "error": None,
    }


@pytest.mark.parametrize("output", [b"null", b"[]", b"[{},{}]", b'["a"]', b'"a"', b"5"])
def test_what_is_no_body_is_a_misfit(tmp_path: Path, output: bytes) -> None:
    path = tmp_path / "o.jsonl"
    with pytest.raises(MisfitError, match=r"r1 \(row 1 of the input\): the output is no object, nor one in an array"):
        write(path, [result(1, output)], format=OutputFormat.OPENAI_BATCH)
    assert not list(tmp_path.iterdir())
    write(path, [result(1, output)], format=OutputFormat.OPENAI_BATCH, on_misfit=OnMisfit.JSON)
    [line] = batch(path)
    assert line["response"] == {"status_code": 200, "request_id": "j1-u1", "body": json.loads(output)}


def test_what_failed_is_a_line_with_an_error(tmp_path: Path) -> None:
    write(tmp_path / "e.jsonl", [failure(1, "bad")], format=OutputFormat.OPENAI_BATCH)
    error = {"code": "failed", "message": "bad"}
    assert list(batch(tmp_path / "e.jsonl")) == [
        {"id": "batch_req_r1", "custom_id": "r1", "response": None, "error": error}
    ]


def rows_with(*outputs: bytes) -> list[WrittenOutcome]:
    return [result(n, output, input_=b'{"sku":"s%d"}' % n) for n, output in enumerate(outputs, start=1)]


@pytest.mark.parametrize("name", ["o.jsonl", "o.csv", "o.parquet"])
@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("output.captoin", "did you mean output.caption? output of r1 has caption, in"),
        ("output.in.q", "output.in of r1 has x, y"),
        ("output.caption.text", "output.caption of r1 is a text"),
        ("output.in.x.y", "output.in.x of r1 is a number"),
        ("input.sk", "did you mean input.sku? input of r1 has sku"),
    ],
)
def test_a_member_that_no_row_has_is_told_with_the_nearest_name(
    tmp_path: Path, name: str, path: str, told: str
) -> None:
    some = rows_with(b'{"caption":"a","in":{"x":1,"y":2}}', b'{"in":{}}')
    with pytest.raises(MisfitError) as refused:
        write(tmp_path / name, some, flatten=("output.caption", path))
    assert str(refused.value).startswith(f"{tmp_path / name}: flatten= {path}: none of the first 2 rows has it; {told}")
    assert list(tmp_path.iterdir()) == [], "nothing is written"
    write(tmp_path / name, some, flatten=("output.caption", path), on_misfit=OnMisfit.JSON)


def test_a_member_is_missing_that_the_first_thousand_rows_lack(tmp_path: Path) -> None:
    lacking, has = [b"{}"] * 999, b'{"a":null}'
    write(tmp_path / "late.csv", rows_with(*lacking, has), flatten=("output.a",))
    with pytest.raises(MisfitError, match="none of the first 1,000 rows has it; output of r1 has nothing in it"):
        write(tmp_path / "later.csv", rows_with(*lacking, b"{}", has), flatten=("output.a",))
    write(tmp_path / "none.csv", [], flatten=("output.a",))
    with pytest.raises(MisfitError, match="the first row does not have it; output of r1 is null"):
        write(tmp_path / "one.csv", rows_with(b"null"), flatten=("output.a",))


def carrying(outcome: WrittenOutcome, metadata: bytes) -> WrittenOutcome:
    line = msgspec.structs.replace(outcome.line, metadata=msgspec.Raw(metadata))
    return msgspec.structs.replace(outcome, line=line)


@pytest.mark.parametrize("name", ["o.jsonl", "o.csv", "o.parquet"])
@pytest.mark.parametrize("flatten", [(), ("output.a", "metadata.k")])
def test_what_rows_carry_is_read_back_as_it_was_written(tmp_path: Path, name: str, flatten: tuple[str, ...]) -> None:
    some = [carrying(result(1, b'{"a":1}'), b'{"k":"v"}'), result(2, b'{"a":2}')]
    write(tmp_path / name, some, include=(Include.METADATA,), flatten=flatten)
    form = OutputFormat(name.rpartition(".")[2])
    reader = reader_of(tmp_path / name, form, is_errors=False)
    assert [reader.is_of(row, outcome) for row, outcome in zip(reader, some, strict=True)] == [True, True]
    other = [carrying(result(1, b'{"a":1}'), b'{"k":"w"}'), some[1]]
    reader = reader_of(tmp_path / name, form, is_errors=False)
    assert [reader.is_of(row, outcome) for row, outcome in zip(reader, other, strict=True)] == [False, True]


def test_lines_of_openai_batch_have_what_their_rows_carry(tmp_path: Path) -> None:
    write(tmp_path / "o.jsonl", [carrying(result(1, b'{"id":"x"}'), b'{"k":"v"}')], format=OutputFormat.OPENAI_BATCH)
    [line] = batch(tmp_path / "o.jsonl")
    assert line["metadata"] == {"k": "v"}
    write(tmp_path / "e.jsonl", [carrying(failure(1), b'{"k":"w"}')], format=OutputFormat.OPENAI_BATCH)
    [line] = batch(tmp_path / "e.jsonl")
    assert line["metadata"] == {"k": "w"}


COMPUTED = ('=HYPERLINK("http://x")', "+1+cmd", "-1+2", "@SUM(A1)", "\t=1", "\r=1", "-", "=")
LEFT_ALONE = ("-1.5", "-2e10", "a=b", "'=1", "", "a;=1", "x\t=1", "1-2")


@pytest.mark.parametrize("name", ["o.csv", "o.tsv"])
def test_cells_that_a_spreadsheet_would_compute_are_texts_where_that_is_wanted(tmp_path: Path, name: str) -> None:
    path, delimiter = tmp_path / name, "\t" if name == "o.tsv" else ","
    rows = [result(n, msgspec.json.encode({"v": text})) for n, text in enumerate((*COMPUTED, *LEFT_ALONE), start=1)]
    rows += [result(40, b'{"v":-1.50}'), result(41, b'{"v":true}'), result(42, b"{}"), result(43, b'{"v":[-1]}')]
    write(path, rows, flatten=("output.v",), csv_safe=True, on_misfit=OnMisfit.JSON)
    found = [row["output.v"] for row in table(path, delimiter)]
    assert found == [*(f"'{text}" for text in COMPUTED), *LEFT_ALONE, "-1.50", "true", "", "[-1]"]
    for separated in ('"a;=1"', '"x\t=1"'):
        assert separated in path.read_bytes().decode(), "where a line is split by another separator"

    write(path, rows, flatten=("output.v",), on_misfit=OnMisfit.JSON)
    assert [row["output.v"] for row in table(path, delimiter)][: len(COMPUTED)] == list(COMPUTED), "only where wanted"


def test_what_a_worker_says_of_an_error_is_no_formula_either(tmp_path: Path) -> None:
    path = tmp_path / "failed.csv"
    write(path, [failure(1, "=1+1")], csv_safe=True)
    assert table(path)[0]["error.message"] == "'=1+1"


def test_a_file_for_spreadsheets_is_known_again_and_a_changed_cell_of_it_too(tmp_path: Path) -> None:
    path = tmp_path / "o.csv"
    rows = [result(n, msgspec.json.encode({"v": text})) for n, text in enumerate(("plain", "=1", "-1", "=2"), start=1)]
    for csv_safe in (True, False):
        write(path, rows, flatten=("output.v",), csv_safe=csv_safe)
        reader = reader_of(path, OutputFormat.CSV, is_errors=False)
        assert all(reader.is_of(*pair) for pair in zip(reader, rows, strict=True))

        other = {"'=2": "=2"} if csv_safe else {"=2": "'=2"}
        [[was, now]] = other.items()
        path.write_text(path.read_text().replace(was, now))
        reader = reader_of(path, OutputFormat.CSV, is_errors=False)
        assert [reader.is_of(*pair) for pair in zip(reader, rows, strict=True)] == [True, True, True, False]
