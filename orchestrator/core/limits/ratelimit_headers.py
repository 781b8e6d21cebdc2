"""The limits that the service tells with its answers, in `RateLimit` headers (contract of pods, Limits).

`RateLimit` says for each window how many requests remain and when it resets, `RateLimit-Policy` how many it takes and
how long it is. Both are lists of structured fields (RFC 9651), read here as far as these headers need it: items with
parameters, as in

    "minute";r=58;t=21, "hour";r=2950;t=1500

A list that breaks the grammar anywhere is no list at all: the RFC wants the whole field ignored then. Inner lists,
dates and byte sequences are in no header of ours and count as such a break.
"""

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from orchestrator.units import SECOND_US

WHOLE_MAX: Final = 10**9
"""Larger counts and seconds are nonsense."""

Bare = str | int | float | bool

_STRING: Final = r'"(?:[\x20-\x21\x23-\x5b\x5d-\x7e]|\\["\\])*"'
_NUMBER: Final = r"-?(?:\d{1,12}\.\d{1,3}|\d{1,15}(?![\d.]))"
_BARE: Final = rf"{_STRING}|{_NUMBER}|[A-Za-z*][!#$%&'*+.^_`|~0-9A-Za-z:/-]*|\?[01]"
_ITEM: Final = re.compile(_BARE)
_PARAMETER: Final = re.compile(rf"; *([a-z*][a-z0-9_.*-]*)(?:=({_BARE}))?")
_COMMA: Final = re.compile(r"[ \t]*,[ \t]*(?=[^ \t])")


class ListMember(msgspec.Struct, frozen=True):
    """One member of a list: its value (a token is a `str` like a string) and its parameters."""

    value: Bare
    parameters: Mapping[str, Bare] = MappingProxyType({})


def parse_list(text: str) -> tuple[ListMember, ...] | None:
    """The members of the list that `text` is, or None where it is none."""
    text = text.strip(" ")
    members: list[ListMember] = []
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
        members.append(ListMember(_bare(item[0]), parameters))
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


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """One window as last told. None: not told."""

    name: str
    remaining: int | None = None
    reset_at: int | None = None
    """When the window is full again, counted from when the answer came (microseconds UTC)."""
    quota: int | None = None
    window_s: int | None = None


def read_windows(limit: str | None, policy: str | None, answered_at: int) -> tuple[Window, ...]:
    """The windows that the two headers tell (None: no such header), in their order; what makes no sense is left out."""
    quotas = dict(_named(policy))
    windows = [
        Window(
            name=name,
            remaining=remaining,
            reset_at=answered_at + reset_s * SECOND_US,
            quota=_whole(quotas.get(name), "q"),
            window_s=_whole(quotas.get(name), "w"),
        )
        for name, member in _named(limit)
        if (remaining := _whole(member, "r")) is not None and (reset_s := _whole(member, "t")) is not None
    ]
    told = {window.name for window in windows}
    windows += [
        Window(name=name, quota=_whole(member, "q"), window_s=_whole(member, "w"))
        for name, member in quotas.items()
        if name not in told
    ]
    return tuple(windows)


def _named(header: str | None) -> Iterable[tuple[str, ListMember]]:
    members = parse_list(header) if header else None
    return ((member.value, member) for member in members or () if isinstance(member.value, str))


def _whole(member: ListMember | None, parameter: str) -> int | None:
    value = member.parameters.get(parameter) if member else None
    return value if type(value) is int and 0 <= value <= WHOLE_MAX else None
