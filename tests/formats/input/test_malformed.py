"""Fifty broken files: each is told with its place, or refused, in bounded memory and time, and none is half believed."""

import bz2
import gzip
import io
import struct
import time
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa
import pytest
from pyarrow import parquet

from orchestrator.errors import UsageError
from orchestrator.formats.input.readers import read_inputs
from orchestrator.formats.input.rows import Row, RowProblem
from orchestrator.settings.words_and_defaults import CellType, InputFormat
from orchestrator.units import MIB
from tests.costs import slowness
from tests.formats.input.test_readers import checked_zstd
from tests.formats.input_files import Put, reading_of

MEMORY_BYTES_MAX: Final = 12 * MIB
CPU_S_MAX: Final = 3.0
INPUT_BYTES_MAX: Final = 100_000
ROW: Final = b'{"custom_id":"r","a":1}\n'


def table() -> bytes:
    sink = io.BytesIO()
    parquet.write_table(pa.table({"custom_id": [f"r{n}" for n in range(3_000)], "n": list(range(3_000))}), sink)
    return sink.getvalue()


def zipped() -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as file:
        file.writestr(zipfile.ZipInfo("a.jsonl"), ROW)  # of one time, so that it is always the same
    return sink.getvalue()


def twice_named() -> bytes:
    sink = io.BytesIO()
    columns = [pa.array(["x"]), pa.array(["y"])]
    parquet.write_table(pa.Table.from_arrays(columns, names=["a", "a"]), sink)
    return sink.getvalue()


def footer_of(length: int) -> bytes:
    return b"PAR1" + b"x" * 100 + struct.pack("<I", length) + b"PAR1"


class Bad(NamedTuple):
    """A broken file, and what is told of it first: its row, or none where the whole is refused."""

    name: str
    content: bytes | Callable[[], bytes]
    row: int | None
    told: str
    settings: dict[str, Any] = {}  # noqa: RUF012  nothing is put into it


CSV: Final = {"format": InputFormat.CSV}
BOMB: Final = {"input_bytes_max": INPUT_BYTES_MAX}
HOLDS: Final = "the input holds more than 100,000 bytes"

