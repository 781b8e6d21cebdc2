"""What declares a setting: its name, how its values are written, what it means, and what holds without it.

A setting is a field of a struct, annotated with its `Setting`. Its flag, its environment variable, its key of the
configuration file and of a pipeline, its help, its row of the reference, the keyword of a program, and the command that
a message names all follow from that.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from enum import Enum, StrEnum
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final, Generic, TypeVar, get_args

import msgspec

from orchestrator.core.text.durations import format_duration, parse_duration

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)

WHOLE_MAX: Final = 1_000_000_000

_WHOLE: Final = re.compile(r"\s*-?[0-9]{1,18}\s*")
_LINK: Final = re.compile(r"\[([^]]*)\]\([^)]*\)")

_SWITCHES: Final = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}


class Panel(StrEnum):
    """The headings of the help, in their order."""

    SERVICE = "Service"
    FILES = "Files"
    INPUT = "Input"
    JOBS = "Jobs"
    LONG_JOBS = "Long jobs"
    TROUBLE = "When things go wrong"
    BRAKES = "Brakes"
    SHOWN = "What is shown"
    FIGURES = "What is known"


class Kind(Enum):
    """How a value is written in the file; the text completes "must be ..."."""

    TEXT = 'text, as in {key} = "..."'
    WHOLE = "a whole number, as in {key} = 5"
    WHOLE_OR_TEXT = 'a whole number, as in {key} = 5, or text, as in {key} = "..."'
    NUMBER = "a number, as in {key} = 2.5"
    DURATION = 'a duration, as in {key} = "90s" (or a number of seconds)'
    SWITCH = "true or false"
    LIST = 'a list of texts, as in {key} = ["..."]'


@dataclass(frozen=True)
class Form(Generic[T]):
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


@dataclass(frozen=True, eq=False)
class Setting(Generic[T]):
    """One setting. As text it is its flag."""

    key: str
    form: Form[T]
    means: str
    """For the help and the reference, in Markdown."""

    _: KW_ONLY
    more: str = ""
    """What only the reference says besides."""

    of: type[msgspec.Struct] | None = None
    """What it is a field of, as `settings_in` has found; None where only the command line has it."""

    field: str = ""
    """Its name there; empty: its key, with underscores."""

    default: str | None = None
    """What holds without it, in Markdown; None: the field's default, if it has one."""

    panel: str | None = None
    """Under which heading the help has it."""

    brief: str = ""
    """For one that most people need: what it is in a few words, a line of the short help. The others have none."""

    has_flag: bool = True
    """False: what is set once for good stands in the file only."""

    def __str__(self) -> str:
        return f"--{self.key}"

    @property
    def name(self) -> str:
        """What its field, or a parameter for it, is called."""
        return self.field or self.key.replace("-", "_")

    @property
    def unset(self) -> Any:
        """The default of its field; None where there is none."""
        return None if self.of is None else _defaults(self.of).get(self.name)

    @cached_property
    def without(self) -> str:
        """What holds without it, in Markdown; empty where there is nothing to say."""
        if self.default is not None:
            return self.default
        if self.form.kind is Kind.SWITCH:
            return "off" if self.has_flag else "`false`"
        text = "" if self.unset is None else " ".join(self.form.write(self.unset))
        return f"`{text}`" if text and self.form.kind in (Kind.TEXT, Kind.WHOLE_OR_TEXT) else text

    @property
    def help(self) -> str:
        """What it means, for `--help`."""
        said = "" if self.without in ("", "off", "none") else f" Default: {self.without}."
        if self.without == "required":
            said = " Required, here or as a variable or in the file."
        return _LINK.sub(r"\1", self.means + said).replace("`", "")

    def words(self, value: T) -> list[str]:
        """The words of a command line that set it to `value`."""
        texts = self.form.write(value)
        if not self.form.metavar:
            return [str(self)]
        return [word for text in texts for word in ([f"{self}={text}"] if text.startswith("-") else [str(self), text])]


