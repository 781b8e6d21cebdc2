"""Secrets: values that templates name as `{{ RUNPOD_SECRET_name }}` and that nobody ever reads back.

A value is sent once, when it is created or rotated, and is in no record, message or `repr` here (contract, Secret:
input only). REST v2 and GraphQL know secrets; v1 does not.
"""

import re
from functools import partial
from typing import Final, Protocol

import msgspec

from orchestrator.account.transport.fallback import InterfaceClient, InterfaceFallback
from orchestrator.account.transport.graphql_client import ByGraphQL, literal, read_at
from orchestrator.account.transport.rest_client import ByRest
from orchestrator.client.jobs.serverless import checked_id
from orchestrator.core.service.account_interfaces import Interface
from orchestrator.core.service.job_record import read_members
from orchestrator.errors import UsageError
from orchestrator.units import MIB

VALUE_BYTES_MAX: Final = 16 * MIB
"""A value must be smaller than this (REST v2)."""

DESCRIPTION_BYTES_MAX: Final = 65_535

_NAME: Final = re.compile(r"(?!(?i:RUNPOD))[a-zA-Z_][a-zA-Z0-9_.\-/]{0,190}")
"""The rule of REST v2; the contract has none. What fits can stand in `{{ RUNPOD_SECRET_name }}`."""

_FIELDS: Final = "id name description"


class Secret(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A secret as the service shows it. `description` is None when unset."""

    id: str
    name: str
    description: str | None = None
    created_at: str | None = None
    value_last_updated_at: str | None = None
    """When its value was last rotated; None: never, or the interface does not say."""


class SecretClient(InterfaceClient, Protocol):
    """Secrets by one interface."""

    async def create(self, name: str, value: str, description: str | None) -> Secret: ...

    async def rotate(self, secret_id: str, value: str | None, description: str | None) -> Secret: ...

    async def delete(self, secret_id: str) -> None: ...

    async def list(self, limit: int | None) -> tuple[Secret, ...]: ...


class Secrets:
    """The account's secrets.

    Calls raise `ProblemError` or `GraphQLError` for what the service refuses, `AnswerError` for an answer that cannot
    be read, `NotSent` and `Unanswered`; and `UsageError` for what breaks a rule, before anything is sent.
    """

    def __init__(self, forms: InterfaceFallback[SecretClient]) -> None:
        self._forms = forms

    async def create(self, name: str, value: str, *, description: str | None = None) -> Secret:
        """Stores `value` under `name`, which stays."""
        if _NAME.fullmatch(name) is None:
            raise UsageError(
                f"{name[:80]!r} is no secret name: 1 to 191 letters, digits and _ . - /, beginning with a letter or _,"
                " and not with RUNPOD"
            )
        _check(f"of secret {name}", value, description)
        return await self._forms.ask(lambda form: form.create(name, value, description))

    async def rotate(self, secret_id: str, value: str | None = None, *, description: str | None = None) -> Secret:
        """Puts `value` in the place of the one there is, or changes the description ("" leaves it without), or both.

        What runs keeps the value that it started with. Of both, the value is changed first; where the description is
        refused then, the value has changed.
        """
        checked_id(secret_id, "secret")
        if value is None and description is None:
            raise UsageError("nothing was named that should change: neither a value nor a description")
        _check(f"of secret {secret_id}", value, description)
        return await self._forms.ask(lambda form: form.rotate(secret_id, value, description))

    async def delete(self, secret_id: str) -> None:
        """Deletes by id (contract, `secretDelete`). Templates that name the secret are not changed."""
        if not secret_id:
            raise UsageError("a secret is deleted by its id; none was given")
        await self._forms.ask(lambda form: form.delete(secret_id))

    async def list(self, *, limit: int | None = None) -> tuple[Secret, ...]:
        """All secrets, in the service's order; at most `limit`."""
        return await self._forms.ask(lambda form: form.list(limit))


def _check(of: str, value: str | None, description: str | None) -> None:
    if value == "":
        raise UsageError(f"the value {of} is empty")
    if value is not None and len(value.encode(errors="replace")) >= VALUE_BYTES_MAX:
        raise UsageError(f"the value {of} is too long: it must be smaller than {VALUE_BYTES_MAX // MIB} MiB")
    if description is not None and len(description.encode(errors="replace")) > DESCRIPTION_BYTES_MAX:
        raise UsageError(f"the description {of} is longer than {DESCRIPTION_BYTES_MAX} bytes")


_one: Final = msgspec.json.Decoder(Secret).decode
_all: Final = partial(read_at, ("myself", "secrets"), msgspec.json.Decoder(tuple[Secret, ...]).decode)


class SecretsV2(ByRest):
    """By REST v2, `/v2/account/secrets` (as observed)."""

    interface = Interface.V2
    path = "/v2/account/secrets"
    in_pages = False

    async def create(self, name: str, value: str, description: str | None) -> Secret:
        body = _said(name=name, value=value, description=description)
        return await self._rest.post(f"secrets create {name}", self.path, body, _one, hidden=[value])

    async def rotate(self, secret_id: str, value: str | None, description: str | None) -> Secret:
        body, hidden = _said(value=value, description=description), [value] if value else ()
        return await self._rest.patch(
            f"secrets rotate {secret_id}", f"{self.path}/{secret_id}", body, _one, hidden=hidden
        )

    async def delete(self, secret_id: str) -> None:
        await self._rest.delete(f"secrets delete {secret_id:.80}", f"{self.path}/{checked_id(secret_id, 'secret')}")

    async def list(self, limit: int | None) -> tuple[Secret, ...]:
        return tuple(await self._all("secrets list", "secrets", _one, limit))


class SecretsGraphQL(ByGraphQL):
    """By GraphQL: `secretCreate` and `secretDelete` (contract), the other operations as observed."""

    async def create(self, name: str, value: str, description: str | None) -> Secret:
        wanted = _said(name=name, value=value, description=description)
        return await self._graphql.change(
            f"secrets create {name}", "secretCreate", wanted, _FIELDS, _one, hidden=[value]
        )

    async def rotate(self, secret_id: str, value: str | None, description: str | None) -> Secret:
        change = partial(self._graphql.change, f"secrets rotate {secret_id}", fields=_FIELDS, read=_one)
        secret: Secret | None = None
        if value is not None:
            secret = await change("secretValueUpdate", {"id": secret_id, "value": value}, hidden=[value])
        if description is not None:
            secret = await change("secretDescriptionUpdate", {"id": secret_id, "description": description})
        assert secret is not None, "one of them was given"
        return secret

    async def delete(self, secret_id: str) -> None:
        query = f"mutation {{ secretDelete(id: {literal(secret_id)}) }}"
        await self._graphql.ask(f"secrets delete {secret_id:.80}", query, read_members)

    async def list(self, limit: int | None) -> tuple[Secret, ...]:
        query = f"query {{ myself {{ secrets {{ {_FIELDS} }} }} }}"
        return (await self._graphql.ask("secrets list", query, _all))[:limit]


def _said(**members: str | None) -> dict[str, str]:
    return {name: value for name, value in members.items() if value is not None}
