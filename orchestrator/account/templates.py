"""Templates: the container configuration that pods and serverless workers start from (contract, Template).

What the contract says about a template is checked before it is sent, all of it at once. `env` and `dockerArgs` are
always sent, though the contract makes them optional: the service has refused templates without them.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import anyio
import msgspec

from orchestrator.account.graphql import GraphQL, GraphQLError, Value, literal, read_nothing
from orchestrator.clock import Clock
from orchestrator.errors import UsageError
from orchestrator.units import SECOND_US

IN_USE_S_MAX: Final = 120.0
"""How long after its last use a template may still refuse to be deleted (contract, Deletion rule)."""

DELETE_PAUSE_S: Final = 10.0
"""Between two tries to delete."""

PORT_MAX: Final = 65_535

_PORT: Final = re.compile(r"([0-9]{1,5})/[a-z]+")
_TAGGED: Final = re.compile(r"\S*[^\s/:]:[\w][\w.-]*|\S+@\w+:[0-9a-f]+")
_FIELDS: Final = (
    "id name imageName containerDiskInGb volumeInGb dockerArgs ports env { key value } readme volumeMountPath"
    " isServerless"
)

_HOPELESS: Final = re.compile(
    r"not found|not exist|no such|unauthori[sz]ed|permission|forbidden|syntax|cannot query", re.IGNORECASE
)
"""Reasons that do not go away by waiting. The texts are not documented; any other may mean "still in use"."""


class EnvironmentVariable(msgspec.Struct, frozen=True, kw_only=True):
    """One variable of the container. The value may refer to a secret: `{{ RUNPOD_SECRET_name }}`."""

    key: str
    value: str


class Template(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A template, to be saved or as the service shows it. Sizes are in GB. With an `id` an existing one is modified.

    What has no default is required, also to modify (contract, rule 2).
    """

    name: str
    image_name: str
    container_disk_in_gb: int
    volume_in_gb: int
    id: str | None = None
    docker_args: str = ""
    env: tuple[EnvironmentVariable, ...] = ()
    ports: str | None = None
    """Comma-separated `port/protocol`, as in `8888/http,22/tcp`."""
    readme: str | None = None
    volume_mount_path: str | None = None
    is_serverless: bool = False
    container_registry_auth_id: str | None = None
    """Never shown by the service."""


class _Saved(msgspec.Struct, frozen=True):
    template: Mapping[str, object] = msgspec.field(name="saveTemplate")


class _Listed(msgspec.Struct, frozen=True):
    templates: tuple[Mapping[str, object], ...] = msgspec.field(name="podTemplates")


class _Myself(msgspec.Struct, frozen=True):
    myself: _Listed


_NOTHING: Final = {"name": "", "imageName": "", "containerDiskInGb": 0, "volumeInGb": 0}
"""In the place of what the service does not know, which is null."""


class Templates:
    """The account's templates. All calls raise what `GraphQL.ask` does."""

    def __init__(self, graphql: GraphQL, clock: Clock) -> None:
        self._graphql = graphql
        self._clock = clock

    async def save(self, template: Template) -> Template:
        """Creates `template`, or modifies the one whose `id` it has; returns it as saved.

        Raises `UsageError` with everything that is wrong with it; `GraphQLError` also where the name is taken.
        """
        check_template(template)
        query = f"mutation {{ saveTemplate(input: {literal(_input(template))}) {{ {_FIELDS} }} }}"
        values = [variable.value for variable in template.env]
        return await self._graphql.ask(f"templates save {template.name}", query, _read_saved, hidden=values)

    async def delete(
        self,
        name: str,
        *,
        wait_s: float = IN_USE_S_MAX,
        pause_s: float = DELETE_PAUSE_S,
        waiting: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Deletes by name (contract, `deleteTemplate`).

        The service refuses while a pod or endpoint uses the template, and for a while after; so this tries again every
        `pause_s` until `wait_s` are over, and says why to `waiting` each time. Raises the last `GraphQLError`, or at
        once where waiting cannot help.
        """
        if not name:
            raise UsageError("a template is deleted by its name; none was given")
        until = self._clock.now() + round(wait_s * SECOND_US)
        while True:
            try:
                return await self._delete(name)
            except GraphQLError as error:
                left_s = (until - self._clock.now()) / SECOND_US
                if left_s <= 0 or not _may_pass(error):
                    raise
                waiting(f"template {name} cannot be deleted yet ({error.errors[0]}); trying for {left_s:.0f} s more")
            await anyio.sleep(min(pause_s, left_s))

    async def _delete(self, name: str) -> None:
        query = f"mutation {{ deleteTemplate(templateName: {literal(name)}) }}"
        await self._graphql.ask(f"templates delete {name:.80}", query, read_nothing)

    async def list(self) -> tuple[Template, ...]:
        """All templates, in the service's order. The contract shows no such operation; this is the public one."""
        query = f"query {{ myself {{ podTemplates {{ {_FIELDS} }} }} }}"
        return await self._graphql.ask("templates list", query, _read_listed)


def check_template(template: Template) -> None:
    """Raises `UsageError` with everything that the contract forbids about `template`."""
    problems = list(_problems(template))
    if problems:
        raise UsageError(f"template {template.name!r}: {'; '.join(problems)}")


def _problems(template: Template) -> Iterator[str]:
    if not template.name.strip():
        yield "the name is empty"
    if _TAGGED.fullmatch(template.image_name) is None:
        yield f"the image {template.image_name!r} needs a tag, as in name:1.0"
    if template.container_disk_in_gb < 1:
        yield "the container disk must have at least 1 GB"
    if template.is_serverless and template.volume_in_gb != 0:
        yield "a serverless template has a volume of 0 GB"
    if template.volume_in_gb < 0:
        yield "the volume cannot be smaller than 0 GB"
    yield from _port_problems(template.ports or "")
    yield from _variable_problems([variable.key for variable in template.env])


def _port_problems(ports: str) -> Iterator[str]:
    for port in ports.split(",") if ports else ():
        found = _PORT.fullmatch(port.strip())
        if found is None or not 1 <= int(found[1]) <= PORT_MAX:
            yield f"{port!r} is no port/protocol, as in 8888/http"


def _variable_problems(keys: Sequence[str]) -> Iterator[str]:
    for key in dict.fromkeys(keys):
        if not key or "=" in key:
            yield f"{key!r} cannot be the name of a variable"
        elif keys.count(key) > 1:
            yield f"the variable {key} stands there twice"


def _input(template: Template) -> dict[str, Value]:
    """The mutation's `input`: what was not said is left out, but for `env` and `dockerArgs`."""
    wanted: dict[str, Value] = msgspec.to_builtins(template)
    return {key: value for key, value in wanted.items() if value is not None}


def _read_saved(data: bytes) -> Template:
    return _template(msgspec.json.decode(data, type=_Saved).template)


def _read_listed(data: bytes) -> tuple[Template, ...]:
    return tuple(map(_template, msgspec.json.decode(data, type=_Myself).myself.templates))


def _template(members: Mapping[str, object]) -> Template:
    known = {name: value for name, value in members.items() if value is not None}
    return msgspec.convert({**_NOTHING, **known}, Template)


def _may_pass(error: GraphQLError) -> bool:
    """Whether the template may only be in use: said by the operation itself, and not of another kind."""
    return error.status < 300 and not any(map(_HOPELESS.search, error.errors))  # noqa: PLR2004