FILES: Final[dict[str, Bad]] = {
    # --- encodings
    "UTF-16 lines": Bad("a.jsonl", ROW.decode().encode("utf-16"), 1, "the file is UTF-16; save it as UTF-8"),
    "UTF-16 the other way": Bad("a.jsonl", b"\xfe\xff" + ROW.decode().encode("utf-16-be"), 1, "UTF-16"),
    "UTF-16 table": Bad("a.csv", "a,b\n1,2\n".encode("utf-16"), 1, "the file is UTF-16; save it as UTF-8"),
    "Latin-1 lines": Bad("a.jsonl", '{"a":"é"}\n'.encode("latin-1"), 1, "not valid UTF-8: byte 0xe9"),
    "Latin-1 table": Bad("a.csv", "a,b\n1,é\n".encode("latin-1"), 2, "not valid UTF-8: byte 0xe9"),
    "Latin-1 header": Bad("a.csv", "é,b\n1,2\n".encode("latin-1"), 1, "not valid UTF-8: byte 0xe9"),
    "Latin-1 array": Bad("a.json", '[{"a":"é"}]'.encode("latin-1"), 1, "not valid UTF-8"),
    "half of a character": Bad("a.jsonl", '{"a":"🌊"}'.encode()[:-4] + b'"}', 1, "not valid UTF-8"),
    "half of a surrogate pair": Bad("a.jsonl", rb'{"a":"\ud83d"}', 1, "half of a surrogate pair"),
    "a mark in the middle": Bad("a.jsonl", ROW + b"\xef\xbb\xbf" + ROW, 2, "not JSON"),
    # --- tables
    "a row with too many cells": Bad("a.csv", b"a,b\n1,2\n1,2,3\n", 3, "3 cells, and the first line names 2 columns"),
    "a row with too few": Bad("a.csv", b"a,b\n1\n", 2, "a cell, and the first line names 2 columns"),
    "cells behind a comma at the end": Bad("a.csv", b"a,b\n1,2,\n", 2, "3 cells"),
    "a quote that never ends": Bad("a.csv", b'a,b\n1,"2\n3,4\n', 2, "a quoted cell has no end"),
    "a quote that never ends, of megabytes": Bad(
        "a.csv", b'a,b\n1,"' + (b"x" * 999 + b"\n") * 300, 2, "a cell is too long, or its closing quote is missing"
    ),
    "text behind a quote": Bad("a.csv", b'a,b\n"1"x,2\n', 2, "not CSV: ',' expected after '\"'"),
    "CRLF in quotes, then ragged": Bad("a.csv", b'a,b\r\n"x\r\ny",2\r\n1\r\n', 4, "a cell, and the first line"),
    "line ends of three kinds": Bad("a.csv", b"a,b\n1,2\r\n3,4\r5,6\n", 3, "a line ends with CR alone"),
    "old Mac line ends": Bad("a.csv", b"a,b\r1,2\r3,4\r", 1, "a line ends with CR alone"),
    "a column twice": Bad("a.csv", b"a,b,a\n1,2,3\n", 1, "2 columns are called 'a'; each needs a name of its own"),
    "a column without a name": Bad("a.csv", b"a,,c\n1,2,3\n", 1, "column 2 has no name"),
    "a million columns": Bad("a.csv", b"column," * 1_000_000, 1, "too long; what comes behind it was not read"),
    "twenty thousand columns": Bad("a.csv", b",".join(b"%d" % n for n in range(20_000)), 1, "20,000 columns; 10,000"),
    "a line of megabytes": Bad("a.csv", b"a,b\n" + b"x" * 3_000_000, 2, "too long; what comes behind it was not read"),
    "no header": Bad("a.csv", b"\n1,2\n", 1, "the first line must name the columns"),
    "a number that is none": Bad("a.csv", b"a\nx\n", 2, "a: 'x' is no whole number", {"types": (("a", CellType.INT),)}),
    "a number of thousands of digits": Bad(
        "a.csv", b"a\n" + b"9" * 6_000 + b"\n", 2, "is no whole number", {"types": (("a", CellType.INT),)}
    ),
    "JSON in a cell that is none": Bad("a.csv", b"a\n{\n", 2, "a: not JSON", {"types": (("a", CellType.JSON),)}),
    "JSON in a cell, nested too deeply": Bad(
        "a.csv", b"a\n" + b"[" * 50_000 + b"\n", 2, "a: not usable: nested too deeply", {"types": (("a", CellType.JSON),)}
    ),
    "a table with NULs": Bad("a.csv", b"custom_id,b\nr\x001,2\n", 2, "custom_id has a control character (U+0000)"),
    "a spreadsheet": Bad("a.csv", zipped, 1, "the file is a zip archive; unpack it first"),
    # --- JSON
    "nothing but NULs": Bad("a.jsonl", b"\0" * 50_000, 1, "not JSON"),
    "a NUL behind a row": Bad("a.jsonl", ROW[:-1] + b"\0\n", 1, "not JSON"),
    "nested too deeply": Bad("a.jsonl", b'{"a":' + b"[" * 50_000 + b"]" * 50_000 + b"}", 1, "nested too deeply"),
    "an array nested too deeply": Bad("a.json", b'[{"a":' + b"[" * 9_000 + b"]" * 9_000 + b"}]", 1, "nested too deeply"),
    "an element without an end": Bad("a.json", b'[{"a":"' + b"x" * 500_000, 1, "longer than 165,536 bytes"),
    "rows between broken ones": Bad("a.jsonl", ROW + b'{"a":\n' + b'{"custom_id":"q"}x\n', 2, "not JSON: it ends too early"),
    "a document over lines": Bad("a.jsonl", b'{\n  "a": 1\n}\n', 1, "goes over several lines"),
    "an id twice in a line": Bad("a.jsonl", b'{"custom_id":"a","custom_id":"b","x":1}', 1, "custom_id stands twice"),
    "NaN": Bad("a.jsonl", b'{"a":NaN}', 1, "NaN is not a JSON number"),
    # --- packed
    "a zip": Bad("a.jsonl", zipped, 1, "the file is a zip archive; unpack it first"),
    "a tenth of a gzip": Bad("a.jsonl.gz", lambda: gzip.compress(ROW * 2_000)[:-20], None, "cannot be unpacked"),
    "gzip with a wrong checksum": Bad(
        "a.csv.gz", lambda: gzip.compress(b"a\n1\n")[:-8] + b"\0" * 8, 3, "from here on it cannot be unpacked: CRC check"
    ),
    "gzip in name and magic alone": Bad("a.jsonl.gz", b"\x1f\x8b" + b"x" * 100, 1, "cannot be unpacked"),
    "half of a zstd": Bad("a.jsonl.zst", lambda: checked_zstd(ROW * 2_000)[:-9], None, "cannot be unpacked"),
    "bzip2": Bad("a.jsonl.bz2", lambda: bz2.compress(ROW), 1, "the file is packed by bzip2"),
    "a bomb of lines": Bad("a.jsonl.gz", lambda: gzip.compress(b"\n" * 5_000_000), None, HOLDS, BOMB),
    "a bomb of blank lines": Bad(
        "a.jsonl.gz", lambda: gzip.compress(ROW + b"\r\n" * 200_000 + ROW), 2, "bytes of nothing but blank lines behind each other"
    ),
    "a bomb of blank lines in a table": Bad(
        "a.csv.gz", lambda: gzip.compress(b"a\n1\n" + b"\n" * 300_000), 3, "bytes of nothing but blank lines behind each other"
    ),
    "a bomb of blank lines behind an array": Bad(
        "a.json.gz", lambda: gzip.compress(b'[{"a":1}]' + b"\n" * 1_000_000), 2, "bytes of nothing but blank lines behind each other"
    ),
    "a bomb of one line": Bad("a.jsonl.zst", lambda: checked_zstd(b" " * 20_000_000), None, HOLDS, BOMB),
    "a bomb of cells": Bad("a.csv.gz", lambda: gzip.compress(b"a\n" + b"12345678901234567890\n" * 200_000), None, HOLDS, BOMB),
    "a bomb of an array": Bad("a.json.gz", lambda: gzip.compress(b"[" + b'{"a":1234567890},' * 200_000), None, HOLDS, BOMB),
    "a bomb in a bomb": Bad("a.jsonl.gz", lambda: gzip.compress(gzip.compress(b"0" * 5_000_000)), 1, "packed twice", BOMB),
    # --- Parquet
    "no Parquet": Bad("a.parquet", b"a,b\n1,2\n" * 100, 1, "from here on it cannot be read"),
    "Parquet without its end": Bad("a.parquet", lambda: table()[:-300], 1, "from here on it cannot be read"),
    "Parquet without its middle": Bad("a.parquet", lambda: table()[:200] + table()[-900:], 1, "cannot be read"),
    "Parquet with an absurd footer": Bad("a.parquet", footer_of(0xFFFFFFF0), 1, "from here on it cannot be read"),
    "Parquet with zeros in it": Bad(
        "a.parquet", lambda: table()[:30] + b"\0" * 4_000 + table()[4_030:], 1, "from here on it cannot be read"
    ),
    "packed Parquet": Bad("a.parquet.gz", lambda: gzip.compress(table()), None, "so it must be a file, and not packed"),
    "a column of Parquet twice": Bad("a.parquet", twice_named, 1, "2 columns are called 'a'"),
    # --- OpenAI Batch
    "a request without a body": Bad(
        "a.jsonl", b'{"custom_id":"r","method":"POST","url":"/v1/x"}', 1, "body is missing", {"format": InputFormat.OPENAI_BATCH}
    ),
    "a response for a request": Bad(
        "a.jsonl", b'{"id":"batch_req_1","custom_id":"r","response":null,"error":null}', 1, "is missing",
        {"format": InputFormat.OPENAI_BATCH},
    ),
}  # fmt: skip


