"""Secrets: values that templates name as `{{ RUNPOD_SECRET_name }}` and that nobody ever reads back.

A value is sent once, when it is created or rotated, and is in no record, message or `repr` here (contract, Secret:
input only). REST v2 and GraphQL know secrets; v1 does not.
"""

import re
from typing import Any, Final, Protocol

import msgspec

from orchestrator.account.transport.fallback import InterfaceClient, InterfaceFallback
from orchestrator.account.transport.graphql import ByGraphQL, Value, literal, read_nothing
from orchestrator.account.transport.rest import ByRest, decode_answer, encode_body
from orchestrator.client.jobs.serverless import checked_id
from orchestrator.core.service.account_interfaces import Interface
from orchestrator.errors import UsageError
from orchestrator.units import MIB

VALUE_BYTES_MAX: Final = 16 * MIB
"""A value must be smaller than this (REST v2)."""

DESCRIPTION_BYTES_MAX: Final = 65_535

_NAME: Final = re.compile(r"(?!(?i:RUNPOD))[a-zA-Z_][a-zA-Z0-9_.\-/]{0,190}")
"""The rule of REST v2; the contract has none. What fits can stand in `{{ RUNPOD_SECRET_name }}`."""

_FIELDS: Final = "id name description"
_PATH: Final = "/v2/account/secrets"


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


class SecretsV2(ByRest):
    """By REST v2, `/v2/account/secrets` (as observed)."""

    interface = Interface.V2
    path = _PATH
    in_pages = False

    async def create(self, name: str, value: str, description: str | None) -> Secret:
        doing = f"secrets create {name}"
        body = _body(name=name, value=value, description=description)
        answer = await self._rest.post(doing, _PATH, body, hidden=[value])
        return decode_answer(doing, answer, _one, changed=True)

    async def rotate(self, secret_id: str, value: str | None, description: str | None) -> Secret:
        doing = f"secrets rotate {secret_id}"
        body = _body(value=value, description=description)
        answer = await self._rest.patch(doing, f"{_PATH}/{secret_id}", body, hidden=[value] if value else ())
        return decode_answer(doing, answer, _one, changed=True)

    async def delete(self, secret_id: str) -> None:
        await self._rest.delete(f"secrets delete {secret_id:.80}", f"{_PATH}/{checked_id(secret_id, 'secret')}")

    async def list(self, limit: int | None) -> tuple[Secret, ...]:
        doing = "secrets list"
        return tuple(
            await self._rest.all(
                doing, _PATH, "secrets", msgspec.json.Decoder(Secret).decode, limit=limit, in_pages=False
            )
        )


def _body(**members: str | None) -> bytes:
    return encode_body({name: value for name, value in members.items() if value is not None})


class _Created(msgspec.Struct, frozen=True):
    secret: Secret = msgspec.field(name="secretCreate")


class _ValueUpdated(msgspec.Struct, frozen=True):
    secret: Secret = msgspec.field(name="secretValueUpdate")


class _DescriptionUpdated(msgspec.Struct, frozen=True):
    secret: Secret = msgspec.field(name="secretDescriptionUpdate")


class _Listed(msgspec.Struct, frozen=True):
    secrets: tuple[Secret, ...]


class _Myself(msgspec.Struct, frozen=True):
    myself: _Listed


_created: Final = msgspec.json.Decoder(_Created).decode
_value_updated: Final = msgspec.json.Decoder(_ValueUpdated).decode
_description_updated: Final = msgspec.json.Decoder(_DescriptionUpdated).decode
_myself: Final = msgspec.json.Decoder(_Myself).decode


class SecretsGraphQL(ByGraphQL):
    """By GraphQL: `secretCreate` and `secretDelete` (contract), the other operations as observed."""

    async def create(self, name: str, value: str, description: str | None) -> Secret:
        wanted: dict[str, Value] = {"name": name, "value": value}
        if description is not None:
            wanted["description"] = description
        query = f"mutation {{ secretCreate(input: {literal(wanted)}) {{ {_FIELDS} }} }}"
        return (await self._graphql.ask(f"secrets create {name}", query, _created, hidden=[value])).secret

    async def rotate(self, secret_id: str, value: str | None, description: str | None) -> Secret:
        doing = f"secrets rotate {secret_id}"
        secret: Secret | None = None
        if value is not None:
            query = _update("secretValueUpdate", id=secret_id, value=value)
            secret = (await self._graphql.ask(doing, query, _value_updated, hidden=[value])).secret
        if description is not None:
            query = _update("secretDescriptionUpdate", id=secret_id, description=description)
            secret = (await self._graphql.ask(doing, query, _description_updated)).secret
        assert secret is not None, "one of them was given"
        return secret

    async def delete(self, secret_id: str) -> None:
        query = f"mutation {{ secretDelete(id: {literal(secret_id)}) }}"
        await self._graphql.ask(f"secrets delete {secret_id:.80}", query, read_nothing)

    async def list(self, limit: int | None) -> tuple[Secret, ...]:
        query = f"query {{ myself {{ secrets {{ {_FIELDS} }} }} }}"
        return (await self._graphql.ask("secrets list", query, _myself)).myself.secrets[:limit]


def _update(mutation: str, **wanted: Any) -> str:
    return f"mutation {{ {mutation}(input: {literal(wanted)}) {{ {_FIELDS} }} }}"
