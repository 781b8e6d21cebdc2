"""The configuration file: what stands there of all runs, of endpoints, accounts, the emulator, the dashboard."""

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from orchestrator.core.service.endpoint_headers import EndpointHeaders
from orchestrator.errors import UsageError
from orchestrator.settings import command_flags, connection_settings, run_request, run_settings
from orchestrator.settings.command_requests import FIGURES_OF_PLAN
from orchestrator.settings.connection_settings import PROFILE, PROFILE_KEY
from orchestrator.settings.parsers.endpoint_tables import EndpointTables, endpoint_tables, headers_by_url
from orchestrator.settings.parsers.job_policy import POLICY
from orchestrator.settings.setting import Setting, settings_in
from orchestrator.settings.tables.pod_templates import OF_POD_TEMPLATES
from orchestrator.settings.tables.table_names import (
    BATCH_API_TABLE,
    ENDPOINTS_TABLE,
    MODELS_TABLE,
    NOTIFY_TABLE,
    POD_TEMPLATES_TABLE,
    POOLS_TABLE,
    PROFILES_TABLE,
    TABLES,
)
from orchestrator.settings.tables.toml_values import fits, toml_texts
from orchestrator.settings.value_types import texts as any_texts
from orchestrator.settings.words_and_defaults import CONFIGURATION_DEFAULT

ENVIRONMENT_PREFIX: Final = "ORCHESTRATOR_"

KEY_ADVICE: Final = "keep the key out of files and set ORCHESTRATOR_API_KEY in the environment"


_PROFILE_AS_KEY: Final = re.compile(rb"(?m)^\s*profile\s*=")
"""What many would try first. TOML itself refuses it beside the tables."""


class Section(NamedTuple):
    """Settings of some commands by key, what their variables begin with, and their table of the file, if any."""

    settings: Mapping[str, Setting[Any]]
    prefix: str = ENVIRONMENT_PREFIX
    table: str | None = None

    def variable(self, setting: Setting[Any]) -> str:
        """The variable that sets it."""
        return self.prefix + setting.key.upper().replace("-", "_")


def by_key(settings: Iterable[Setting[Any]]) -> Mapping[str, Setting[Any]]:
    """The settings of a section: all but what only a flag can say."""
    flags_only = (command_flags.CONFIG, command_flags.DASHBOARD, command_flags.BATCH_API)
    return {setting.key: setting for setting in settings if setting not in flags_only}


RUNS: Final = Section(
    by_key((*command_flags.RUN, *FIGURES_OF_PLAN, *connection_settings.ACCOUNT, *command_flags.FILE_ONLY))
)
OF_PROFILES: Final = Section(
    by_key(
        (
            PROFILE_KEY,
            connection_settings.SERVERLESS_URL,
            connection_settings.REST_URL,
            *connection_settings.ACCOUNT,
        ),
    ),
    table=PROFILES_TABLE,
)
"""What can be said of one. Who names it means all of that: it wins over variables, which may be another account's even
where it says nothing, and over what the file says else.
"""

OF_ENDPOINTS: Final = Section(by_key(run_settings.OF_ENDPOINTS), table=ENDPOINTS_TABLE)
"""What can be said of one. It wins over what the file says of all."""


_MEMBERS: Final = Setting("endpoints", any_texts("ID|NAME"), "The endpoints of the pool, the run's own first.")

OF_POOLS: Final = Section(by_key((_MEMBERS, run_settings.PREFER, run_settings.SPILL_AFTER)), table=POOLS_TABLE)
"""What can be said of one. It wins over what the file says of all runs."""


OF_MODELS: Final = Section(
    by_key((run_request.ENDPOINT, *POLICY, *settings_in(run_settings.RunSettings))), table=MODELS_TABLE
)
"""What can be said of one: where it is, and whatever can be set of its runs."""

POD_TEMPLATES: Final = Section(by_key(OF_POD_TEMPLATES), table=POD_TEMPLATES_TABLE)
"""What can be said of one kind of pod."""


class UnknownProfileError(UsageError):
    """An account was chosen of which the file says nothing."""


class Given(NamedTuple):
    """A value as it was written, and where: `--ttl`, `ORCHESTRATOR_TTL` or `ttl in orchestrator.toml`."""

    texts: tuple[str, ...]
    origin: str


Layer = Mapping[str, Given]


