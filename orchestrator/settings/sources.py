"""What was set, and where: flags over the environment over the configuration file over defaults.

The keys of all three are the names of the flags: `--max-attempts 5`, `ORCHESTRATOR_MAX_ATTEMPTS=5`, and in the file
`max-attempts = 5` (or `max_attempts`). Those of the emulator, some of which have the same names, stand in a table of
the file, and their variables begin with `ORCHESTRATOR_EMULATE_`. Whatever is wrong with a value is said with the name
that the user wrote. Values stay text until a command asks for them: what it does not take is none of its business.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from orchestrator.core.pods.pod_template import PodTemplate
from orchestrator.core.pools.member import MemberSettings
from orchestrator.core.service.url_endpoints import PODS, is_pods, looks_like_url, url_endpoint
from orchestrator.core.text.durations import Policy
from orchestrator.errors import UsageError
from orchestrator.settings import command_flags, run_request, run_settings
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.settings.configuration_file import (
    OF_PROFILES,
    RUNS,
    ConfigurationFile,
    Given,
    Layer,
    Section,
    UnknownProfileError,
)
from orchestrator.settings.connection_settings import PROFILE
from orchestrator.settings.parsers.name_parsers import home_order, members_in, parse_endpoint
from orchestrator.settings.run_request import Configuration
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.setting import DisplayName, Setting
from orchestrator.settings.tables.pod_templates import pod_template
from orchestrator.settings.tables.toml_values import toml_texts
from orchestrator.settings.value_types import Kind, ValueType
from orchestrator.settings.words_and_defaults import LEDGER_DEFAULT, POOL

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)

ENDPOINT_NAME: Final = "endpoint_name"
"""Beside the flags, what the chosen endpoint is called: a table may stand for that."""

KEPT_TEMPLATE: Final = "{"
"""What the text of a pod template begins with that a pipeline keeps as a whole, and not by its name."""

ENDPOINT_IDS: Final = "endpoint_ids"
"""Beside the flags, the ids of those members of a pool that were named, by their names."""

KEPT_MEMBERS: Final = "members"
"""Beside the settings of a stage, the members of its pool with what the configuration file said of each, as JSON: a
pipeline keeps that.
"""

_OF_ACCOUNTS: Final = OF_PROFILES.settings.keys() | {PROFILE.key}
"""What depends on which account is meant."""


class ChosenPool(NamedTuple):
    """A pool as it was written, which nobody has looked at unless it is asked for."""

    endpoints: tuple[str, ...]
    """By id, or by name where nobody has looked that up; one at least."""

    layer: Layer
    """What its table says besides."""

    members: tuple[MemberSettings, ...]
    """The same endpoints with what the file says of each, the run's own first; none where it is only one."""


class Choices:
    """What the user chose, whichever way; None for what was left to the program."""

    def __init__(
        self,
        section: Section,
        layers: Iterable[Layer],
        configuration: Configuration,
        file: ConfigurationFile,
        no_profile: UsageError | None = None,
        pool: ChosenPool | UsageError | None = None,
    ) -> None:
        self._section = section
        self._given: Layer = {key: given for layer in layers for key, given in layer.items()}
        self.configuration = configuration
        """What the next command has without a flag."""

        self.file = file
        """The file that was looked into."""

        self.no_profile = no_profile
        """What is wrong with the account that a variable chose. Who does not ask for one is not refused for it."""

        self._pool = pool

    def __getitem__(self, setting: Setting[T]) -> T | None:
        """Its value. What is wrong with it becomes a `UsageError` that names the place."""
        if self.no_profile is not None and setting.key in _OF_ACCOUNTS:
            raise self.no_profile
        given = self._given.get(setting.key)
        if given is None:
            return None
        pool = self.pool if setting.key == run_request.ENDPOINT.key else None
        return _read(setting, given if pool is None else Given(pool.endpoints[:1], given.origin))

    @property
    def ledger(self) -> LedgerAddress:
        """Where the ledger is. Raises `UsageError`."""
        given: LedgerAddress | None = self[run_request.LEDGER]
        return LEDGER_DEFAULT if given is None else given

    @property
    def pool(self) -> ChosenPool | None:
        """The endpoints that were chosen, the run's own first; None where none was. Raises `UsageError`."""
        if isinstance(self._pool, UsageError):
            raise self._pool
        return self._pool

    @property
    def members(self) -> tuple[MemberSettings, ...]:
        """The members of the pool that was chosen; none where only one endpoint was. Raises `UsageError`."""
        return () if self.pool is None else self.pool.members

    @property
    def pod_template(self) -> PodTemplate | None:
        """What the pods are made of that were chosen in the place of an endpoint; None where none were. Raises
        `UsageError`.
        """
        given = self._given.get(run_request.ENDPOINT.key)
        if given is None or not is_pods(given.texts[-1]):
            return None
        kept = self._given.get(run_request.POD_TEMPLATE.key)
        if kept is not None and kept.texts[-1].startswith(KEPT_TEMPLATE):
            return msgspec.json.decode(kept.texts[-1], type=PodTemplate)
        name = _checked(given.texts[-1], given.origin).removeprefix(PODS)
        layer, where = self.file.of_pod_template(name, given.origin)
        return pod_template(name, where, lambda each: _read(each, layer[each.key]) if each.key in layer else None)

    def text(self, setting: Setting[Any]) -> str | None:
        """What was written, whether or not it can be a value; of several texts the last."""
        given = self._given.get(setting.key)
        return None if given is None else given.texts[-1]

    def is_on(self, switch: Setting[bool]) -> bool:
        """Whether a switch is on; off where nothing was said."""
        return self[switch] is True

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
        return RunSettings(
            policy=self.build(Policy),
            members=self.members,
            pod_template=self.pod_template,
            **self.fields(RunSettings),
        )

    def origin(self, setting: Setting[Any]) -> str:
        """Where it was set, or the flag that would set it."""
        given = self._given.get(setting.key)
        return str(setting) if given is None else given.origin


