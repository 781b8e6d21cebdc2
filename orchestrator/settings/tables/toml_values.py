"""How values of settings are written in TOML, and as they would be typed on a command line."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from orchestrator.settings.value_types import Kind

_TYPES: Final[Mapping[Kind, tuple[type, ...]]] = {
    Kind.TEXT: (str,),
    Kind.WHOLE: (int,),
    Kind.WHOLE_OR_TEXT: (int, str),
    Kind.NUMBER: (int, float),
    Kind.DURATION: (str, int, float),
    Kind.LIST: (str,),
    Kind.TABLE: (dict,),
}
"""What a value of the file is, but for switches, lists and tables of texts."""


def fits(value: object, kind: Kind) -> bool:
    """Whether a value of a TOML file is written as `kind` asks for."""
    if isinstance(value, bool) or kind is Kind.SWITCH:
        return isinstance(value, bool) and kind is Kind.SWITCH
    if kind is Kind.LIST and isinstance(value, list):
        return all(isinstance(each, str) for each in value)
    if kind is Kind.TABLE and isinstance(value, dict):
        return all(isinstance(each, str) for each in value.values())
    return isinstance(value, _TYPES[kind])


def toml_texts(value: object) -> tuple[str, ...]:
    """A value of a TOML file, or each of a list, as typed on the command line; each of a table as `NAME=TEXT`."""
    if isinstance(value, dict):
        return tuple(f"{name}={text}" for name, text in value.items())
    return tuple(map(_text_of, value if isinstance(value, list) else [value]))


def _text_of(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case float():
            return format(Decimal(repr(value)), "f").lower()  # never 1e-05, and with every digit of a price
        case _:
            return str(value)
