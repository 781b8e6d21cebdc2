"""What pods take from templates, and what they tell them: a template that a pod was created from is in use."""

from collections.abc import Mapping
from typing import Protocol

import msgspec

from orchestrator.emulator.account.templates import TemplateStore


class PodTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """What a pod takes where its own body says nothing; `env` is merged, the body winning. References to secrets stay
    as they are written: a pod's record never shows a value.
    """

    image: str
    args: str = ""
    disk: int
    env: Mapping[str, str] = {}
    ports: tuple[str, ...] = ()
    registry: str | None = None
    serverless: bool = False


class TemplateSource(Protocol):
    """Where templates come from."""

    def find(self, template_id: str) -> PodTemplate | None: ...

    def use(self, template_id: str, pod_id: str) -> None: ...

    def release(self, template_id: str, pod_id: str, now: int) -> None: ...


class AccountTemplates:
    """The templates of the account. A template's volume makes no mount: mounts stand in a pod's own body."""

    def __init__(self, templates: TemplateStore) -> None:
        self._templates = templates

    def find(self, template_id: str) -> PodTemplate | None:
        template = self._templates.find(template_id)
        if template is None:
            return None
        return PodTemplate(
            image=template.image_name,
            args=template.docker_args,
            disk=template.container_disk_in_gb,
            env={variable.key: variable.value for variable in template.env},
            ports=tuple(port.strip() for port in (template.ports or "").split(",") if port.strip()),
            registry=template.container_registry_auth_id,
            serverless=template.is_serverless,
        )

    def use(self, template_id: str, pod_id: str) -> None:
        self._templates.use(template_id, pod_id)

    def release(self, template_id: str, pod_id: str, now: int) -> None:
        self._templates.release(template_id, pod_id, now)
