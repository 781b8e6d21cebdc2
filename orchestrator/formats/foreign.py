"""What an input is that is not JSON lines, by its first line: each told in one line, with what to do."""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from orchestrator.formats.json_text import json_problem

START_BYTES: Final = 256
"""So much of an overlong line is looked at."""

_BINARY: Final = {
    b"\xff\xfe": "the file is UTF-16; save it as UTF-8",
    b"\xfe\xff": "the file is UTF-16; save it as UTF-8",
    b"\x1f\x8b": "the file is compressed with gzip; unpack it first: gunzip FILE",
    b"\x28\xb5\x2f\xfd": "the file is compressed with zstd; unpack it first: unzstd FILE",
    b"PK\x03\x04": "the file is a zip archive; unpack it first",
    b"PAR1": "the file is Parquet, not JSON Lines",
}

_ARRAY: Final = (
    "the file looks like one JSON array, not like JSON lines; write each of its objects on a line of its own:"
    " jq -c '.[]' FILE > FILE.jsonl"
)
_DOCUMENT: Final = (
    "the file looks like JSON that goes over several lines; write each object on one line: jq -c . FILE > FILE.jsonl"
)
_TABLE: Final = (
    "the file looks like CSV, not like JSON lines; write one object a line:"
    ' python3 -c "import csv, json, sys; [print(json.dumps(row)) for row in csv.DictReader(sys.stdin)]"'
    " < FILE > FILE.jsonl"
)
OPENAI_BATCH: Final = (
    "this looks like a line of an OpenAI Batch file (method, url, body), which is not supported yet; write what the"
    ' worker takes: {"custom_id": "...", "input": {...}}'
)

_FIELDS: Final = re.compile(rb"[^,;\t]+(?:[,;\t][^,;\t]*)+")
_OPENAI_KEYS: Final = frozenset({"method", "url", "body"})


def not_json_lines(line: bytes) -> str | None:
    """What an input is whose first line is `line` (or begins so), without white space around it; None where it may be
    JSON lines: then each line is told what is wrong with it.
    """
    for magic, told in _BINARY.items():
        if line.startswith(magic):
            return told
    if line.startswith(b"["):
        return _ARRAY
    if line == b"{":
        return _DOCUMENT
    if not line.startswith(b"{") and _FIELDS.fullmatch(line) and json_problem(line) and _is_text(line):
        return _TABLE
    return None


def _is_text(line: bytes) -> bool:
    try:
        return line.decode().replace("\t", " ").isprintable()
    except UnicodeDecodeError:
        return False


def is_openai_batch(members: Mapping[str, msgspec.Raw]) -> bool:
    """Whether an object is a request of the OpenAI Batch format: these keys, an object as body, and no others."""
    return members.keys() - {"custom_id"} == _OPENAI_KEYS and bytes(members["body"]).startswith(b"{")
