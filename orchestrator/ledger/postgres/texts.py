"""Texts as a server takes them: it knows neither U+0000 nor half of a character, and workers write what they like.

Both are replaced by U+FFFD. So is nothing that has to stay exact: inputs and outputs are bytes, and a `custom_id` with
such in it is refused with its line (`formats.input.custom_id`).
"""

import re
from typing import Final

REPLACEMENT: Final = "\ufffd"

_REFUSED: Final = re.compile("[\0\ud800-\udfff]")
_NUL_ESCAPE: Final = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")


def storable(text: str | None) -> str | None:
    """`text` as it can be stored."""
    if text is None:
        return None
    # Nearly all are of ASCII, which a string knows of itself.
    return text.replace("\0", REPLACEMENT) if text.isascii() else _REFUSED.sub(REPLACEMENT, text)


def storable_json(text: str | None) -> str | None:
    """A JSON text whose strings the server can make texts of."""
    if text is None or r"\u0000" not in text:
        return text
    return _NUL_ESCAPE.sub(rf"\1{REPLACEMENT}", text)