def choices_by_flags(given: Mapping[str, object], display_name: DisplayName = str) -> Choices:
    """What was given (as `choose` takes it) of the settings of runs, and nothing else."""
    flags = _with_pods(_of_flags(given, RUNS, display_name))
    file = ConfigurationFile(None)
    return Choices(RUNS, [flags], Configuration(in_flags=frozenset(flags)), file, pool=_pool_of(file, flags, given))


def choose(
    given: Mapping[str, object],
    environment: Mapping[str, str],
    section: Section = RUNS,
    display_name: DisplayName = str,
) -> Choices:
    """What the flags (by parameter name; None where not given), the environment and the file say together.

    `display_name` is how a message names a flag: a program's parameters have other names. Raises `UsageError` for a
    file that cannot be read or has a wrong key.
    """
    named = given.get(command_flags.CONFIG.name) or environment.get(RUNS.variable(command_flags.CONFIG)) or None
    named = None if named is None else str(named)
    file = ConfigurationFile.at(named)
    in_file, set_here = file.of_section(section), _of_environment(environment, section)
    flags = _of_flags(given, section, display_name)
    if section is RUNS:
        in_file, set_here, flags = map(_with_pods, (in_file, set_here, flags))
    profile: Layer = {}
    no_profile: UsageError | None = None
    pool: ChosenPool | UsageError | None = None
    if section is RUNS:
        chosen = {**in_file, **set_here, **flags}
        pool = _pool_of(file, chosen, given)
        found = pool if isinstance(pool, ChosenPool) else ChosenPool((), {}, ())
        in_file = {**in_file, **found.layer}
        if not found.members:
            in_file = {**in_file, **file.of_endpoint([str(given.get(ENDPOINT_NAME)), *found.endpoints])}
        if (its_name := chosen.get(PROFILE.key)) is not None:
            set_here = {key: text for key, text in set_here.items() if key not in OF_PROFILES.settings}
        try:
            profile = file.of_profile(its_name, flags)
        except UnknownProfileError as error:
            if PROFILE.key in flags:
                raise
            no_profile = error  # a variable that was left from elsewhere is no reason to show nothing
    configuration = Configuration(
        named=named,
        in_file={key: given.texts for key, given in in_file.items()},
        in_environment=frozenset(set_here),
        in_flags=frozenset(flags),
    )
    layers = (in_file, set_here, profile, flags)
    return Choices(section, layers, configuration, file, no_profile, pool)


def _with_pods(layer: Layer) -> Layer:
    """`layer`, in which a pod template is an endpoint. Raises `UsageError` where it names an endpoint besides."""
    chosen = layer.get(run_request.POD_TEMPLATE.key)
    if chosen is None or chosen.texts[-1].startswith(KEPT_TEMPLATE):
        return layer
    if (beside := layer.get(run_request.ENDPOINT.key)) is not None:
        raise UsageError(f"{chosen.origin} takes the place of {beside.origin}; leave one out")
    return {**layer, run_request.ENDPOINT.key: Given((f"{PODS}{chosen.texts[-1]}",), chosen.origin)}


