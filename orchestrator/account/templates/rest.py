"""Templates by the REST interfaces, v2 and v1 (as observed). Both change what is named and leave the rest alone."""

import shlex
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from orchestrator.account.templates.templates import Losing, Template, variables_of, warn_of_lost_variables
from orchestrator.account.transport.fallback import RETIRED_STATUSES, CannotSayError
from orchestrator.account.transport.rest import (
    ByRest,
    ProblemError,
    decode_answer,
    encode_body,
    not_listed_error,
    read_object,
)
from orchestrator.client.jobs.refusals import AnswerError
from orchestrator.client.jobs.serverless import checked_id
from orchestrator.core.service.account_interfaces import Interface
from orchestrator.core.service.answers import Answer

VOLUME_GB_MIN: Final = 10
"""REST v2 has no smaller volume."""

MOUNT_PATH: Final = "/workspace"
"""Where a volume is mounted if nobody says otherwise."""

_record: Final = msgspec.json.Decoder(dict[str, Any]).decode


class _TemplatesRest(ByRest, ABC):
    """What both have in common: listing, and that deletion is by id."""

    async def save(self, template: Template, losing: Losing) -> Template:
        doing = f"templates save {template.name}"
        body = self._body(template)
        if template.id is None:
            answer = await self._rest.post(doing, self.path, encode_body(body), hidden=_values(template))
        else:
            path = f"{self.path}/{checked_id(template.id, 'template')}"
            self._compare(template, self._read(doing, await self._rest.get(doing, path)), losing)
            answer = await self._rest.patch(doing, path, encode_body(body), hidden=_values(template))
        return self._read(doing, answer, changed=True)

    async def delete(self, name: str) -> None:
        doing = f"templates delete {name:.80}"
        found = next((each for each in await self.list(None) if each.name == name), None)
        if found is None:
            raise not_listed_error(doing, "template not found")
        await self._rest.delete(doing, f"{self.path}/{checked_id(found.id or '', 'template')}")

    async def show(self, template_id: str) -> Template | None:
        doing = f"templates show {template_id:.80}"
        try:
            answer = await self._rest.get(doing, f"{self.path}/{checked_id(template_id, 'template')}")
        except ProblemError as error:
            if error.status not in RETIRED_STATUSES or not await self.is_there():
                raise
            return None
        return self._read(doing, answer)

    async def list(self, limit: int | None) -> tuple[Template, ...]:
        doing = "templates list"
        records = await self._rest.all(doing, self.path, "templates", read_object, limit=limit, in_pages=self.in_pages)
        return tuple(self._template(doing, record) for record in records)

    def _compare(self, template: Template, present: Template, losing: Losing) -> None:
        """What changes that nobody asked for, and what cannot be changed like that."""
        if template.env is not None:
            before, kept = variables_of(present), variables_of(template)
            warn_of_lost_variables(f"template {template.name}", before, kept, losing)

    def _read(self, doing: str, answer: Answer, *, changed: bool = False) -> Template:
        return self._template(doing, decode_answer(doing, answer, _record, changed=changed))

    def _template(self, doing: str, record: Mapping[str, Any]) -> Template:
        try:
            return msgspec.convert(self._members(record), Template)
        except (msgspec.ValidationError, AttributeError, TypeError) as error:
            raise AnswerError(f"{doing}: the service answered with a template that cannot be read") from error

    @abstractmethod
    def _body(self, template: Template) -> Mapping[str, Any]:
        """What is said of it. Raises `CannotSayError`."""

    @abstractmethod
    def _members(self, record: Mapping[str, Any]) -> Mapping[str, Any]:
        """The record under the contract's names."""


