"""What was set, and where: flags over the environment over the file.

The keys of all three are the names of the flags: `--max-attempts 5`, `ORCHESTRATOR_MAX_ATTEMPTS=5`, and in the file
`max-attempts = 5` (or `max_attempts`). Those of the emulator, some of which have the same names, stand in a table of
the file, and their variables begin with `ORCHESTRATOR_EMULATE_`. Whatever is wrong with a value is said with the name
that the user wrote. Values stay text until a command asks for them: what it does not take is none of its business.
"""

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, NamedTuple, Self, TypeVar

import msgspec

from orchestrator.core.text.durations import Policy
from orchestrator.errors import UsageError
from orchestrator.settings import command_settings, connection_settings, request_settings, run_settings
from orchestrator.settings import profiles as declared_profiles
from orchestrator.settings.request_settings import Configuration
from orchestrator.settings.requests import FIGURES_OF_PLAN
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.setting import DisplayName, Setting
from orchestrator.settings.value_types import Kind, ValueType
from orchestrator.settings.values import CONFIGURATION_DEFAULT

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)

ENVIRONMENT_PREFIX: Final = "ORCHESTRATOR_"

KEY_ADVICE: Final = "keep the key out of files and set ORCHESTRATOR_API_KEY in the environment"


_TYPES: Final[Mapping[Kind, tuple[type, ...]]] = {
    Kind.TEXT: (str,),
    Kind.WHOLE: (int,),
    Kind.WHOLE_OR_TEXT: (int, str),
    Kind.NUMBER: (int, float),
    Kind.DURATION: (str, int, float),
    Kind.LIST: (str,),
}
"""What a value of the file is, but for switches and for lists of texts."""


class Section(NamedTuple):
    """Settings of some commands by key, what their variables begin with, and their table of the file, if any."""

    settings: Mapping[str, Setting[Any]]
    prefix: str
    table: str | None = None

    def variable(self, setting: Setting[Any]) -> str:
        """The variable that sets it."""
        return self.prefix + setting.key.upper().replace("-", "_")


def by_key(settings: Iterable[Setting[Any]]) -> Mapping[str, Setting[Any]]:
    """The settings of a section."""
    return {setting.key: setting for setting in settings if setting is not command_settings.CONFIG}


RUNS: Final = Section(
    by_key((*command_settings.RUN, *FIGURES_OF_PLAN, *connection_settings.ACCOUNT, *command_settings.FILE_ONLY)),
    ENVIRONMENT_PREFIX,
)
EMULATE_TABLE: Final = "emulate"
"""The emulator's part of the file."""

ENDPOINTS_TABLE: Final = "endpoints"
"""What the file says of single endpoints, each in a table of its own: `[endpoints.abc123]`."""

ENDPOINT_NAME: Final = "endpoint_name"
"""Beside the flags, what the chosen endpoint is called: a table may stand for that."""

_TABLE_FOR_EACH: Final = f"{ENDPOINTS_TABLE} has a table for each endpoint, as in [{ENDPOINTS_TABLE}.abc123]"

PROFILES_TABLE: Final = "profile"
"""What the file says of single accounts, each in a table of its own: `[profile.work]`."""

OF_PROFILES: Final = Section(
    by_key(
        (
            declared_profiles.KEY,
            connection_settings.SERVERLESS_URL,
            connection_settings.REST_URL,
            *connection_settings.ACCOUNT,
        ),
    ),
    ENVIRONMENT_PREFIX,
    PROFILES_TABLE,
)
"""What can be said of one. Who names it means all of that: it wins over variables, which may be another account's even
where it says nothing, and over what the file says else.
"""

_OF_ACCOUNTS: Final = OF_PROFILES.settings.keys() | {declared_profiles.PROFILE.key}
"""What depends on which account is meant."""

_TABLE_FOR_EACH_PROFILE: Final = (
    f'{PROFILES_TABLE} has a table for each account, as in [{PROFILES_TABLE}.work] and, below it, key = "env:WORK_KEY";'
    f" {declared_profiles.PROFILE} or {ENVIRONMENT_PREFIX}PROFILE chooses one"
)

_PROFILE_AS_KEY: Final = re.compile(rb"(?m)^\s*profile\s*=")
"""What many would try first. TOML itself refuses it beside the tables."""

OF_ENDPOINTS: Final = Section(by_key(run_settings.OF_ENDPOINTS), ENVIRONMENT_PREFIX, ENDPOINTS_TABLE)
"""What can be said of one. It wins over what the file says of all."""


