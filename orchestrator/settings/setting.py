"""What declares a setting: its name, how its values are written, what it means, and what holds without it.

A setting is a field of a struct, annotated with its `Setting`. Its flag, its environment variable, its key of the
configuration file and of a pipeline, its help, its row of the reference, the keyword of a program, and the command that
a message names all follow from that.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from functools import cache, cached_property
from typing import Any, Final, Generic, TypeVar, get_args

import msgspec

from orchestrator.settings.value_types import Kind, ValueType

T = TypeVar("T")

_LINK: Final = re.compile(r"\[([^]]*)\]\([^)]*\)")


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
    SERVED = "What is served"
    ACCESS = "Who may see and do what"
    ACCOUNT = "The account"
    WORKERS = "Workers"
    BATCHES = "The service's own Batch"
    BEHAVIOUR = "How it behaves"


@dataclass(frozen=True, eq=False)
class Setting(Generic[T]):
    """One setting. As text it is its flag."""

    key: str
    value_type: ValueType[T]
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

    plural: str = ""
    """What a program calls one that it gives all values of at once; empty: as it is called anyway."""

    has_flag: bool = True
    """False: what is set once for good stands in the file only."""

    def __str__(self) -> str:
        return f"--{self.key}"

    @property
    def name(self) -> str:
        """What its field, or a parameter for it, is called."""
        return self.field or self.key.replace("-", "_")

    @property
    def keyword(self) -> str:
        """What a program calls it."""
        return self.plural or self.key.replace("-", "_")

    @property
    def unset(self) -> Any:
        """The default of its field; None where there is none."""
        return None if self.of is None else _defaults(self.of).get(self.name)

    @cached_property
    def without(self) -> str:
        """What holds without it, in Markdown; empty where there is nothing to say."""
        if self.default is not None:
            return self.default
        if self.value_type.kind is Kind.SWITCH:
            return "off" if self.has_flag else "`false`"
        text = "" if self.unset is None else " ".join(self.value_type.write(self.unset))
        return f"`{text}`" if text and self.value_type.kind in (Kind.TEXT, Kind.WHOLE_OR_TEXT) else text

    @property
    def help(self) -> str:
        """What it means, for `--help`."""
        said = "" if self.without in ("", "off", "none") else f" Default: {self.without}."
        if self.without == "required":
            said = " Required, here or as a variable or in the file."
        return _LINK.sub(r"\1", self.means + said).replace("`", "")

    def words(self, value: T) -> list[str]:
        """The words of a command line that set it to `value`."""
        texts = self.value_type.write(value)
        if not self.value_type.metavar:
            return [str(self)]
        return [word for text in texts for word in ([f"{self}={text}"] if text.startswith("-") else [str(self), text])]


DisplayName = Callable[[Setting[Any]], str]
"""What a setting is called where a message is shown: a flag, a keyword, a key, or where it was set."""


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
    """The settings that are fields of `struct`, in their order, after those of what it extends."""
    found = []
    for part in reversed(struct.__mro__):
        for field, annotation in vars(part).get("__annotations__", {}).items():
            for each in get_args(annotation)[1:]:
                if isinstance(each, Setting):
                    vars(each).update(of=struct, field=field)
                    found.append(each)
    return tuple(found)


def setting_of(struct: type[msgspec.Struct], field: str) -> Setting[Any]:
    """The setting that this field of `struct` is. Raises `KeyError`."""
    return {each.field: each for each in settings_in(struct)}[field]
