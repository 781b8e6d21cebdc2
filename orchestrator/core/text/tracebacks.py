"""The tracebacks in what a worker said: it puts them into strings of JSON, where their lines cannot be read."""

import re
from collections.abc import Iterator
from typing import Final

import msgspec

DEPTH_MAX: Final = 6
"""So deep JSON stands in strings of JSON at most."""

_TRACEBACK: Final = re.compile(r"^Traceback \(most recent call last\):", re.MULTILINE)


def tracebacks_in(message: str) -> list[str]:
    """Those of `message`, each with its own lines, outermost first; none twice."""
    return list(dict.fromkeys(_found(message, 0)))


def _found(text: str, depth: int) -> Iterator[str]:
    value = _decoded(text)
    if value is not None:
        yield from _in_value(value, depth)
    elif (begin := _TRACEBACK.search(text)) is not None:
        yield text[begin.start() :].strip()


def _decoded(text: str) -> object:
    """The object, list or string that `text` is as JSON; None where it is none of these."""
    if text.strip()[:1] not in ("{", "[", '"'):
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None


def _in_value(value: object, depth: int) -> Iterator[str]:
    if depth == DEPTH_MAX:
        return
    if isinstance(value, str):
        yield from _found(value, depth + 1)
    elif isinstance(value, dict):
        for each in value.values():
            yield from _in_value(each, depth + 1)
    elif isinstance(value, list):
        for each in value:
            yield from _in_value(each, depth + 1)
