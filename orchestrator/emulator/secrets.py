"""Secrets: kept, listed without their values, and put into the environment of what a template starts."""

import random
import re
from collections.abc import Mapping, Sequence

import msgspec

from orchestrator.emulator import ids
from orchestrator.emulator.answers import Refusal

REFERENCE = re.compile(r"\{\{\s*RUNPOD_SECRET_([^\s{}]+)\s*\}\}")
"""How a variable's value refers to a secret (as observed)."""


class Secret(msgspec.Struct, frozen=True, kw_only=True):
    """What is shown of a secret: never its value."""

    id: str
    name: str
    description: str | None


class Secrets:
    """The secrets of the one account there is."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._secrets: dict[str, Secret] = {}
        self._values: dict[str, str] = {}

    def create(self, name: str, value: str, description: str | None) -> Secret:
        """Keeps `value` under `name`. Raises Refusal 400 for a name that is empty or taken."""
        if not name:
            raise Refusal(400, "secret name cannot be empty")
        if name in self._values:
            raise Refusal(400, f"secret name must be unique: {name}")
        secret = Secret(id=ids.resource_id(self._rng), name=name, description=description)
        self._secrets[secret.id] = secret
        self._values[name] = value
        return secret

    def delete(self, secret_id: str) -> None:
        """Forgets a secret and its value. Raises Refusal 404."""
        secret = self._secrets.pop(secret_id, None)
        if secret is None:
            raise Refusal(404, "secret not found")
        del self._values[secret.name]

    def list(self) -> Sequence[Secret]:
        """All of them, oldest first."""
        return tuple(self._secrets.values())

    def resolve(self, environment: Mapping[str, str]) -> dict[str, str]:
        """`environment` with the values of the secrets that it names. A name without a secret stays as written."""
        return {
            key: REFERENCE.sub(lambda found: self._values.get(found[1], found[0]), value)
            for key, value in environment.items()
        }
