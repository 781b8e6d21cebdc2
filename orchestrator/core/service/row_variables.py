"""Which environment variables the rows of an input may name.

Rows are data: whoever writes them must not choose what of the environment is sent away. So a row gets the variables
that a person has allowed it, by name or by pattern, and never one that holds a key of ours, whatever is allowed.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

import msgspec

from orchestrator.core.service.s3_config import (
    MissingVariables,
    S3Config,
    UnusableVariables,
    names_in,
    resolve_s3_config,
)

_PATTERN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\*?")
EVERYTHING: Final = "*"
"""The pattern of every name, which no setting has."""

_OURS: Final = ("ORCHESTRATOR_", "RUNPOD_API_KEY")
"""How the names of variables begin that are ours."""


def parse_allowed(text: str) -> str:
    """A name, or how names begin, as in `S3_*`. Raises `ValueError`."""
    if not _PATTERN.fullmatch(text):
        raise ValueError(f'"{text:.80}" names no variables; write a name, or how names begin, as in S3_*')
    if text.startswith(_OURS):
        raise ValueError(f"{text} would be a key of this program's own, which no row may have")
    return text


class OwnKeys(msgspec.Struct, frozen=True, kw_only=True):
    """What must not leave for a row."""

    names: frozenset[str] = frozenset()
    """The variables in which they are, beside those of the program's own names."""

    values: frozenset[str] = frozenset()
    """The keys themselves: the same key may be in another variable, too."""

    def __repr__(self) -> str:
        return f"OwnKeys({sorted(self.names)})"

    def has(self, name: str, value: str) -> bool:
        """Whether the variable `name`, which is set to `value`, holds one of them."""
        return name.upper().startswith(_OURS) or name in self.names or (value != "" and value in self.values)


NO_KEYS: Final = OwnKeys()


class RefusedVariables(UnusableVariables):
    """Variables are named that rows may not have. `are_ours`: whatever a person allows."""

    def __init__(self, names: Sequence[str], *, are_ours: bool) -> None:
        named = " and ".join(names)
        why = "a key of this program's own, which no row may have" if are_ours else "which no row may have unasked"
        super().__init__(f"s3Config refers to {named}, {why}", names)
        self.are_ours = are_ours

    @property
    def with_advice(self) -> str:
        if self.are_ours:
            return f"{self}; name another variable in the row"
        allowed = " ".join(f"<setting allow-env={shlex.quote(name)}>" for name in self.names)
        return f"{self}; if that is meant, add {allowed}"


class RowVariables:
    """The environment as rows have it: what is `allowed`, by name or by pattern, and is none of our `keys`."""

    def __init__(self, environ: Mapping[str, str], allowed: Sequence[str] = (), keys: OwnKeys = NO_KEYS) -> None:
        self._environ = environ
        self._allowed = tuple(allowed)
        self._keys = keys

    def __repr__(self) -> str:
        return f"RowVariables({self._allowed}, {self._keys})"

    def resolve(self, config: S3Config) -> S3Config:
        """`config` with the values that its references name. Raises `RefusedVariables` and `MissingVariables`."""
        names = names_in(config)
        if ours := [name for name in names if self._keys.has(name, self._environ.get(name, ""))]:
            raise RefusedVariables(ours, are_ours=True)
        if others := [name for name in names if not self._allows(name)]:
            raise RefusedVariables(others, are_ours=False)
        if missing := [name for name in names if not self._environ.get(name)]:
            raise MissingVariables(missing)
        return resolve_s3_config(config, self._environ)

    def has(self, name: str) -> bool:
        """Whether a row that named it would get a value."""
        value = self._environ.get(name, "")
        return value != "" and self._allows(name) and not self._keys.has(name, value)

    def _allows(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self._allowed)


NO_VARIABLES: Final = RowVariables({})
"""What rows have whom nobody has allowed any."""