@cache
def _defaults(struct: type[msgspec.Struct]) -> Mapping[str, Any]:
    """The defaults of those fields that have one."""
    found: dict[str, Any] = {}
    for field in msgspec.structs.fields(struct):
        if field.default is not msgspec.NODEFAULT:
            found[field.name] = field.default
        elif field.default_factory is not msgspec.NODEFAULT:
            found[field.name] = field.default_factory()
    return found


@cache
def settings_in(struct: type[msgspec.Struct]) -> tuple[Setting[Any], ...]:
    """The settings that are fields of `struct`, in their order."""
    found = []
    for field, annotation in struct.__annotations__.items():
        for each in get_args(annotation)[1:]:
            if isinstance(each, Setting):
                vars(each).update(of=struct, field=field)
                found.append(each)
    return tuple(found)


def setting_of(struct: type[msgspec.Struct], field: str) -> Setting[Any]:
    """The setting that this field of `struct` is. Raises `KeyError`."""
    return {each.field: each for each in settings_in(struct)}[field]


# --- forms


def text(metavar: str) -> Form[str]:
    """Any text."""
    return parsed(metavar, str)


def parsed(
    metavar: str, parse: Callable[[str], T], write: Callable[[T], str] = str, *, kind: Kind = Kind.TEXT
) -> Form[T]:
    """One text, as `parse` reads it."""
    return Form(kind, metavar, lambda texts: parse(texts[-1]), lambda value: (write(value),))


def texts(metavar: str) -> Form[tuple[str, ...]]:
    """A text that may be given more than once."""
    return Form(Kind.LIST, metavar, tuple, tuple)


def whole(least: int, most: int = WHOLE_MAX, metavar: str = "N") -> Form[int]:
    """Whole numbers from `least` to `most`."""

    def parse(texts: Sequence[str]) -> int:
        text = texts[-1]
        number = int(text) if _WHOLE.fullmatch(text) else least - 1
        if not least <= number <= most:
            raise ValueError(f'"{text:.40}" is no whole number from {least} to {most}')
        return number

    return Form(Kind.WHOLE, metavar, parse)


def number(metavar: str) -> Form[float]:
    """Numbers that are not negative."""

    def parse(texts: Sequence[str]) -> float:
        try:
            number = float(texts[-1])
        except ValueError:
            number = math.nan
        if not 0 <= number < math.inf:
            raise ValueError(f'"{texts[-1]:.40}" is no number from 0')
        return number

    return Form(Kind.NUMBER, metavar, parse, lambda value: (f"{value:g}",))


def duration(parse: Callable[[int], int] = int, whole_us: Callable[[int], int] = int) -> Form[int]:
    """Durations; `parse` checks one in microseconds and says what is kept of it, which `whole_us` brings back."""

    def write(value: int) -> Sequence[str]:
        return (format_duration(whole_us(value)),)

    return Form(Kind.DURATION, "D", lambda texts: parse(parse_duration(texts[-1])), write)


def one_of(kind: type[E], metavar: str | None = None) -> Form[E]:
    """One of the words of `kind`, which the help names unless it has a `metavar`."""

    def parse(texts: Sequence[str]) -> E:
        try:
            return kind(texts[-1])
        except ValueError:
            raise ValueError(f'"{texts[-1]:.40}" is none of {", ".join(kind)}') from None

    return Form(Kind.TEXT, metavar or "|".join(kind), parse, words=tuple(kind))


def path(parse: Callable[[str], Path], metavar: str = "FILE") -> Form[Path]:
    """A file's path. One that is called like standard input is written so that it is a file."""
    return parsed(metavar, parse, lambda path: "./-" if str(path) == "-" else str(path))


def _switch(texts: Sequence[str]) -> bool:
    value = _SWITCHES.get(texts[-1].strip().lower())
    if value is None:
        raise ValueError(f'"{texts[-1]:.40}" is neither true nor false')
    return value


SWITCH: Final = Form(Kind.SWITCH, "", _switch)
