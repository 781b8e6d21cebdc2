"""JSON as people and programs read it: beside each number of microseconds stands the same moment in ISO 8601, and what
our own sentences call a setting by its key is called by its flag.

A field is a time by its name, as everywhere in the views: `at`, `since`, `until` and what ends in them.
"""

from collections.abc import Mapping
from datetime import timedelta
from functools import cache
from typing import Final

import msgspec

from orchestrator.errors import flag_name, with_settings_named
from orchestrator.units import EPOCH

ISO: Final = "_iso"
"""What the name of the field beside ends in: `ended_at` and `ended_at_iso`."""

_ENDINGS: Final = ("at", "since", "until")
_NO_TIMES: Final = frozenset({"looked_at"})
"""Numbers of what was looked at."""


def is_time(name: str) -> bool:
    """Whether a number in a field of that name is a moment: microseconds since 1970, UTC."""
    return name not in _NO_TIMES and name.rpartition("_")[2] in _ENDINGS


def iso_8601(at_us: int) -> str:
    """A moment in ISO 8601."""
    return (EPOCH + timedelta(microseconds=at_us)).isoformat(timespec="microseconds").replace("+00:00", "Z")


def as_printed(value: object) -> object:
    """`value` for JSON; what has no times and names no settings is returned as it is."""
    match value:
        case msgspec.Struct():
            return _of_struct(value)
        case list() | tuple():
            each = [as_printed(one) for one in value]
            return each if any(one is not before for one, before in zip(each, value, strict=True)) else value
        case Mapping():
            members = {key: as_printed(one) for key, one in value.items()}
            return members if any(members[key] is not value[key] for key in members) else value
        case _:
            return value


def _of_struct(value: msgspec.Struct) -> object:
    is_other = False
    members: dict[str, object] = {}
    for name, encoded, is_moment in _fields(type(value)):
        before = getattr(value, name)
        now = with_settings_named(before, flag_name) if isinstance(before, str) else as_printed(before)
        members[encoded] = now
        is_other = is_other or now is not before
        if is_moment:
            members[encoded + ISO] = None if before is None else iso_8601(before)
            is_other = True
    return members if is_other else value


@cache
def _fields(kind: type[msgspec.Struct]) -> tuple[tuple[str, str, bool], ...]:
    """The fields of a struct, each with its name in JSON, and whether it is a time in microseconds."""
    return tuple(
        (field.name, field.encode_name, is_time(field.name) and field.type in (int, int | None))
        for field in msgspec.structs.fields(kind)
    )
