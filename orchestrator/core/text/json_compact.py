"""JSON text with its insignificant white space removed and every token left as it came."""

import re
from typing import Final

import msgspec

BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


def without_mark(body: bytes) -> bytes:
    """`body`, which some other program has written, without the byte order mark that some begin text with: JSON has
    none (RFC 8259, 8.1), and whoever reads it may leave one away.
    """
    return body.removeprefix(BYTE_ORDER_MARK)


_BOTH_HALVES: Final = rb"u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_ESCAPE: Final = re.compile(rb"\\(?:%b|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)" % _BOTH_HALVES, re.DOTALL)
_REPLACEMENT: Final = rb"\ufffd"


def with_whole_characters(body: bytes) -> bytes:
    r"""`body`, a JSON text, with U+FFFD in the place of each half of a character (`\ud83d` without the other half after
    it): programs write such, and no strict reader takes them.
    """
    if b"\\ud" not in body and b"\\uD" not in body:
        return body
    return _ESCAPE.sub(lambda found: _REPLACEMENT if found["half"] else found[0], body)


def compact(raw: bytes) -> bytes:
    """`raw`, one JSON document, without white space between tokens: one line of valid UTF-8.

    Large integers, key order and number forms stay as they are. Raises ValueError for anything that is not exactly one
    valid JSON document, and RecursionError for absurd nesting.
    """
    text = msgspec.json.format(raw, indent=-1)
    if not text.isascii():
        text.decode()
    return text
