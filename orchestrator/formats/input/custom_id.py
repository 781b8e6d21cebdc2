"""The author's name for a row: what may be one, and how it is cut out of a line that is otherwise the input."""

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from orchestrator.formats.text.json_text import json_kind

CUSTOM_ID_CHARS_MAX: Final = 256

STANDS_TWICE: Final = "custom_id stands twice in this line"

_string: Final = msgspec.json.Decoder(str)

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")

_KEY: Final = b'"custom_id"'

_STRING_TOKEN: Final = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
"""Possessive, so that a string of many megabytes neither backtracks nor fills memory with places to go back to. A group
that fails in its midst takes what it had before Python 3.11.5: this one can only at the end, where nothing may follow.
"""

_TOKEN: Final = re.compile(rb"(?P<string>%b)(?P<colon>[ \t\r\n]*:)?|[{}\[\]]" % _STRING_TOKEN, re.DOTALL)
_MEMBER: Final = re.compile(rb"[ \t\r\n]*:[ \t\r\n]*%b[ \t\r\n]*(?P<comma>,?)" % _STRING_TOKEN, re.DOTALL)


def decode_custom_id(raw: bytes) -> str:
    """The custom_id that the valid JSON text `raw` holds. Raises ValueError in words for the author of the line."""
    if not raw.startswith(b'"'):
        raise ValueError(f"custom_id must be a string, not {json_kind(raw)}")
    return check_custom_id(_string.decode(raw))


def check_custom_id(custom_id: str) -> str:
    """`custom_id`, where it may be one. Raises ValueError in words for its author."""
    if not 1 <= len(custom_id) <= CUSTOM_ID_CHARS_MAX:
        raise ValueError(f"custom_id has {len(custom_id)} characters; it takes 1 to {CUSTOM_ID_CHARS_MAX}")
    if control := _CONTROL.search(custom_id):
        name, position = f"U+{ord(control[0]):04X}", control.start() + 1
        raise ValueError(f"custom_id has a control character ({name}) at position {position}")
    return custom_id


def without_custom_id(line: bytes) -> bytes:
    r"""`line`, a valid JSON object with a string `custom_id` in it, without that member; all other bytes stay.

    The line is searched rather than decoded and encoded again, since that would change the other tokens (`1e5`,
    `"\u00e9"`). Of two members of that name the first is cut. Raises ValueError when it is no string.
    """
    # The key is this text unless it is written with \u escapes; where the text stands once, it is the key.
    if line.count(_KEY) == 1 and b"\\u" not in line:
        return _cut(line, line.index(_KEY), len(_KEY))
    start, key = next(found for found in _top_level_keys(line) if _string.decode(found[1]) == "custom_id")
    return _cut(line, start, len(key))


def _top_level_keys(line: bytes) -> Iterator[tuple[int, bytes]]:
    depth = 0
    for token in _TOKEN.finditer(line):
        if token[0] in b"{[":
            depth += 1
        elif token[0] in b"]}":
            depth -= 1
        elif depth == 1 and token["colon"]:
            yield token.start(), token["string"]


def _cut(line: bytes, start: int, key_bytes: int) -> bytes:
    member = _MEMBER.match(line, start + key_bytes)
    if member is None:
        # The caller has seen a string, which must then be the value of a later member of the same name.
        raise ValueError(STANDS_TWICE)
    before, after = line[:start], line[member.end() :]
    # The last member takes the comma before it along, any other the comma after it.
    return (before if member["comma"] else before.rstrip(b" \t\r\n").removesuffix(b",")) + after
