"""Templates by GraphQL (contract, `saveTemplate`, `deleteTemplate`; listing as observed).

A template is saved as a whole. So one that is modified is read first, and what was not said is sent as it was.
"""

from collections.abc import Mapping, Sequence
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
from orchestrator.account.transport.graphql_client import ByGraphQL, Value, literal, read_at
from orchestrator.core.service.job_record import read_members

_FIELDS: Final = (
    "id name imageName containerDiskInGb volumeInGb dockerArgs ports env { key value } readme volumeMountPath"
    " isServerless"
)
"""What the contract says can be selected."""

_MORE: Final = (
    *("containerRegistryAuthId", "startSsh", "startJupyter", "startScript", "isPublic", "advancedStart"),
    *("category", "config", "allowedCudaVersions"),
)
"""What else the mutation takes (as observed), and a save would reset. Not every service shows all of it."""

_UNSAID: Final[Mapping[str, Value]] = {"dockerArgs": "", "env": [], "isServerless": False}
"""What a new template is given where nobody says otherwise: the service has refused templates without the first two."""


class TemplatesGraphQL(ByGraphQL):
    """The account's templates, by GraphQL."""

    async def save(self, template: Template, losing: Losing) -> Template:
        doing = f"templates save {template.name}"
        wanted = {name: value for name, value in msgspec.to_builtins(template).items() if value is not None}
        whole = {**_UNSAID, **wanted} if template.id is None else await self._merged(doing, template, wanted, losing)
        ordered = {field.encode_name: field for field in msgspec.structs.fields(Template)}
        given = {name: whole[name] for name in (*ordered, *_MORE) if name in whole}
        values = [variable["value"] for variable in whole.get("env", ())]
        saved = await self._graphql.change(doing, "saveTemplate", given, _FIELDS, _read_template, hidden=values)
        auth = given.get("containerRegistryAuthId")  # not shown of what is saved (contract, selectable result fields)
        return msgspec.structs.replace(saved, container_registry_auth_id=auth)

    async def _merged(
        self, doing: str, template: Template, wanted: Mapping[str, Any], losing: Losing
    ) -> Mapping[str, Any]:
        """What is wanted of the template, and what it has besides; `losing` is told what the service does not show."""
        shown, hidden = await self._ask(doing, str(template.id), _MORE)
        if shown is None:  # the service says that itself
            return {**_UNSAID, **wanted}
        present, before = shown
        unknown = [name for name in hidden if name not in wanted]
        if unknown:
            losing(f"template {template.name}: the service does not show {', '.join(unknown)}; a save may reset that")
        if template.env is not None:
            what = f"template {template.name}"
            warn_of_lost_variables(what, variables_of(before), variables_of(template), losing)
        return {**_UNSAID, **present, **wanted}

    async def delete(self, name: str) -> None:
        query = f"mutation {{ deleteTemplate(templateName: {literal(name)}) }}"
        await self._graphql.ask(f"templates delete {name:.80}", query, read_members)

    async def show(self, template_id: str) -> Template | None:
        shown, _ = await self._ask(f"templates show {template_id:.80}", template_id, _MORE[:1])
        return None if shown is None else shown[1]

    async def list(self, limit: int | None) -> tuple[Template, ...]:
        head = f"query {{ myself {{ podTemplates {{ {_FIELDS} %s }} }} }}"
        listed, _ = await self._graphql.ask_known("templates list", head, _MORE[:1], _read_list)
        return listed[:limit]

    async def _ask(
        self, doing: str, template_id: str, more: Sequence[str]
    ) -> tuple[tuple[Mapping[str, Any], Template] | None, tuple[str, ...]]:
        """The template as it came and as it is read, and what of `more` the service does not show."""
        head = f"query {{ podTemplate(id: {literal(template_id)}) {{ {_FIELDS} %s }} }}"
        return await self._graphql.ask_known(doing, head, more, _read_shown)


_shown: Final = msgspec.json.Decoder(dict[str, Any] | None).decode
_listed: Final = partial(read_at, ("myself", "podTemplates"), msgspec.json.Decoder(list[dict[str, Any]]).decode)


def _read_template(data: bytes) -> Template:
    return _template(read_members(data))


def _read_list(data: bytes) -> tuple[Template, ...]:
    return tuple(map(_template, _listed(data)))


def _read_shown(data: bytes) -> tuple[Mapping[str, Any], Template] | None:
    members = read_at(("podTemplate",), _shown, data)
    if members is None:
        return None
    return {name: value for name, value in members.items() if value is not None}, _template(members)


def _template(members: Mapping[str, object]) -> Template:
    known = {name: value for name, value in members.items() if value is not None}
    return known_template(known)
