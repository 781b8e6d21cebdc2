"""Secrets: values that templates name as `{{ RUNPOD_SECRET_name }}` and that nobody ever reads back.

A value is sent once, in `secretCreate`, and is in no record, message or `repr` here (contract, Secret: input only).
"""

import re
from typing import Final

import msgspec

from orchestrator.account.graphql import GraphQL, Value, literal, read_nothing
from orchestrator.errors import UsageError

_NAME: Final = re.compile(r"[^\s{}]{1,191}")
"""What can stand in `{{ RUNPOD_SECRET_name }}`. The contract names no bounds."""

_FIELDS: Final = "id name description"


class Secret(msgspec.Struct, frozen=True, kw_only=True):
    """A secret as the service shows it. `description` is None when unset."""

    id: str
    name: str
    description: str | None = None


class _Created(msgspec.Struct, frozen=True):
    secret: Secret = msgspec.field(name="secretCreate")


class _Listed(msgspec.Struct, frozen=True):
    secrets: tuple[Secret, ...]


class _Myself(msgspec.Struct, frozen=True):
    myself: _Listed


_created: Final = msgspec.json.Decoder(_Created).decode
_myself: Final = msgspec.json.Decoder(_Myself).decode


class Secrets:
    """The account's secrets. All calls raise what `GraphQL.ask` does."""

    def __init__(self, graphql: GraphQL) -> None:
        self._graphql = graphql

    async def create(self, name: str, value: str, *, description: str | None = None) -> Secret:
        """Stores `value` under `name`. Raises `UsageError` for a name that no template could refer to, or no value."""
        if _NAME.fullmatch(name) is None:
            raise UsageError(f"{name!r} is no secret name: 1 to 191 characters, no blanks and no braces")
        if not value:
            raise UsageError(f"the value of secret {name} is empty")
        wanted: dict[str, Value] = {"name": name, "value": value}
        if description is not None:
            wanted["description"] = description
        query = f"mutation {{ secretCreate(input: {literal(wanted)}) {{ {_FIELDS} }} }}"
        return (await self._graphql.ask(f"secrets create {name}", query, _created, hidden=[value])).secret

    async def delete(self, secret_id: str) -> None:
        """Deletes by id (contract, `secretDelete`). Templates that name the secret are not changed."""
        if not secret_id:
            raise UsageError("a secret is deleted by its id; none was given")
        query = f"mutation {{ secretDelete(id: {literal(secret_id)}) }}"
        await self._graphql.ask(f"secrets delete {secret_id:.80}", query, read_nothing)

    async def list(self) -> tuple[Secret, ...]:
        """All secrets, in the service's order. The contract shows no such operation; this is the public one."""
        query = f"query {{ myself {{ secrets {{ {_FIELDS} }} }} }}"
        return (await self._graphql.ask("secrets list", query, _myself)).myself.secrets