class UnknownProfileError(UsageError):
    """An account was chosen of which the file says nothing."""


class Given(NamedTuple):
    """A value as it was written, and where: `--ttl`, `ORCHESTRATOR_TTL` or `ttl in orchestrator.toml`."""

    texts: tuple[str, ...]
    origin: str


Layer = Mapping[str, Given]


class Choices:
    """What the user chose, whichever way; None for what was left to the program."""

    def __init__(
        self,
        section: Section,
        *,
        file: Layer,
        environment: Layer,
        flags: Layer,
        named: str | None,
        profile: Layer | None = None,
        profiles: Sequence[str] = (),
        endpoints: Sequence[str] = (),
        no_profile: UsageError | None = None,
        key_variables: Iterable[str] = (),
    ) -> None:
        self._section = section
        self._given = {**file, **environment, **(profile or {}), **flags}
        self.configuration = Configuration(
            named=named,
            in_file={key: given.texts for key, given in file.items()},
            in_environment=frozenset(environment),
            in_flags=frozenset(flags),
        )
        """What the next command has without a flag."""

        self.profiles = profiles
        """The accounts that the file has tables for."""

        self.key_variables = frozenset(key_variables)
        """Which hold the keys of these accounts."""

        self.endpoints = endpoints
        """The endpoints, by id or name, that it has tables for."""

        self.no_profile = no_profile
        """What is wrong with the account that a variable chose. Who does not ask for one is not refused for it."""

    @classmethod
    def of(cls, given: Mapping[str, object], said: DisplayName = str) -> Self:
        """What was given (as `choose` takes it) of the settings of runs, and nothing else."""
        return cls(RUNS, file={}, environment={}, flags=_of_flags(given, RUNS, said), named=None)

    def __getitem__(self, setting: Setting[T]) -> T | None:
        """Its value. What is wrong with it becomes a `UsageError` that names the place."""
        if self.no_profile is not None and setting.key in _OF_ACCOUNTS:
            raise self.no_profile
        given = self._given.get(setting.key)
        if given is None:
            return None
        try:
            return setting.value_type.read(given.texts)
        except (ValueError, UsageError) as error:
            raise UsageError(f"{given.origin}: {error}") from None

    def text(self, setting: Setting[Any]) -> str | None:
        """What was written, whether or not it can be a value; of several texts the last."""
        given = self._given.get(setting.key)
        return None if given is None else given.texts[-1]

    def is_on(self, switch: Setting[bool]) -> bool:
        """Whether a switch is on; off where nothing was said."""
        value = self[switch]
        return value is True

    def is_from_flag(self, setting: Setting[Any]) -> bool:
        """Whether it was set by its flag."""
        return setting.key in self.configuration.in_flags

    def fields(self, of: type[msgspec.Struct], among: Iterable[Setting[Any]] | None = None) -> dict[str, Any]:
        """The fields of `of` that were chosen; `among` is what the command takes, None for everything."""
        settings = self._section.settings.values() if among is None else among
        values = {setting.name: self[setting] for setting in settings if setting.of is of}
        return {name: value for name, value in values.items() if value is not None}

    def build(self, struct: type[S], among: Iterable[Setting[Any]] | None = None) -> S:
        """A `struct` with the fields that were chosen; `among` is as with `fields`."""
        return struct(**self.fields(struct, among))

    def run_settings(self) -> RunSettings:
        """The settings of a new run."""
        return RunSettings(policy=self.build(Policy), **self.fields(RunSettings))

    def origin(self, setting: Setting[Any]) -> str:
        """Where it was set, or the flag that would set it."""
        given = self._given.get(setting.key)
        return str(setting) if given is None else given.origin


