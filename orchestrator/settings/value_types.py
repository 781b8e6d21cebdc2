"""How the values of settings are written, on a command line as in a file: one type for many settings."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final, Generic, TypeVar

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)

OFF: Final = "off"
WHOLE_MAX: Final = 1_000_000_000

_WHOLE: Final = re.compile(r"\s*-?[0-9]{1,18}\s*")

_SWITCHES: Final = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}


class Kind(Enum):
    """How a value is written in the file; the text completes "must be ..."."""

    TEXT = 'text, as in {key} = "..."'
    WHOLE = "a whole number, as in {key} = 5"
    WHOLE_OR_TEXT = 'a whole number, as in {key} = 5, or text, as in {key} = "..."'
    NUMBER = "a number, as in {key} = 2.5"
    DURATION = 'a duration, as in {key} = "90s" (or a number of seconds)'
    SWITCH = "true or false"
    LIST = 'a list of texts, as in {key} = ["..."]'
    TABLE = 'a table of texts, as in {key} = {{ name = "..." }}'


@dataclass(frozen=True)
class ValueType(Generic[T]):
    """How the values of a setting are written."""

    kind: Kind
    metavar: str
    """What stands for a value in the help; empty for a switch."""

    read: Callable[[Sequence[str]], T]
    """The value that was given as these texts (one, but for lists). Raises `ValueError` or `UsageError`."""

    write: Callable[[T], Sequence[str]] = lambda value: (str(value),)
    """The texts that `read` makes the same value of."""

    words: tuple[str, ...] = ()
    """What a shell can complete."""

    by_lines: bool = False
    """Of a list: its values hold spaces and commas, so that in a variable each has a line of its own."""


def text(metavar: str) -> ValueType[str]:
    """Any text."""
    return parsed(metavar, str)


def parsed(
    metavar: str, parse: Callable[[str], T], write: Callable[[T], str] = str, *, kind: Kind = Kind.TEXT
) -> ValueType[T]:
    """One text, as `parse` reads it."""
    return ValueType(kind, metavar, lambda texts: parse(texts[-1]), lambda value: (write(value),))


def texts(metavar: str) -> ValueType[tuple[str, ...]]:
    """A text that may be given more than once."""
    return listed(metavar, str)


def listed(
    metavar: str, parse: Callable[[str], T], write: Callable[[T], str] = str, *, by_lines: bool = False
) -> ValueType[tuple[T, ...]]:
    """Any number of texts, each as `parse` reads it."""

    def read(texts: Sequence[str]) -> tuple[T, ...]:
        return tuple(map(parse, texts))

    return ValueType(Kind.LIST, metavar, read, lambda values: tuple(map(write, values)), by_lines=by_lines)


def whole(least: int, most: int = WHOLE_MAX, metavar: str = "N") -> ValueType[int]:
    """Whole numbers from `least` to `most`."""

    def parse(texts: Sequence[str]) -> int:
        text = texts[-1]
        number = int(text) if _WHOLE.fullmatch(text) else least - 1
        if not least <= number <= most:
            raise ValueError(f'"{text:.40}" is no whole number from {least} to {most}')
        return number

    return ValueType(Kind.WHOLE, metavar, parse)


def number(metavar: str) -> ValueType[float]:
    """Numbers that are not negative."""

    def parse(texts: Sequence[str]) -> float:
        try:
            number = float(texts[-1])
        except ValueError:
            number = math.nan
        if not 0 <= number < math.inf:
            raise ValueError(f'"{texts[-1]:.40}" is no number from 0')
        return number

    return ValueType(Kind.NUMBER, metavar, parse, lambda value: (f"{value:g}",))


def one_of(kind: type[E], metavar: str | None = None) -> ValueType[E]:
    """One of the words of `kind`, which the help names unless it has a `metavar`."""

    def parse(texts: Sequence[str]) -> E:
        try:
            return kind(texts[-1])
        except ValueError:
            raise ValueError(f'"{texts[-1]:.40}" is none of {", ".join(kind)}') from None

    return ValueType(Kind.TEXT, metavar or "|".join(kind), parse, words=tuple(kind))


def path(parse: Callable[[str], T], metavar: str = "FILE") -> ValueType[T]:
    """A file's path. One that is called like standard input is written so that it is a file."""
    return parsed(metavar, parse, lambda path: "./-" if str(path) == "-" else str(path))


def _switch(texts: Sequence[str]) -> bool:
    value = _SWITCHES.get(texts[-1].strip().lower())
    if value is None:
        raise ValueError(f'"{texts[-1]:.40}" is neither true nor false')
    return value


SWITCH: Final = ValueType(Kind.SWITCH, "", _switch)