class TemplatesV2(_TemplatesRest):
    """`/v2/templates`: there is no readme, and no volume under 10 GB."""

    interface = Interface.V2
    path = "/v2/templates"

    def _body(self, template: Template) -> Mapping[str, Any]:
        if template.readme is not None:
            raise CannotSayError(Interface.V2, "a readme")
        if 0 < template.volume_in_gb < VOLUME_GB_MIN:
            raise CannotSayError(
                Interface.V2, f"a volume of {template.volume_in_gb} GB", f"the smallest has {VOLUME_GB_MIN} GB"
            )
        if template.volume_mount_path is not None and not template.volume_in_gb:
            raise CannotSayError(Interface.V2, "where a volume is mounted that has 0 GB")
        persistent = {"size": template.volume_in_gb, "path": template.volume_mount_path or MOUNT_PATH}
        return _said(
            name=template.name,
            image=template.image_name,
            disk=template.container_disk_in_gb,
            args=template.docker_args,
            env=_env(template),
            ports=None if template.ports is None else _ports(template.ports),
            mounts={"persistent": persistent} if template.volume_in_gb else None,
            serverless=template.is_serverless,
            registry=template.container_registry_auth_id,
        )

    def _compare(self, template: Template, present: Template, losing: Losing) -> None:
        if present.volume_in_gb and not template.volume_in_gb:
            raise CannotSayError(Interface.V2, f"that the volume of {present.volume_in_gb} GB is to go")
        super()._compare(template, present, losing)

    def _members(self, record: Mapping[str, Any]) -> Mapping[str, Any]:
        persistent = (record.get("mounts") or {}).get("persistent") or {}
        return _said(
            id=record.get("id"),
            name=record.get("name") or "",
            imageName=record.get("image") or "",
            containerDiskInGb=record.get("disk") or 0,
            volumeInGb=persistent.get("size") or 0,
            dockerArgs=record.get("args"),
            env=_pairs(record),
            ports=",".join(record.get("ports") or ()) or None,
            volumeMountPath=persistent.get("path"),
            isServerless=record.get("serverless"),
            containerRegistryAuthId=record.get("registry"),
        )


_V1_UNSAID: Final[Mapping[str, Any]] = {
    "containerDiskInGb": 50,
    "volumeInGb": 20,
    "volumeMountPath": MOUNT_PATH,
    "ports": ["8888/http", "22/tcp"],
    "isServerless": False,
}
"""What REST v1 leaves out of a template that has it so (as observed)."""


class TemplatesV1(_TemplatesRest):
    """`/v1/templates`: the container's command is a list."""

    interface = Interface.V1
    path = "/v1/templates"
    in_pages = False

    def _body(self, template: Template) -> Mapping[str, Any]:
        is_new = template.id is None
        body = _said(
            name=template.name,
            imageName=template.image_name,
            containerDiskInGb=template.container_disk_in_gb,
            volumeInGb=template.volume_in_gb,
            volumeMountPath=template.volume_mount_path,
            env=_env(template),
            ports=None if template.ports is None and not is_new else _ports(template.ports or ""),
            readme=template.readme,
            isServerless=template.is_serverless,
            containerRegistryAuthId=template.container_registry_auth_id,
        )
        return body if template.docker_args is None else {**body, **_command(template.docker_args)}

    def _members(self, record: Mapping[str, Any]) -> Mapping[str, Any]:
        whole = {**_V1_UNSAID, **record}
        return _said(
            id=record.get("id"),
            name=record.get("name") or "",
            imageName=record.get("imageName") or "",
            containerDiskInGb=whole["containerDiskInGb"],
            volumeInGb=whole["volumeInGb"],
            dockerArgs=_args(record),
            env=_pairs(record),
            ports=",".join(whole["ports"] or ()) or None,
            readme=record.get("readme"),
            volumeMountPath=whole["volumeMountPath"] if whole["volumeInGb"] else None,
            isServerless=whole["isServerless"],
            containerRegistryAuthId=record.get("containerRegistryAuthId") or None,
        )


def _said(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


def _values(template: Template) -> list[str]:
    return [variable.value for variable in template.env or ()]


def _env(template: Template) -> dict[str, str] | None:
    return None if template.env is None else {variable.key: variable.value for variable in template.env}


def _pairs(record: Mapping[str, Any]) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in (record.get("env") or {}).items()]


def _ports(text: str) -> list[str]:
    return [port.strip() for port in text.split(",") if port.strip()]


def _command(args: str) -> dict[str, Any]:
    """Start arguments as v1 has them: an object of two lists, or else a shell's words (contract of pods, rule 1)."""
    try:
        value = msgspec.json.decode(args)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict):
        return {"dockerEntrypoint": value.get("entrypoint", []), "dockerStartCmd": value.get("cmd", [])}
    try:
        return {"dockerStartCmd": shlex.split(args)}
    except ValueError:
        raise CannotSayError(Interface.V1, "start arguments whose quotes do not close") from None


def _args(record: Mapping[str, Any]) -> str:
    entrypoint, cmd = record.get("dockerEntrypoint") or [], record.get("dockerStartCmd") or []
    if entrypoint:
        members = {"entrypoint": entrypoint, "cmd": cmd}
        return msgspec.json.encode({name: each for name, each in members.items() if each}).decode()
    return shlex.join(cmd)
