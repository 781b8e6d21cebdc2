"""Templates in the words of the REST interfaces, v1 and v2 (as observed); kept are those of the contract's GraphQL."""

import shlex
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import msgspec

from orchestrator.emulator.account.pod_bodies import (
    CommandBody,
    Container,
    MountsBody,
    Name,
    checked,
    command_after,
    read_args,
)
from orchestrator.emulator.account.pod_records import OMITTED, Omitted
from orchestrator.emulator.account.templates import ServiceTemplate, kept
from orchestrator.emulator.contract.answers import ServiceRefusal, converted
from orchestrator.emulator.contract.json_shape import one_of

# --- v2

DISK_GB = 20
"""Of a container about whose disk nobody said anything; chosen here."""


class TemplateBody(Container, frozen=True, kw_only=True, rename="camel"):
    """The body of an update; what it leaves out keeps its value."""

    name: Name | Omitted = OMITTED
    mounts: MountsBody | Omitted = OMITTED
    serverless: bool | Omitted = OMITTED
    public: bool | Omitted = OMITTED
    category: Annotated[str, one_of("CPU", "NVIDIA", "AMD")] | Omitted = OMITTED
    start_ssh: bool | Omitted = OMITTED
    start_jupyter: bool | Omitted = OMITTED
    allowed_cuda_versions: tuple[str, ...] | Omitted = OMITTED


class TemplateCreation(TemplateBody, frozen=True, kw_only=True, rename="camel"):
    """The body of a create."""

    name: Name
    image: str


_NAMES = {
    "name": "name",
    "serverless": "is_serverless",
    "public": "is_public",
    "category": "category",
    "startSsh": "start_ssh",
    "startJupyter": "start_jupyter",
    "allowedCudaVersions": "allowed_cuda_versions",
}
"""What v2 calls the fields of a template that it shows as they are."""


def parse_template(body: bytes, *, create: bool) -> TemplateBody:
    """The body of a create or an update. Raises Problem."""
    return checked(body, TemplateCreation if create else TemplateBody, _of_mounts)


def _of_mounts(body: TemplateBody) -> Iterable[str]:
    """A template has storage of the host or none; volumes are named by pods (as observed)."""
    given = {} if isinstance(body.mounts, Omitted) else msgspec.to_builtins(body.mounts)
    yield from (f"$.mounts: additional properties '{kind}' not allowed" for kind in given if kind != "persistent")


def template_after(template: ServiceTemplate, body: TemplateBody) -> ServiceTemplate:
    """`template` with what `body` says. Raises Problem 400."""
    said = {field.encode_name: getattr(body, field.name) for field in msgspec.structs.fields(TemplateBody)}
    changes = {ours: said[name] for name, ours in _NAMES.items() if said[name] is not OMITTED}
    if not isinstance(body.mounts, Omitted):
        changes |= _volume(body.mounts)
    return msgspec.structs.replace(contained(template, body), **changes)


def contained(template: ServiceTemplate, body: Container) -> ServiceTemplate:
    """`template` with what `body` says of the container. Raises Problem 400."""
    args, _ = command_after(body, template.docker_args)
    changes: dict[str, object] = {"docker_args": args, **kept(body.env, body.ports)}
    if not isinstance(body.image, Omitted):
        changes["image_name"] = body.image
    if not isinstance(body.disk, Omitted):
        changes["container_disk_in_gb"] = body.disk
    if not isinstance(body.registry, Omitted):
        changes["container_registry_auth_id"] = body.registry
    return msgspec.structs.replace(template, **changes)


def _volume(mounts: MountsBody) -> dict[str, object]:
    if isinstance(mounts.persistent, Omitted):
        return {}
    return {"volume_in_gb": mounts.persistent.size, "volume_mount_path": mounts.persistent.path}


def shown_container(template: ServiceTemplate) -> dict[str, object]:
    """The fields of the container as v2 shows them."""
    command = read_args(template.docker_args)
    return {
        "image": template.image_name,
        "args": template.docker_args,
        "cmd": command.cmd,
        "entrypoint": command.entrypoint,
        "disk": template.container_disk_in_gb,
        "env": template.variables,
        "ports": template.port_list,
        "registry": template.container_registry_auth_id,
    }


