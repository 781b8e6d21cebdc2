"""JSON text with its insignificant white space removed and every token left as it came."""

import msgspec


def compact(raw: bytes) -> bytes:
    """`raw`, one JSON document, without white space between tokens: one line of valid UTF-8.

    Large integers, key order and number forms stay as they are. Raises ValueError for anything that is not exactly one
    valid JSON document, and RecursionError for absurd nesting.
    """
    text = msgspec.json.format(raw, indent=-1)
    if not text.isascii():
        text.decode()
    return text
