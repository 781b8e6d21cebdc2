"""Templates, as a pure world: every verb that depends on time takes `now`.

A template that something uses cannot be deleted, nor for a while after its last use (contract, Deletion rule): who
starts a pod or an endpoint from a template says so with `use`, and `release`s it when that is gone.
"""

import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from orchestrator.emulator.account.pod_records import Omitted
from orchestrator.emulator.account.secrets import SecretStore
from orchestrator.emulator.contract.answers import ServiceRefusal
from orchestrator.emulator.contract.ids_and_times import resource_id

TEMPLATE_RELEASE_S = 120.0
"""How long after its last use a template cannot be deleted (contract: up to 2 minutes)."""

_TAGGED = re.compile(r"\S*[^\s/:]:[\w][\w.-]*|\S+@\w+:[0-9a-f]+")
"""An image with its tag or digest (contract, Template)."""

_PORT = re.compile(r"([0-9]{1,5})/[a-z]+")
_PORT_MAX = 65_535


class Variable(msgspec.Struct, frozen=True, kw_only=True):
    """One variable of the environment, unresolved."""

    key: str
    value: str


class ServiceTemplate(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The container configuration for pods and workers (contract, Template)."""

    id: str
    name: str
    image_name: str
    container_disk_in_gb: int
    volume_in_gb: int
    docker_args: str = ""
    env: tuple[Variable, ...] = ()
    ports: str | None = None
    readme: str | None = None
    volume_mount_path: str | None = None
    is_serverless: bool = False
    container_registry_auth_id: str | None = None
    is_public: bool = False
    start_ssh: bool = True
    start_jupyter: bool = True
    start_script: str | None = None
    advanced_start: bool = False
    category: str = "NVIDIA"
    config: Any = None
    allowed_cuda_versions: tuple[str, ...] = ()

    @property
    def variables(self) -> dict[str, str]:
        """Its environment by name."""
        return {variable.key: variable.value for variable in self.env}

    @property
    def port_list(self) -> tuple[str, ...]:
        """Its ports, one by one."""
        return tuple(port.strip() for port in (self.ports or "").split(",") if port.strip())


def kept(env: Mapping[str, str] | Omitted, ports: Sequence[str] | Omitted) -> dict[str, object]:
    """Environment and ports, as far as REST says them, as a template keeps them."""
    return {
        **({} if isinstance(env, Omitted) else {"env": tuple(Variable(key=key, value=env[key]) for key in env)}),
        **({} if isinstance(ports, Omitted) else {"ports": ",".join(ports) or None}),
    }


def blank_template(disk: int, **given: Any) -> ServiceTemplate:
    """A template of which nothing is said but this, with `disk` GB for its container."""
    blank = ServiceTemplate(id="", name="", image_name="", container_disk_in_gb=disk, volume_in_gb=0)
    return msgspec.structs.replace(blank, **given)


class TemplateStore:
    """The templates of the one account there is.

    A bound template is the copy that an endpoint has of its own (REST v2): it is found by its id and not listed.
    """

    def __init__(self, secrets: SecretStore, rng: random.Random, *, release_us: int) -> None:
        self._secrets = secrets
        self._rng = rng
        self._release_us = release_us
        self._templates: dict[str, ServiceTemplate] = {}
        self._bound: dict[str, ServiceTemplate] = {}
        self._users: dict[str, set[str]] = {}
        self._last_used_at: dict[str, int] = {}

    def save(self, wanted: Mapping[str, object]) -> ServiceTemplate:
        """Creates a template, or modifies the one whose `id` is given; what is not given takes its default.

        Raises Refusal: 404 for an unknown id, 400 for a name that is taken or a rule that is broken.
        """
        given = {key: value for key, value in wanted.items() if value is not None}
        template = msgspec.convert({"id": self.new_id(), **given}, ServiceTemplate)
        if wanted.get("id"):
            self.own(template.id)
        return self.put(template)

    def new_id(self) -> str:
        """The id of a template that is about to be put here."""
        return resource_id(self._rng)

    def put(self, template: ServiceTemplate) -> ServiceTemplate:
        """Keeps the template as it is now. Raises Refusal 400."""
        self._check(template)
        self._templates[template.id] = template
        return template

    def bind(self, template: ServiceTemplate) -> None:
        """Keeps it as an endpoint's own."""
        self._bound[template.id] = template

    def unbind(self, template_id: str) -> None:
        """Forgets it, if it is one that was bound."""
        self._bound.pop(template_id, None)

    def is_bound(self, template_id: str) -> bool:
        """Whether it is an endpoint's own."""
        return template_id in self._bound

    def own(self, template_id: str) -> ServiceTemplate:
        """One of those that are listed. Raises Refusal 404."""
        template = self._templates.get(template_id)
        if template is None:
            raise ServiceRefusal(404, "template not found")
        return template

    def _check(self, template: ServiceTemplate) -> None:
        if not template.name or not template.image_name:
            raise ServiceRefusal(400, "template name and image name cannot be empty")
        if template.is_serverless and template.volume_in_gb != 0:
            raise ServiceRefusal(400, "a serverless template cannot have a volume: volumeInGb must be 0")
        if template.container_disk_in_gb < 1 or template.volume_in_gb < 0:
            raise ServiceRefusal(400, "disk sizes are too small")
        if _TAGGED.fullmatch(template.image_name) is None:
            raise ServiceRefusal(400, f"image name must have a tag: {template.image_name}")
        for port in (template.ports or "").split(",") if template.ports else ():
            found = _PORT.fullmatch(port.strip())
            if found is None or not 1 <= int(found[1]) <= _PORT_MAX:
                raise ServiceRefusal(400, f"ports must be like 8888/http,22/tcp, not {port}")
        taken = self._named(template.name)
        if taken is not None and taken.id != template.id:
            raise ServiceRefusal(400, f"template name must be unique: {template.name}")

    def delete(self, name: str, now: int) -> None:
        """Raises Refusal: 404 for an unknown name, 409 while the template is used and for a while after."""
        template = self._named(name)
        if template is None:
            raise ServiceRefusal(404, "template not found")
        self.forget(template, now)

    def forget(self, template: ServiceTemplate, now: int) -> None:
        """The same by the template itself."""
        name = template.name
        if self._users.get(template.id):
            raise ServiceRefusal(409, f"template {name} is in use by a pod or an endpoint")
        last_used_at = self._last_used_at.get(template.id)
        if last_used_at is not None and now < last_used_at + self._release_us:
            raise ServiceRefusal(409, f"template {name} was in use a moment ago; try again in 2 minutes")
        del self._templates[template.id]
        self._users.pop(template.id, None)
        self._last_used_at.pop(template.id, None)

    def list(self) -> Sequence[ServiceTemplate]:
        """All of them, oldest first."""
        return tuple(self._templates.values())

    def find(self, template_id: str) -> ServiceTemplate | None:
        """The template of that id, bound ones included."""
        return self._templates.get(template_id) or self._bound.get(template_id)

    def use(self, template_id: str, user: str) -> None:
        """`user` (the id of a pod or an endpoint) was started from this template."""
        self._users.setdefault(template_id, set()).add(user)

    def release(self, template_id: str, user: str, now: int) -> None:
        """`user` is gone, or uses another template."""
        users = self._users.get(template_id, set())
        if user in users:
            users.remove(user)
            self._last_used_at[template_id] = now

    def resolve_environment(self, template: ServiceTemplate) -> dict[str, str]:
        """What a worker or a pod finds in its environment: references to secrets replaced by their values."""
        return self._secrets.resolve(template.variables)

    def _named(self, name: str) -> ServiceTemplate | None:
        return next((template for template in self._templates.values() if template.name == name), None)
