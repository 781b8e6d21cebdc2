"""Lists of structured fields (RFC 9651), as far as the headers that we read need them: items with parameters.

    "minute";r=58;t=21, "hour";r=2950;t=1500

A list that breaks the grammar anywhere is no list at all: the RFC wants the whole field ignored then. Inner lists,
dates and byte sequences are in no header of ours and count as such a break.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

Bare = str | int | float | bool

_STRING: Final = r'"(?:[\x20-\x21\x23-\x5b\x5d-\x7e]|\\["\\])*"'
_NUMBER: Final = r"-?(?:\d{1,12}\.\d{1,3}|\d{1,15}(?![\d.]))"
_BARE: Final = rf"{_STRING}|{_NUMBER}|[A-Za-z*][!#$%&'*+.^_`|~0-9A-Za-z:/-]*|\?[01]"
_ITEM: Final = re.compile(_BARE)
_PARAMETER: Final = re.compile(rf"; *([a-z*][a-z0-9_.*-]*)(?:=({_BARE}))?")
_COMMA: Final = re.compile(r"[ \t]*,[ \t]*(?=[^ \t])")


class Member(msgspec.Struct, frozen=True):
    """One member of a list: its value (a token is a `str` like a string) and its parameters."""

    value: Bare
    parameters: Mapping[str, Bare] = MappingProxyType({})


def parse_list(text: str) -> tuple[Member, ...] | None:
    """The members of the list that `text` is, or None where it is none."""
    text = text.strip(" ")
    members: list[Member] = []
    at = 0
    while at < len(text):
        if members:
            comma = _COMMA.match(text, at)
            if comma is None:
                return None
            at = comma.end()
        item = _ITEM.match(text, at)
        if item is None:
            return None
        parameters, at = _parameters(text, item.end())
        members.append(Member(_bare(item[0]), parameters))
    return tuple(members)


def _parameters(text: str, at: int) -> tuple[Mapping[str, Bare], int]:
    """The parameters that stand at `at`, the last of a name winning, and where they end."""
    parameters: dict[str, Bare] = {}
    while found := _PARAMETER.match(text, at):
        name, value = found.groups()
        parameters[name] = True if value is None else _bare(value)
        at = found.end()
    return parameters, at


def _bare(text: str) -> Bare:
    if text[0] == '"':
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    if text[0] == "?":
        return text == "?1"
    if text[0] == "-" or text[0].isdigit():
        return float(text) if "." in text else int(text)
    return text
