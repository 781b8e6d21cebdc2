"""Templates by the REST interfaces, v2 and v1 (as observed). Both change what is named and leave the rest alone."""

import shlex
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import msgspec

from orchestrator.account.templates.templates import (
    Losing,
    Template,
    known_template,
    variables_of,
    warn_of_lost_variables,
)
from orchestrator.account.transport.fallback import RETIRED_STATUSES, CannotSayError, is_there
from orchestrator.account.transport.rest_client import ByRest, ProblemError
from orchestrator.client.jobs.refusals import AnswerError, Refusal
from orchestrator.client.jobs.serverless import checked_id
from orchestrator.core.service.account_interfaces import Interface
from orchestrator.core.service.job_record import read_members

VOLUME_GB_MIN: Final = 10
"""REST v2 has no smaller volume."""

MOUNT_PATH: Final = "/workspace"
"""Where a volume is mounted if nobody says otherwise."""


class _TemplatesRest(ByRest, ABC):
    """What both have in common: listing, and that deletion is by id."""

    names: Mapping[str, str]
    """What the interface calls the contract's fields that it has as they are."""

    async def save(self, template: Template, losing: Losing) -> Template:
        doing = f"templates save {template.name}"
        body, hidden = self._body(template), [variable.value for variable in template.env or ()]
        read = partial(self._read, doing)
        if template.id is None:
            return await self._rest.post(doing, self.path, body, read, hidden=hidden)
        path = self._path(template.id)
        self._compare(template, await self._rest.get(doing, path, read), losing)
        return await self._rest.patch(doing, path, body, read, hidden=hidden)

    async def delete(self, name: str) -> None:
        doing = f"templates delete {name:.80}"
        found = next((each for each in await self.list(None) if each.name == name), None)
        if found is None:
            raise ProblemError(doing, Refusal(status=404, title="Not Found", detail="template not found"))
        await self._rest.delete(doing, self._path(found.id or ""))

    async def show(self, template_id: str) -> Template | None:
        doing = f"templates show {template_id:.80}"
        try:
            return await self._rest.get(doing, self._path(template_id), partial(self._read, doing))
        except ProblemError as error:
            if error.status not in RETIRED_STATUSES or not await is_there(self):
                raise
            return None

    async def list(self, limit: int | None) -> tuple[Template, ...]:
        doing = "templates list"
        return tuple(await self._all(doing, "templates", partial(self._read, doing), limit))

    def _path(self, template_id: str) -> str:
        return f"{self.path}/{checked_id(template_id, 'template')}"

    def _compare(self, template: Template, present: Template, losing: Losing) -> None:
        """What changes that nobody asked for, and what cannot be changed like that."""
        if template.env is not None:
            before, kept = variables_of(present), variables_of(template)
            warn_of_lost_variables(f"template {template.name}", before, kept, losing)

    def _body(self, template: Template) -> dict[str, Any]:
        """What is said of it. Raises `CannotSayError`."""
        said = msgspec.to_builtins(template)
        body = {theirs: said[name] for name, theirs in self.names.items()}
        body["env"] = None if template.env is None else {variable.key: variable.value for variable in template.env}
        body["ports"] = None if template.ports is None else _ports(template.ports)
        return _without_none({**body, **self._own(template)})

    def _read(self, doing: str, body: bytes) -> Template:
        record = read_members(body)
        try:
            fields = {name: record.get(theirs) for name, theirs in self.names.items()}
            fields["env"] = [{"key": key, "value": value} for key, value in (record.get("env") or {}).items()]
            fields["ports"] = ",".join(record.get("ports") or ()) or None
            known = _without_none({"id": record.get("id"), **fields, **self._fields(record)})
            return known_template(known)
        except (msgspec.ValidationError, AttributeError, TypeError) as error:
            raise AnswerError(f"{doing}: the service answered with a template that cannot be read") from error

    @abstractmethod
    def _own(self, template: Template) -> Mapping[str, Any]:
        """What the interface says in a form of its own. Raises `CannotSayError`."""

    @abstractmethod
    def _fields(self, record: Mapping[str, Any]) -> Mapping[str, Any]:
        """The same of a record, under the contract's names."""


class TemplatesV2(_TemplatesRest):
    """`/v2/templates`: there is no readme, and no volume under 10 GB."""

    interface = Interface.V2
    path = "/v2/templates"
    names: Mapping[str, str] = {
        "name": "name",
        "imageName": "image",
        "containerDiskInGb": "disk",
        "dockerArgs": "args",
        "isServerless": "serverless",
        "containerRegistryAuthId": "registry",
    }

    def _own(self, template: Template) -> Mapping[str, Any]:
        if template.readme is not None:
            raise CannotSayError(Interface.V2, "a readme")
        if 0 < template.volume_in_gb < VOLUME_GB_MIN:
            raise CannotSayError(
                Interface.V2, f"a volume of {template.volume_in_gb} GB", f"the smallest has {VOLUME_GB_MIN} GB"
            )
        if template.volume_mount_path is not None and not template.volume_in_gb:
            raise CannotSayError(Interface.V2, "where a volume is mounted that has 0 GB")
        persistent = {"size": template.volume_in_gb, "path": template.volume_mount_path or MOUNT_PATH}
        return {"mounts": {"persistent": persistent}} if template.volume_in_gb else {}

    def _compare(self, template: Template, present: Template, losing: Losing) -> None:
        if present.volume_in_gb and not template.volume_in_gb:
            raise CannotSayError(Interface.V2, f"that the volume of {present.volume_in_gb} GB is to go")
        super()._compare(template, present, losing)

    def _fields(self, record: Mapping[str, Any]) -> Mapping[str, Any]:
        persistent = (record.get("mounts") or {}).get("persistent") or {}
        return {"volumeInGb": persistent.get("size"), "volumeMountPath": persistent.get("path")}


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
    names: Mapping[str, str] = {
        name: name
        for name in (
            "name",
            "imageName",
            "containerDiskInGb",
            "volumeInGb",
            "volumeMountPath",
            "readme",
            "isServerless",
            "containerRegistryAuthId",
        )
    }

    def _own(self, template: Template) -> Mapping[str, Any]:
        unsaid: dict[str, Any] = {"ports": []} if template.ports is None and template.id is None else {}
        return unsaid if template.docker_args is None else {**unsaid, **_command(template.docker_args)}

    def _fields(self, record: Mapping[str, Any]) -> Mapping[str, Any]:
        whole = {**_V1_UNSAID, **record}
        return {
            **{name: whole[name] for name in _V1_UNSAID},
            "ports": ",".join(whole["ports"] or ()) or None,
            "volumeMountPath": whole["volumeMountPath"] if whole["volumeInGb"] else None,
            "dockerArgs": _args(record),
            "containerRegistryAuthId": record.get("containerRegistryAuthId") or None,
        }


def _without_none(members: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


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
