"""Secrets: kept, listed without their values, and put into the environment of what a template starts."""

import random
import re
from collections.abc import Mapping, Sequence

import msgspec

from orchestrator.emulator.contract.answers import ServiceRefusal
from orchestrator.emulator.contract.ids_and_times import iso_time, resource_id

REFERENCE = re.compile(r"\{\{\s*RUNPOD_SECRET_([^\s{}]+)\s*\}\}")
"""How a variable's value refers to a secret (as observed)."""


class ServiceSecret(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is shown of a secret: never its value."""

    id: str
    name: str
    description: str | None
    created_at: str
    value_last_updated_at: str | None = None
    """None: it still has its first value."""
    updated_at: str


class SecretStore:
    """The secrets of the one account there is."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._secrets: dict[str, ServiceSecret] = {}
        self._values: dict[str, str] = {}

    def create(self, name: str, value: str, description: str | None, now: int) -> ServiceSecret:
        """Keeps `value` under `name`. Raises Refusal: 400 for a name that is empty, 409 for one that is taken."""
        if not name:
            raise ServiceRefusal(400, "secret name cannot be empty")
        if name in self._values:
            raise ServiceRefusal(409, f"secret name must be unique: {name}")
        at = iso_time(now)
        secret = ServiceSecret(
            id=resource_id(self._rng), name=name, description=description, created_at=at, updated_at=at
        )
        self._secrets[secret.id] = secret
        self._values[name] = value
        return secret

    def find(self, secret_id: str) -> ServiceSecret:
        """Raises Refusal 404."""
        secret = self._secrets.get(secret_id)
        if secret is None:
            raise ServiceRefusal(404, "secret not found")
        return secret

    def rotate(self, secret_id: str, value: str, now: int) -> ServiceSecret:
        """Puts another value in the place of the one there is; who has it goes on with it. Raises Refusal 404."""
        at = iso_time(now)
        secret = msgspec.structs.replace(self.find(secret_id), value_last_updated_at=at, updated_at=at)
        self._secrets[secret_id] = secret
        self._values[secret.name] = value
        return secret

    def describe(self, secret_id: str, description: str, now: int) -> ServiceSecret:
        """Changes what the secret is for; "" leaves it without. Raises Refusal 404."""
        secret = self.find(secret_id)
        secret = msgspec.structs.replace(secret, description=description or None, updated_at=iso_time(now))
        self._secrets[secret_id] = secret
        return secret

    def delete(self, secret_id: str) -> None:
        """Forgets a secret and its value. Raises Refusal 404."""
        secret = self.find(secret_id)
        del self._secrets[secret_id]
        del self._values[secret.name]

    def list(self) -> Sequence[ServiceSecret]:
        """All of them, oldest first."""
        return tuple(self._secrets.values())

    def resolve(self, environment: Mapping[str, str]) -> dict[str, str]:
        """`environment` with the values of the secrets that it names. A name without a secret stays as written."""
        return {
            key: REFERENCE.sub(lambda found: self._values.get(found[1], found[0]), value)
            for key, value in environment.items()
        }