def shown_template(template: ServiceTemplate) -> dict[str, object]:
    """The template as v2 shows it; without a volume there are no mounts."""
    mounts = {"persistent": {"size": template.volume_in_gb, "path": template.volume_mount_path or "/workspace"}}
    return {
        "id": template.id,
        **shown_container(template),
        **({"mounts": mounts} if template.volume_in_gb else {}),
        **{name: getattr(template, ours) for name, ours in _NAMES.items()},
    }


# --- v1


class TemplateV1(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a create or an update of v1 may say; whatever else is sent is ignored."""

    name: str | Omitted = OMITTED
    image_name: str | Omitted = OMITTED
    category: str | Omitted = OMITTED
    container_disk_in_gb: int | Omitted = OMITTED
    volume_in_gb: int | Omitted = OMITTED
    volume_mount_path: str | Omitted = OMITTED
    docker_entrypoint: tuple[str, ...] | Omitted = OMITTED
    docker_start_cmd: tuple[str, ...] | Omitted = OMITTED
    env: Mapping[str, str] | Omitted = OMITTED
    ports: tuple[str, ...] | Omitted = OMITTED
    readme: str | Omitted = OMITTED
    is_public: bool | Omitted = OMITTED
    is_serverless: bool | Omitted = OMITTED
    container_registry_auth_id: str | Omitted = OMITTED


_PLAIN_V1 = (
    *("name", "image_name", "category", "container_disk_in_gb", "volume_in_gb", "volume_mount_path"),
    *("readme", "is_public", "is_serverless", "container_registry_auth_id"),
)


def parse_template_v1(body: bytes) -> TemplateV1:
    """The body of a create or an update of v1. Raises Refusal 400."""
    return converted(body, TemplateV1)


def new_template_v1(template_id: str, body: TemplateV1) -> ServiceTemplate:
    """A template with v1's defaults where `body` says nothing. Raises Refusal 400."""
    if isinstance(body.name, Omitted) or isinstance(body.image_name, Omitted):
        raise ServiceRefusal(400, "name and imageName are required")
    begun = ServiceTemplate(
        id=template_id,
        name=body.name,
        image_name=body.image_name,
        container_disk_in_gb=50,
        volume_in_gb=0 if body.is_serverless is True else 20,
        volume_mount_path="/workspace",
        ports="8888/http,22/tcp",
    )
    return template_after_v1(begun, body)


def template_after_v1(template: ServiceTemplate, body: TemplateV1) -> ServiceTemplate:
    """`template` with what `body` says."""
    changes: dict[str, Any] = {name: value for name in _PLAIN_V1 if (value := getattr(body, name)) is not OMITTED}
    changes |= kept(body.env, body.ports)
    before = read_args(template.docker_args)
    entrypoint = before.entrypoint if isinstance(body.docker_entrypoint, Omitted) else body.docker_entrypoint
    cmd = before.cmd if isinstance(body.docker_start_cmd, Omitted) else body.docker_start_cmd
    if (entrypoint, cmd) != (before.entrypoint, before.cmd):
        command = CommandBody(entrypoint=entrypoint, cmd=cmd)
        changes["docker_args"] = command.stored() if entrypoint else shlex.join(cmd)
    return msgspec.structs.replace(template, **changes)


_UNSAID_V1: Mapping[str, object] = {
    "category": "NVIDIA",
    "containerDiskInGb": 50,
    "volumeInGb": 20,
    "volumeMountPath": "/workspace",
    "ports": ("8888/http", "22/tcp"),
    "isServerless": False,
}
"""What a question leaves out of a template that has it so (as observed)."""


def asked_template_v1(template: ServiceTemplate) -> dict[str, object]:
    """The template as v1 shows it to who asks for it."""
    shown = shown_template_v1(template)
    return {name: value for name, value in shown.items() if name not in _UNSAID_V1 or value != _UNSAID_V1[name]}


def shown_template_v1(template: ServiceTemplate) -> dict[str, object]:
    """The template as v1 shows it to who has changed it."""
    command = read_args(template.docker_args)
    shown: dict[str, object] = {
        field.encode_name: getattr(template, field.name)
        for field in msgspec.structs.fields(ServiceTemplate)
        if field.name in (*_PLAIN_V1, "id")
    }
    return {
        **shown,
        "dockerEntrypoint": command.entrypoint,
        "dockerStartCmd": command.cmd,
        "env": template.variables,
        "ports": template.port_list,
    }
