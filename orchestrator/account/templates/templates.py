"""Templates: the container configuration that pods and serverless workers start from (contract, Template).

What the contract says about a template is checked before it is sent, all of it at once. To modify one, only what was
said is changed, whichever the interface: what it has besides, credentials for its image for one, stays.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

import anyio
import msgspec

from orchestrator.account.transport.fallback import InterfaceClient, InterfaceFallback
from orchestrator.account.transport.rest_client import ProblemError
from orchestrator.client.jobs.refusals import RefusedError
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

_HOPELESS: Final = re.compile(
    r"not found|not exist|no such|unauthori[sz]ed|permission|forbidden|syntax|cannot query", re.IGNORECASE
)
"""Reasons that do not go away by waiting. The texts are not documented; any other may mean "still in use"."""

_IN_USE: Final = (400, 409)
_IN_USE_GRAPHQL: Final = range(200, 300)
"""With which statuses REST v2 and v1 refuse to delete what is in use, and GraphQL."""


class EnvironmentVariable(msgspec.Struct, frozen=True, kw_only=True):
    """One variable of the container. The value may refer to a secret: `{{ RUNPOD_SECRET_name }}`."""

    key: str
    value: str


class Template(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A template, to be saved or as the service shows it. Sizes are in GB. With an `id` an existing one is modified.

    What has no default is required, also to modify (contract, rule 2). None is "not said": a new template does without,
    and one that is modified keeps what it has.
    """

    name: str
    image_name: str
    container_disk_in_gb: int
    volume_in_gb: int
    id: str | None = None
    docker_args: str | None = None
    env: tuple[EnvironmentVariable, ...] | None = None
    """All of them: those that it had and that are not among these are gone."""
    ports: str | None = None
    """Comma-separated `port/protocol`, as in `8888/http,22/tcp`."""
    readme: str | None = None
    volume_mount_path: str | None = None
    is_serverless: bool | None = None
    container_registry_auth_id: str | None = None


_UNKNOWN: Final = {"name": "", "imageName": "", "containerDiskInGb": 0, "volumeInGb": 0}
"""In the place of what is required, and what the service does not show."""


def known_template(known: Mapping[str, Any]) -> Template:
    """The template of which the service shows so much. Raises `msgspec.ValidationError`."""
    return msgspec.convert({**_UNKNOWN, **known}, Template)


Losing = Callable[[str], None]
"""Told what a change takes away that was not asked for, before it is sent."""


def ignore(_: str) -> None:
    """For those who want to hear nothing."""


def variables_of(template: Template) -> list[str]:
    """The names of its variables."""
    return [variable.key for variable in template.env or ()]


class TemplateClient(InterfaceClient, Protocol):
    """Templates by one interface."""

    async def save(self, template: Template, losing: Losing) -> Template: ...

    async def delete(self, name: str) -> None: ...

    async def show(self, template_id: str) -> Template | None: ...

    async def list(self, limit: int | None) -> tuple[Template, ...]: ...


class Templates:
    """The account's templates.

    Calls raise `ProblemError` or `GraphQLError` for what the service refuses, `AnswerError` for an answer that cannot
    be read, `NotSent` and `Unanswered`; and `UsageError` for what breaks a rule, before anything is sent.
    """

    def __init__(self, forms: InterfaceFallback[TemplateClient], clock: Clock) -> None:
        self._forms = forms
        self._clock = clock

    async def save(self, template: Template, *, losing: Losing = ignore) -> Template:
        """Creates `template`, or modifies the one whose `id` it has; returns it as saved.

        What a modification takes away that nobody asked for, `losing` is told first. Raises `UsageError` with
        everything that is wrong with it; what the service refuses also where the name is taken.
        """
        check_template(template)
        return await self._forms.ask(lambda form: form.save(template, losing))

    async def delete(
        self,
        name: str,
        *,
        wait_s: float = IN_USE_S_MAX,
        pause_s: float = DELETE_PAUSE_S,
        waiting: Callable[[str], None] = ignore,
    ) -> None:
        """Deletes by name (contract, `deleteTemplate`).

        The service refuses while a pod or endpoint uses the template, and for a while after; so this tries again every
        `pause_s` until `wait_s` are over, and says why to `waiting` each time. Raises the last refusal, or at once
        where waiting cannot help.
        """
        if not name:
            raise UsageError("a template is deleted by its name; none was given")
        until = self._clock.now() + round(wait_s * SECOND_US)
        while True:
            try:
                return await self._forms.ask(lambda form: form.delete(name))
            except RefusedError as error:
                left_s = (until - self._clock.now()) / SECOND_US
                if left_s <= 0 or not _may_pass(error):
                    raise
                why = next(filter(None, (*error.errors, error.detail)), error.title)
                waiting(f"template {name} cannot be deleted yet ({why}); trying for {left_s:.0f} s more")
            await anyio.sleep(min(pause_s, left_s))

    async def show(self, template_id: str) -> Template | None:
        """The template with that id; None where there is none."""
        return await self._forms.ask(lambda form: form.show(template_id))

    async def list(self, *, limit: int | None = None) -> tuple[Template, ...]:
        """All templates, in the service's order; at most `limit`."""
        return await self._forms.ask(lambda form: form.list(limit))


def warn_of_lost_variables(what: str, before: Iterable[str], kept: Iterable[str], losing: Losing) -> None:
    """Says which variables `what` has had and will not keep."""
    lost = sorted(set(before).difference(kept))
    if lost:
        losing(f"{what}: {'the variable' if len(lost) == 1 else 'the variables'} {', '.join(lost)} will be gone")


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
    yield from _variable_problems(variables_of(template))


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


def _may_pass(error: RefusedError) -> bool:
    """Whether the template may only be in use: said by the operation itself, and not of another kind."""
    statuses = _IN_USE if isinstance(error, ProblemError) else _IN_USE_GRAPHQL
    return error.status in statuses and not any(map(_HOPELESS.search, (*error.errors, error.detail)))