def choose(
    given: Mapping[str, object],
    environment: Mapping[str, str],
    section: Section = RUNS,
    said: DisplayName = str,
) -> Choices:
    """What the flags (by parameter name; None where not given), the environment and the file say together.

    `said` is how a message names a flag: a program's parameters have other names. Raises `UsageError` for a file that
    cannot be read or has a wrong key.
    """
    named = given.get(command_settings.CONFIG.name) or environment.get(RUNS.variable(command_settings.CONFIG)) or None
    path = _file(named)
    tables = _NO_TABLES if path is None else _tables(path)
    file, set_here = _of_file(path, tables[section.table], section), _of_environment(environment, section)
    flags = _of_flags(given, section, said)
    profile: Layer = {}
    no_profile: UsageError | None = None
    if section is RUNS:
        chosen = {**file, **set_here, **flags}
        endpoint = chosen.get(request_settings.ENDPOINT.key)
        it = [str(given.get(ENDPOINT_NAME)), *(() if endpoint is None else endpoint.texts[-1:])]
        file = {**file, **_of_endpoint(path, tables[ENDPOINTS_TABLE], it)}
        if (its_name := chosen.get(declared_profiles.PROFILE.key)) is not None:
            set_here = {key: text for key, text in set_here.items() if key not in OF_PROFILES.settings}
        try:
            profile = _of_profile(path, tables[PROFILES_TABLE], its_name, flags)
        except UnknownProfileError as error:
            if declared_profiles.PROFILE.key in flags:
                raise
            no_profile = error  # a variable that was left from elsewhere is no reason to show nothing
    return Choices(
        section,
        file=file,
        environment=set_here,
        flags=flags,
        named=None if named is None else str(named),
        profile=profile,
        profiles=tuple(tables[PROFILES_TABLE]),
        endpoints=tuple(tables[ENDPOINTS_TABLE]),
        no_profile=no_profile,
        key_variables=(_key_variable(members) for members in tables[PROFILES_TABLE].values()),
    )


def _file(named: object) -> Path | None:
    if named is not None:
        return Path(str(named))
    return CONFIGURATION_DEFAULT if CONFIGURATION_DEFAULT.is_file() else None


def _of_flags(values: Mapping[str, object], section: Section, said: DisplayName) -> Layer:
    given = {}
    for name, value in values.items():
        setting = section.settings.get(name.replace("_", "-"))
        if setting is not None and value is not None and value != []:
            given[setting.key] = Given(
                tuple(map(text_of, value if isinstance(value, list) else [value])), said(setting)
            )
    return given


def _of_environment(environment: Mapping[str, str], section: Section) -> Layer:
    """The variables that are set to something: an empty one counts as not set, as usual."""
    given = {}
    for key, setting in section.settings.items():
        variable = section.variable(setting)
        text = environment.get(variable, "").strip()
        if text and setting.has_flag:
            given[key] = Given(_texts(text, setting.value_type), variable)
    return given


def _texts(text: str, value_type: ValueType[Any]) -> tuple[str, ...]:
    """The values in a variable."""
    if value_type.kind is not Kind.LIST:
        return (text,)
    if value_type.by_lines:
        return tuple(filter(None, map(str.strip, text.splitlines())))
    return tuple(text.replace(",", " ").split())


def _of_file(path: Path | None, members: Mapping[str, object], section: Section) -> Layer:
    where = f"{path}" if section.table is None else f"[{section.table}] of {path}"
    return _layer(members, section, where)


def _of_endpoint(path: Path | None, tables: Mapping[str, object], chosen: Sequence[str]) -> Layer:
    """What the file says of the endpoint that was `chosen`, by its name or by its id, which wins. What it says of the
    others is checked, too.
    """
    found: dict[str, Layer] = {}
    for endpoint, members in tables.items():
        where = f"[{ENDPOINTS_TABLE}.{endpoint}] of {path}"
        if not isinstance(members, dict):
            raise UsageError(f"{path}: {_TABLE_FOR_EACH}")
        found[endpoint] = _layer(members, OF_ENDPOINTS, where)
    return {key: text for each in chosen for key, text in found.get(each, {}).items()}


def _of_profile(path: Path | None, tables: Mapping[str, object], chosen: Given | None, flags: Layer) -> Layer:
    """What the file says of the account that was chosen. What it says of the others is checked, too, and that no flag
    leads its key to one of them.
    """
    found: dict[str, Layer] = {}
    for profile, members in tables.items():
        if not isinstance(members, dict):
            raise UsageError(f"{path}: {_TABLE_FOR_EACH_PROFILE}")
        where = f"[{PROFILES_TABLE}.{profile}] of {path}"
        found[profile] = _layer(members, OF_PROFILES, where)
        if declared_profiles.KEY.key not in found[profile]:
            raise UsageError(f'{where}: its key is missing; write key = "env:NAME", where NAME is a variable')
    if chosen is None:
        return {}
    name = chosen.texts[-1]
    if name not in found:
        if path is None:
            why = f"there is no {CONFIGURATION_DEFAULT} here that has profiles"
            raise UnknownProfileError(f"{chosen.origin} {name:.80}: {why}")
        near = difflib.get_close_matches(name, found, n=1)
        there = f"did you mean {near[0]}?" if near else f"there is {', '.join(found) or 'none'}"
        raise UnknownProfileError(f"{chosen.origin}: {path} has no [{PROFILES_TABLE}.{name:.80}]; {there}")
    for key in OF_PROFILES.settings.keys() & flags.keys():
        given = flags[key]
        its = {profile: layer[key].texts for profile, layer in found.items() if key in layer and key.endswith("url")}
        others = [profile for profile, texts in its.items() if texts == given.texts]
        if others and name not in others:
            raise UsageError(
                f"{given.origin} {given.texts[-1]} is where the profile {others[0]} is, and the key is that of {name};"
                f" give {declared_profiles.PROFILE} {others[0]}, or leave {given.origin} out"
            )
    return found[name]