def _pool_of(file: ConfigurationFile, chosen: Layer, given: Mapping[str, object]) -> ChosenPool | UsageError | None:
    """The endpoints that were chosen, or what is wrong with them: who does not ask for any is not refused for that."""
    endpoint = chosen.get(run_request.ENDPOINT.key)
    ids = given.get(ENDPOINT_IDS)
    if isinstance(kept := given.get(KEPT_MEMBERS), list):
        members = msgspec.json.decode(kept[-1], type=tuple[MemberSettings, ...])
        return ChosenPool(tuple(each.endpoint for each in members), {}, members)
    try:
        return None if endpoint is None else chosen_pool(file, endpoint, ids if isinstance(ids, Mapping) else {})
    except UsageError as error:
        return error


def is_of_file(texts: Sequence[str]) -> bool:
    """Whether that names a table of the configuration file, or endpoints which may have tables of their own there."""
    return texts[-1].startswith(PODS) or is_pool(texts)


def is_pool(texts: Sequence[str]) -> bool:
    """Whether that is written as a pool is, and not as a single endpoint."""
    return len(texts) > 1 or texts[-1].startswith(POOL) or len(members_in(texts[-1])) > 1


def chosen_pool(file: ConfigurationFile, given: Given, ids: Mapping[str, str]) -> ChosenPool:
    """What `given`, the endpoint that was chosen, stands for. Raises `UsageError`."""
    layer: Layer = {}
    texts, origin = given.texts, given.origin
    if texts[-1].startswith(POOL):
        name = _checked(texts[-1], origin).removeprefix(POOL)
        layer = file.of_pool(name, origin)
        texts, origin = layer[run_request.ENDPOINT.key].texts, layer[run_request.ENDPOINT.key].origin
        layer = {key: each for key, each in layer.items() if key != run_request.ENDPOINT.key}
        if any(text.startswith(POOL) for text in texts):
            raise UsageError(f"{origin}: a pool is made of endpoints, not of pools")
    if len(texts) == 1 and "," not in texts[0]:  # it may be a name, with blanks in it, until that is looked up
        only = _checked(texts[0], origin) if looks_like_url(texts[0]) else texts[0]
        return ChosenPool((ids.get(only, only),), layer, ())
    _checked(",".join(texts) if len(texts) > 1 else texts[-1], origin)
    named = texts if len(texts) > 1 else members_in(texts[-1])
    named = tuple(url_endpoint(each) if looks_like_url(each) else each for each in named)
    named = tuple(sorted(named, key=home_order))
    endpoints = tuple(ids.get(each, each) for each in named)
    if len(endpoints) == 1:
        return ChosenPool(endpoints, layer, ())
    if any(map(is_pods, endpoints)):
        raise UsageError(f"{origin}: pods of a template are a pool by themselves; name them alone")
    if len({*endpoints}) < len(endpoints):
        raise UsageError(f"{origin}: two of these are one endpoint: {', '.join(endpoints)}")
    names = {its_id: name for name, its_id in ids.items()}
    members = tuple(_member(file, each, names.get(each, each)) for each in endpoints)
    return ChosenPool(endpoints, layer, members)


def _checked(text: str, origin: str) -> str:
    try:
        return parse_endpoint(text)
    except ValueError as error:
        raise UsageError(f"{origin}: {error}") from None


def _member(file: ConfigurationFile, endpoint: str, name: str) -> MemberSettings:
    """What the file says of `endpoint`, which is called `name`."""
    said = file.of_endpoint([name, endpoint])
    own = {each.name: _read(each, said[each.key]) for each in run_settings.OF_ENDPOINTS if each.key in said}
    return MemberSettings(endpoint, **own)


def _read(setting: Setting[T], given: Given) -> T:
    """The value that was given. Raises `UsageError` that names the place."""
    try:
        return setting.value_type.read(given.texts)
    except (ValueError, UsageError) as error:
        raise UsageError(f"{given.origin}: {error}") from None


def _of_flags(values: Mapping[str, object], section: Section, display_name: DisplayName) -> Layer:
    given = {}
    for name, value in values.items():
        setting = section.settings.get(name.replace("_", "-"))
        if setting is not None and value is not None and value != []:
            given[setting.key] = Given(toml_texts(value), display_name(setting))
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
