"""What an input is that is not JSON lines, by its first line: each told in one line, with what to do."""

import re
from typing import Final

from orchestrator.formats.text.compression import GZIP, ZSTD
from orchestrator.formats.text.json_text import json_problem
from orchestrator.settings.words_and_defaults import InputFormat

START_BYTES: Final = 256
"""So much of an overlong line is looked at."""

_BINARY: Final = {
    b"\xff\xfe": "the file is UTF-16; save it as UTF-8",
    b"\xfe\xff": "the file is UTF-16; save it as UTF-8",
    b"PK\x03\x04": "the file is a zip archive; unpack it first",
    b"BZh": "the file is packed by bzip2; unpack it first",
    b"\xfd7zXZ\x00": "the file is packed by xz; unpack it first",
    b"7z\xbc\xaf\x27\x1c": "the file is a 7z archive; unpack it first",
    GZIP: "the file is packed twice; unpack it once",
    ZSTD: "the file is packed twice; unpack it once",
}

_ARRAY: Final = f"the file looks like one JSON array, not like JSON lines; say <setting format={InputFormat.JSON}>"
_DOCUMENT: Final = (
    "the file looks like JSON that goes over several lines; write each object on one line: jq -c . FILE > FILE.jsonl"
)
_TABLE: Final = f"the file looks like CSV, not like JSON lines; call it .csv, or say <setting format={InputFormat.CSV}>"

_FIELDS: Final = re.compile(rb"[^,;\t]+(?:[,;\t][^,;\t]*)+")


def not_text(start: bytes) -> str | None:
    """What a file is that begins so and is no text, if that is known."""
    return next((told for magic, told in _BINARY.items() if start.startswith(magic)), None)


def not_json_lines(line: bytes) -> str | None:
    """What an input is whose first line is `line` (or begins so), without white space around it; None where it may be
    JSON lines: then each line is told what is wrong with it.
    """
    if told := not_text(line):
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