def _key_variable(members: object) -> str:
    return str(members.get(declared_profiles.KEY.key)).removeprefix("env:") if isinstance(members, dict) else ""


def _layer(members: Mapping[str, object], section: Section, where: str) -> Layer:
    given: dict[str, Given] = {}
    for name, value in members.items():
        key = name.replace("_", "-")
        if key not in section.settings:
            raise UsageError(f"{where}: {_unknown(key, name, section)}")
        if key in given:
            raise UsageError(f"{where}: {key} stands there twice, with a dash and with an underscore")
        kind = section.settings[key].value_type.kind
        if not fits(value, kind):
            raise UsageError(f"{where}: {name} must be {kind.value.format(key=name)}")
        values: Iterable[object] = value if isinstance(value, list) else [value]
        given[key] = Given(tuple(map(text_of, values)), f"{name} in {where}")
    return {key: setting for key, setting in given.items() if setting.texts}


_Tables = Mapping[str | None, Mapping[str, object]]

_NO_TABLES: Final[_Tables] = {None: {}, EMULATE_TABLE: {}, ENDPOINTS_TABLE: {}, PROFILES_TABLE: {}}


def _tables(path: Path) -> _Tables:
    """What stands in each table of the file that we know, and outside of all of these (None)."""
    try:
        with path.open("rb") as file:
            members: dict[str, object] = tomllib.load(file)
    except OSError as error:
        raise UsageError(f"{path}: the configuration file cannot be read ({error.strerror})") from None
    except ValueError as error:
        advice = f"; {_TABLE_FOR_EACH_PROFILE}" if _PROFILE_AS_KEY.search(path.read_bytes()) else ""
        raise UsageError(f"{path}: this is not TOML: {error}{advice}") from None
    emulate, endpoints = members.pop(EMULATE_TABLE, {}), members.pop(ENDPOINTS_TABLE, {})
    profiles = members.pop(PROFILES_TABLE, {})
    if not isinstance(emulate, dict):
        raise UsageError(f"{path}: emulate must be a table, as in [emulate] and, below it, port = 8900")
    if not isinstance(endpoints, dict):
        raise UsageError(f"{path}: {_TABLE_FOR_EACH}")
    if not isinstance(profiles, dict):
        raise UsageError(f"{path}: {_TABLE_FOR_EACH_PROFILE}")
    return {None: members, EMULATE_TABLE: emulate, ENDPOINTS_TABLE: endpoints, PROFILES_TABLE: profiles}


def _unknown(key: str, name: str, section: Section) -> str:
    if "api-key" in key or key in ("key", "apikey", "token"):
        return f"{name} cannot be set here; {KEY_ADVICE}"
    near = difflib.get_close_matches(key, section.settings, n=1)
    advice = f"did you mean {near[0]}?" if near else "docs/reference/configuration.md lists the keys"
    return f'there is no key "{name:.40}"; {advice}'


def fits(value: object, kind: Kind) -> bool:
    """Whether a value of a TOML file is written as `kind` asks for."""
    if isinstance(value, bool) or kind is Kind.SWITCH:
        return isinstance(value, bool) and kind is Kind.SWITCH
    if kind is Kind.LIST and isinstance(value, list):
        return all(isinstance(each, str) for each in value)
    return isinstance(value, _TYPES[kind])


def text_of(value: object) -> str:
    """A value of a TOML file as it would be typed on the command line."""
    match value:
        case bool():
            return str(value).lower()
        case float():
            return format(Decimal(repr(value)), "f").lower()  # never 1e-05, and with every digit of a price
        case _:
            return str(value)
