"""What was set, and where: flags over the environment over the file.

The keys of all three are the names of the flags: `--max-attempts 5`, `ORCHESTRATOR_MAX_ATTEMPTS=5`, and in the file
`max-attempts = 5` (or `max_attempts`). Those of the emulator, some of which have the same names, stand in a table of
the file, and their variables begin with `ORCHESTRATOR_EMULATE_`. Whatever is wrong with a value is said with the name
that the user wrote. Values stay text until they are asked for, since only the asker knows what they mean.
"""

import difflib
import tomllib
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from orchestrator.errors import UsageError

T = TypeVar("T")

FILE_DEFAULT: Final = Path("orchestrator.toml")
"""The configuration file that is read, where it is present, when none is named."""

ENVIRONMENT_PREFIX: Final = "ORCHESTRATOR_"

KEY_ADVICE: Final = "keep the key out of files and set ORCHESTRATOR_API_KEY in the environment"


class Kind(Enum):
    """How a value is written in the file; the text completes "must be ..."."""

    TEXT = 'text, as in {key} = "..."'
    WHOLE = "a whole number, as in {key} = 5"
    NUMBER = "a number, as in {key} = 2.5"
    DURATION = 'a duration, as in {key} = "90s" (or a number of seconds)'
    SWITCH = "true or false"
    LIST = 'a list of texts, as in {key} = ["..."]'


KEYS: Final[Mapping[str, Kind]] = {
    "endpoint": Kind.TEXT,
    "name": Kind.TEXT,
    "ledger": Kind.TEXT,
    "output": Kind.TEXT,
    "errors": Kind.TEXT,
    "serverless-url": Kind.TEXT,
    "base-url": Kind.TEXT,
    "team": Kind.TEXT,
    "rest-url": Kind.TEXT,
    "graphql-url": Kind.TEXT,
    "graphql-key": Kind.TEXT,
    "listen": Kind.TEXT,
    "webhook-url": Kind.TEXT,
    "max-attempts": Kind.WHOLE,
    "ttl": Kind.DURATION,
    "execution-timeout": Kind.DURATION,
    "priority": Kind.WHOLE,
    "low-priority": Kind.SWITCH,
    "result-retention": Kind.DURATION,
    "on-uncertain": Kind.TEXT,
    "uncertain-after": Kind.DURATION,
    "on-expired": Kind.TEXT,
    "retry-failed": Kind.SWITCH,
    "on-stuck": Kind.TEXT,
    "events-kept": Kind.DURATION,
    "stop-after-failures": Kind.WHOLE,
    "limit": Kind.LIST,
    "pacing": Kind.TEXT,
    "requests-per-worker": Kind.WHOLE,
    "queue-depth": Kind.TEXT,
    "json": Kind.SWITCH,
    "quiet": Kind.SWITCH,
    "output-required": Kind.SWITCH,
    "body-bytes-max": Kind.WHOLE,
}
"""Every key of the file, outside of its tables."""

EMULATE_KEYS: Final[Mapping[str, Kind]] = {
    "handler": Kind.TEXT,
    "endpoint": Kind.LIST,
    "handler-processes": Kind.WHOLE,
    "worker": Kind.TEXT,
    "key": Kind.LIST,
    "host": Kind.TEXT,
    "port": Kind.WHOLE,
    "workers": Kind.WHOLE,
    "workers-min": Kind.WHOLE,
    "workers-max": Kind.WHOLE,
    "idle-timeout": Kind.NUMBER,
    "scaler": Kind.TEXT,
    "scaler-value": Kind.NUMBER,
    "cold-start": Kind.NUMBER,
    "requests-per-worker": Kind.WHOLE,
    "queue-per-worker": Kind.WHOLE,
    "algorithm": Kind.TEXT,
    "retry-after": Kind.SWITCH,
    "retention": Kind.NUMBER,
    "propagation": Kind.NUMBER,
    "faults": Kind.TEXT,
    "fault": Kind.LIST,
    "seed": Kind.WHOLE,
    "error-bodies": Kind.TEXT,
    "webhooks-as-observed": Kind.SWITCH,
    "time-scale": Kind.NUMBER,
    "json": Kind.SWITCH,
}
"""Every key of the file's table `emulate`."""

FILE_ONLY: Final = frozenset({"output-required", "body-bytes-max"})
"""Keys without a flag and a variable: what is set once for good."""


class Section(NamedTuple):
    """Settings of some commands: their keys, what their variables begin with, and their table of the file, if any."""

    keys: Mapping[str, Kind]
    prefix: str
    table: str | None = None


RUNS: Final = Section(KEYS, ENVIRONMENT_PREFIX)
EMULATOR: Final = Section(EMULATE_KEYS, f"{ENVIRONMENT_PREFIX}EMULATE_", "emulate")

_SWITCHES: Final = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}


class Given(NamedTuple):
    """A value as it was written, and where: `--ttl`, `ORCHESTRATOR_TTL` or `ttl in orchestrator.toml`."""

    texts: tuple[str, ...]
    origin: str
    is_in_file: bool = False