SLOW = {"a bomb of blank lines in a table": pytest.mark.slow}


@pytest.mark.parametrize("bad", [pytest.param(bad, id=name, marks=SLOW.get(name, ())) for name, bad in FILES.items()])
def test_a_broken_file_is_told_in_bounded_memory_and_time(put: Put, bad: Bad) -> None:
    content = bad.content() if callable(bad.content) else bad.content
    source = put(bad.name, content)
    del content
    reading = reading_of(**bad.settings)
    first: RowProblem | None = None
    tracemalloc.start()
    before = time.process_time()
    try:
        for item in read_inputs([source], reading):
            if isinstance(item, RowProblem) and first is None:
                first = item
    except UsageError as error:
        first = RowProblem(line=0, text=str(error))
    took, (_, peak) = time.process_time() - before, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert first is not None
    assert bad.told in first.text
    assert bad.row in (None, first.line)
    assert "\n" not in first.text
    assert len(first.text) < 500
    assert peak < MEMORY_BYTES_MAX
    assert took < CPU_S_MAX * slowness()


def test_a_file_of_nothing_but_problems_is_not_read_to_its_end(put: Put) -> None:
    reading = msgspec.structs.replace(reading_of(), problems_max=20)
    told = list(read_inputs([put("a.jsonl", ROW + b"x\n" * 1_000 + ROW), put("b.jsonl", ROW)], reading))
    assert [type(item) for item in told] == [Row, *[RowProblem] * 21, Row]
    assert told[21] == RowProblem(line=22, text="20 problems; what comes behind them was not read")


def test_there_are_fifty_at_least_and_each_is_another() -> None:
    assert len(FILES) >= 50
    assert len({Path(bad.name).suffix for bad in FILES.values()}) >= 6