class ConfigurationFile:
    """A file, or none, which says nothing. Raises `UsageError` where it cannot be read."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._members = {} if path is None else _read(path)
        self._tables = {name: self._table(name, how) for name, how in TABLES.items()}
        self._tables[ENDPOINTS_TABLE], self._headers = self._split_endpoints()
        self.targets = self._split_targets()
        """The tables of those who can be told, as they are written; `settings.monitoring` reads them."""

    def _table(self, name: str, how: str) -> Mapping[str, Any]:
        members = self._members.pop(name, {})
        if not isinstance(members, dict):
            raise UsageError(f"{self._path}: {how}")
        return members

    def _split_endpoints(self) -> EndpointTables:
        try:
            return endpoint_tables(self._tables[ENDPOINTS_TABLE])
        except ValueError as error:
            raise UsageError(f"[{ENDPOINTS_TABLE}] of {self._path}: {error}") from None

    def headers(self, environ: Mapping[str, str]) -> Mapping[str, EndpointHeaders]:
        """What requests to endpoints that are URLs carry besides, by URL. Raises `UsageError`."""
        try:
            return headers_by_url(self._headers, environ)
        except ValueError as error:
            raise UsageError(f"[{ENDPOINTS_TABLE}] of {self._path}: {error}") from None

    def _split_targets(self) -> Mapping[str, object]:
        given = self._members.get(NOTIFY_TABLE)
        if not isinstance(given, dict):
            return {}
        found = dict(self._members.pop(NOTIFY_TABLE))
        if "to" in found and not isinstance(found["to"], dict):
            self._members[NOTIFY_TABLE] = found.pop("to")
        return found

    @property
    def path(self) -> Path | None:
        """Where it is; None: there is none."""
        return self._path

    @classmethod
    def at(cls, named: str | None) -> Self:
        """The file that was `named`, or the one that is here, if any."""
        here = CONFIGURATION_DEFAULT if CONFIGURATION_DEFAULT.is_file() else None
        return cls(here if named is None else Path(named))

    @property
    def endpoints(self) -> Sequence[str]:
        """The endpoints, by id or name, that it has tables for."""
        return tuple(self._tables[ENDPOINTS_TABLE])

    @property
    def profiles(self) -> Sequence[str]:
        """The accounts that it has tables for."""
        return tuple(self._tables[PROFILES_TABLE])

    @property
    def key_variables(self) -> frozenset[str]:
        """Which hold the keys of these accounts and those of the Batch API, and what is secret of headers."""
        accounts = self._tables[PROFILES_TABLE].values()
        keys = {str(each.get(PROFILE_KEY.key, "")) for each in accounts}
        keys.update(map(str, self._keys_of_batch_api.values()))
        own = frozenset(each.removeprefix("env:") for each in keys)
        return own.union(*(each.variables for each in self.headers({}).values()))

    @property
    def _keys_of_batch_api(self) -> Mapping[str, object]:
        keys = self._tables[BATCH_API_TABLE].get("keys")
        return keys if isinstance(keys, dict) else {}

    def of_section(self, section: Section) -> Layer:
        """What it says of all that a section is about."""
        if section.table is None:
            return layer_in(self._members, section, f"{self._path}")
        return layer_in(self._tables[section.table], section, f"[{section.table}] of {self._path}")

    def of_endpoint(self, chosen: Sequence[str]) -> Layer:
        """What it says of the endpoint that was `chosen`, by its name or by its id, which wins. What it says of the
        others is checked, too.
        """
        found = self._layers(OF_ENDPOINTS, ENDPOINTS_TABLE)
        return {key: text for each in chosen for key, text in found.get(each, {}).items()}

    def of_pool(self, name: str, origin: str) -> Layer:
        """What it says of the pool of that name, which `origin` has chosen: under `endpoint` the members, and the
        settings that go with them. What it says of the others is checked, too.
        """
        layer = dict(self._of_named(OF_POOLS, POOLS_TABLE, name, origin))
        if (members := layer.pop(_MEMBERS.key, None)) is None:
            where = self._where(POOLS_TABLE, name)
            raise UsageError(f'{where}: its endpoints are missing; write endpoints = ["abc123", "def456"]')
        return {run_request.ENDPOINT.key: members, **layer}

    def of_models(self) -> Mapping[str, tuple[Layer, str]]:
        """What it says of each model that the Batch API serves, and where."""
        found = self._layers(OF_MODELS, MODELS_TABLE)
        return {name: (layer, self._where(MODELS_TABLE, name)) for name, layer in found.items()}

    def of_pod_template(self, name: str, origin: str) -> tuple[Layer, str]:
        """What it says of that kind of pod, which `origin` has chosen, and where. The others are checked, too."""
        where = self._where(POD_TEMPLATES_TABLE, name)
        return self._of_named(POD_TEMPLATES, POD_TEMPLATES_TABLE, name, origin), where

    def _of_named(self, section: Section, table: str, name: str, origin: str) -> Layer:
        found = self._layers(section, table)
        if name not in found:
            near = difflib.get_close_matches(name, found, n=1)
            there = f"did you mean {near[0]}?" if near else f"there is {', '.join(found) or 'none'}"
            raise UsageError(f"{origin}: {self._path or CONFIGURATION_DEFAULT} has no [{table}.{name}]; {there}")
        return found[name]

    def of_profile(self, chosen: Given | None, flags: Layer) -> Layer:
        """What it says of the account that was chosen. What it says of the others is checked, too, and that no flag
        leads its key to one of them.
        """
        found = self._layers(OF_PROFILES, PROFILES_TABLE)
        for profile, layer in found.items():
            if PROFILE_KEY.key not in layer:
                where = self._where(PROFILES_TABLE, profile)
                raise UsageError(f'{where}: its key is missing; write key = "env:NAME", where NAME is a variable')
        if chosen is None:
            return {}
        name = chosen.texts[-1]
        if name not in found:
            raise self._unknown_profile(chosen, name)
        _check_leads_nowhere_else(name, found, flags)
        return found[name]

    def _unknown_profile(self, chosen: Given, name: str) -> UnknownProfileError:
        if self._path is None:
            why = f"there is no {CONFIGURATION_DEFAULT} here that has profiles"
            return UnknownProfileError(f"{chosen.origin} {name:.80}: {why}")
        near = difflib.get_close_matches(name, self.profiles, n=1)
        there = f"did you mean {near[0]}?" if near else f"there is {', '.join(self.profiles) or 'none'}"
        return UnknownProfileError(f"{chosen.origin}: {self._path} has no [{PROFILES_TABLE}.{name:.80}]; {there}")

    def _layers(self, section: Section, table: str) -> Mapping[str, Layer]:
        """What each of the tables within a table says."""
        found = {}
        for name, members in self._tables[table].items():
            if not isinstance(members, dict):
                raise UsageError(f"{self._path}: {TABLES[table]}")
            found[name] = layer_in(members, section, self._where(table, name))
        return found

    def _where(self, table: str, name: str) -> str:
        return f"[{table}.{name}] of {self._path}"


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise UsageError(f"{path}: the configuration file cannot be read ({error.strerror})") from None
    except ValueError as error:
        advice = f"; {TABLES[PROFILES_TABLE]}" if _PROFILE_AS_KEY.search(path.read_bytes()) else ""
        raise UsageError(f"{path}: this is not TOML: {error}{advice}") from None


def _check_leads_nowhere_else(name: str, found: Mapping[str, Layer], flags: Layer) -> None:
    """Raises `UsageError` where a flag leads the key of the account `name` to where another one is."""
    for key in OF_PROFILES.settings.keys() & flags.keys():
        given = flags[key]
        its = {profile: layer[key].texts for profile, layer in found.items() if key in layer and key.endswith("url")}
        others = [profile for profile, texts in its.items() if texts == given.texts]
        if others and name not in others:
            raise UsageError(
                f"{given.origin} {given.texts[-1]} is where the profile {others[0]} is, and the key is that of {name};"
                f" give {PROFILE} {others[0]}, or leave {given.origin} out"
            )


def layer_in(members: Mapping[str, object], section: Section, where: str) -> Layer:
    """What a table says, whose place `where` names. Raises `UsageError`."""
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
        given[key] = Given(toml_texts(value), f"{name} in {where}")
    return {key: setting for key, setting in given.items() if setting.texts}


def _unknown(key: str, name: str, section: Section) -> str:
    if "api-key" in key or key in ("key", "apikey", "token"):
        return f"{name} cannot be set here; {KEY_ADVICE}"
    near = difflib.get_close_matches(key, section.settings, n=1)
    advice = f"did you mean {near[0]}?" if near else "docs/reference/configuration.md lists the keys"
    return f'there is no key "{name:.40}"; {advice}'
