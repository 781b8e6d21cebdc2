"""JSON text with its insignificant white space removed and every token left as it came."""

from typing import Final

import msgspec

BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


def without_mark(body: bytes) -> bytes:
    """`body`, which some other program has written, without the byte order mark that some begin text with: JSON has
    none (RFC 8259, 8.1), and whoever reads it may leave one away.
    """
    return body.removeprefix(BYTE_ORDER_MARK)


def compact(raw: bytes) -> bytes:
    """`raw`, one JSON document, without white space between tokens: one line of valid UTF-8.

    Large integers, key order and number forms stay as they are. Raises ValueError for anything that is not exactly one
    valid JSON document, and RecursionError for absurd nesting.
    """
    text = msgspec.json.format(raw, indent=-1)
    if not text.isascii():
        text.decode()
    return text