class Choices:
    """What the user chose, whichever way; None for what was left to the program."""

    def __init__(self, given: Mapping[str, Given], *, config: str | None = None) -> None:
        self._given = given
        self._config = config

    def parsed(self, key: str, parse: Callable[[str], T]) -> T | None:
        """The value of `key` as `parse` reads it. What `parse` raises becomes a `UsageError` that names the place."""
        given = self._given.get(key)
        return None if given is None else self._read(given, given.texts[-1], parse)

    def each(self, key: str, parse: Callable[[str], T]) -> tuple[T, ...]:
        """All values of a `key` that may be given more than once."""
        given = self._given.get(key)
        return () if given is None else tuple(self._read(given, text, parse) for text in given.texts)

    def switch(self, key: str) -> bool:
        """Whether `key` is on; off where nothing was said."""
        return bool(self.parsed(key, _parse_switch))

    def origin(self, key: str) -> str:
        """Where `key` was set, or the flag that would set it."""
        given = self._given.get(key)
        return f"--{key}" if given is None else given.origin

    def flags(self, keys: Iterable[str]) -> tuple[str, ...]:
        """The flags that choose the same of `keys` once more, in this folder.

        What stands in the file stands there still. A variable may have been set for one command only.
        """
        words = [] if self._config is None else _flag("config", self._config)
        for key in keys:
            given = self._given.get(key)
            if given is not None and not given.is_in_file:
                words += [word for text in given.texts for word in _flag(key, text)]
        return tuple(words)

    def _read(self, given: Given, text: str, parse: Callable[[str], T]) -> T:
        try:
            return parse(text)
        except (ValueError, UsageError) as error:
            raise UsageError(f"{given.origin}: {error}") from None


def _flag(key: str, text: str) -> list[str]:
    return [f"--{key}={text}"] if text.startswith("-") else [f"--{key}", text]


def _parse_switch(text: str) -> bool:
    value = _SWITCHES.get(text.strip().lower())
    if value is None:
        raise ValueError(f'"{text:.40}" is neither true nor false')
    return value


def choose(flags: Mapping[str, object], environment: Mapping[str, str], section: Section = RUNS) -> Choices:
    """What the flags (by parameter name; None where not given), the environment and the file say together.

    `flags["config"]` names the file. Raises `UsageError` for a file that cannot be read or has a wrong key.
    """
    named = flags.get("config") or environment.get(f"{ENVIRONMENT_PREFIX}CONFIG") or None
    layers = (_of_file(_file(named), section), _of_environment(environment, section), _of_flags(flags, section))
    given = {key: given for layer in layers for key, given in layer.items()}
    return Choices(given, config=None if named is None else str(named))


def _file(named: object) -> Path | None:
    if named is not None:
        return Path(str(named))
    return FILE_DEFAULT if FILE_DEFAULT.is_file() else None


def _of_flags(flags: Mapping[str, object], section: Section) -> dict[str, Given]:
    given = {}
    for name, value in flags.items():
        key = name.replace("_", "-")
        if key in section.keys and value is not None and value != []:
            values = value if isinstance(value, list) else [value]
            given[key] = Given(tuple(map(_text, values)), f"--{key}")
    return given


def _of_environment(environment: Mapping[str, str], section: Section) -> dict[str, Given]:
    """The variables that are set to something: an empty one counts as not set, as usual."""
    given = {}
    for key in section.keys.keys() - FILE_ONLY:
        variable = section.prefix + key.upper().replace("-", "_")
        text = environment.get(variable, "").strip()
        if text:
            texts = text.replace(",", " ").split() if section.keys[key] is Kind.LIST else [text]
            given[key] = Given(tuple(texts), variable)
    return given


def _of_file(path: Path | None, section: Section) -> dict[str, Given]:
    given: dict[str, Given] = {}
    where = f"{path}" if section.table is None else f"[{section.table}] of {path}"
    for name, value in _members(path, section.table).items() if path else ():
        key = name.replace("_", "-")
        if key not in section.keys:
            raise UsageError(f"{where}: {_unknown(key, name, section)}")
        if key in given:
            raise UsageError(f"{where}: {key} stands there twice, with a dash and with an underscore")
        kind = section.keys[key]
        if not _fits(value, kind):
            raise UsageError(f"{where}: {name} must be {kind.value.format(key=name)}")
        values: Iterable[object] = value if isinstance(value, list) else [value]
        given[key] = Given(tuple(map(_text, values)), f"{name} in {where}", is_in_file=True)
    return {key: setting for key, setting in given.items() if setting.texts}


def _members(path: Path, table: str | None) -> Mapping[str, object]:
    """What stands in the file's `table`, or outside of all that we know."""
    try:
        with path.open("rb") as file:
            members: dict[str, object] = tomllib.load(file)
    except OSError as error:
        raise UsageError(f"{path}: the configuration file cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise UsageError(f"{path}: this is not TOML: {error}") from error
    found = members.pop(EMULATOR.table or "", {})
    if not isinstance(found, dict):
        raise UsageError(f"{path}: emulate must be a table, as in [emulate] and, below it, port = 8900")
    return members if table is None else found


def _unknown(key: str, name: str, section: Section) -> str:
    if "api-key" in key or key in ("key", "apikey", "token"):
        return f"{name} cannot be set here; {KEY_ADVICE}"
    near = difflib.get_close_matches(key, section.keys, n=1)
    advice = f"did you mean {near[0]}?" if near else "docs/reference.md lists the keys"
    return f'there is no key "{name:.40}"; {advice}'


def _fits(value: object, kind: Kind) -> bool:
    match kind:
        case Kind.TEXT:
            return isinstance(value, str)
        case Kind.WHOLE:
            return isinstance(value, int) and not isinstance(value, bool)
        case Kind.NUMBER:
            return isinstance(value, int | float) and not isinstance(value, bool)
        case Kind.DURATION:
            return isinstance(value, str | int | float) and not isinstance(value, bool)
        case Kind.SWITCH:
            return isinstance(value, bool)
        case Kind.LIST:
            return isinstance(value, str) or (isinstance(value, list) and all(isinstance(each, str) for each in value))


def _text(value: object) -> str:
    """A value as it would be typed on the command line."""
    match value:
        case bool():
            return str(value).lower()
        case float():
            return format(value, "f")  # never 1e-05, which no duration is
        case _:
            return str(value)
