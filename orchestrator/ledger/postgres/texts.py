"""Texts as a server takes them: it knows neither U+0000 nor half of a character, and workers write what they like.

Both are replaced by U+FFFD. So is nothing that has to stay exact: inputs and outputs are bytes, and a `custom_id` with
such in it is refused with its line (`formats.input.custom_id`).

Arrays go there as text, too. The driver looks at each value of its own twice, to see whether that is an array itself:
a seventh of what a step costs us, and read as a text it costs the server no more (measured).
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

REPLACEMENT: Final = "\ufffd"

_REFUSED: Final = re.compile("[\0\ud800-\udfff]")
_NUL_ESCAPE: Final = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")


def storable(text: str | None) -> str | None:
    """`text` as it can be stored."""
    return None if text is None else _replaced(text)


def _replaced(text: str) -> str:
    # Nearly all are of ASCII, which a string knows of itself.
    return text.replace("\0", REPLACEMENT) if text.isascii() else _REFUSED.sub(REPLACEMENT, text)


def storable_json(text: str | None) -> str | None:
    """A JSON text whose strings the server can make texts of."""
    if text is None or r"\u0000" not in text:
        return text
    return _NUL_ESCAPE.sub(rf"\1{REPLACEMENT}", text)


def array_of_numbers(values: Sequence[float | None]) -> str:
    """The text of an array of them."""
    if _are_the_same(values):
        return _array_of_one(array_of_numbers(values[:1]), len(values))
    said = str(list(values))[1:-1]
    return "{" + said.replace("None", "NULL").replace("True", "1").replace("False", "0") + "}"


def array_of_texts(texts: Sequence[str | None]) -> str:
    """The text of an array of them, as they can be stored."""
    if _are_the_same(texts):
        return _array_of_one(array_of_texts(texts[:1]), len(texts))
    with suppress(TypeError):  # one is None
        joined = "\0".join(texts)  # type: ignore[arg-type]
        # All at once, where none has what has to be replaced: that is looked for but once.
        if joined.isascii() and joined.count("\0") == len(texts) - 1:
            return "{" + _quoted(joined).replace("\0", '","') + "}"
    return "{" + ",".join("NULL" if text is None else _quoted(_replaced(text)) for text in texts) + "}"


def _are_the_same(values: Sequence[str | float | None]) -> bool:
    """Whether there are several, and all are equal."""
    return len(values) > 1 and values.count(values[0]) == len(values)


def _array_of_one(array: str, times: int) -> str:
    """An array of what is the only element of `array`, so many times."""
    element = array[1:-1]
    return "{" + f"{element}," * (times - 1) + element + "}"


def _quoted(text: str) -> str:
    """As an element of an array is."""
    return '"' + text.replace("\\", r"\\").replace('"', r"\"") + '"'
