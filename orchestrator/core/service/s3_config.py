"""The object-storage settings of a row (contract, s3Config), with references in place of secrets.

`accessId` and `accessSecret` must name environment variables (`env:NAME`); only the references are stored, and the
values are looked up when a job is sent. No text here ever shows a value, since it may be a secret in the wrong place.
"""

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

REFERENCE: Final = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]*)")


class S3Config(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Settings that the service passes on to the worker. None means that the row does not say."""

    access_id: str | None = None
    access_secret: str | None = None
    bucket_name: str | None = None
    endpoint_url: str | None = None

    def __repr__(self) -> str:
        """Without what may be a secret's value: only a reference is shown."""
        shown = (_reference(value) for value in (self.access_id, self.access_secret))
        return f"S3Config({', '.join(shown)}, {self.bucket_name!r}, {self.endpoint_url!r})"


_KEYS: Final = tuple(field.encode_name for field in msgspec.structs.fields(S3Config))
_SECRETS: Final = ("accessId", "accessSecret")

_members: Final = msgspec.json.Decoder(dict[str, object])


def decode_s3_config(raw: bytes) -> S3Config:
    """The settings that the JSON text `raw` holds, references unresolved.

    Raises ValueError with everything that is wrong with them, in words for the author of the text.
    """
    try:
        members = _members.decode(raw)
    except ValueError:
        raise ValueError(f"s3Config must be an object with the keys {', '.join(_KEYS)}") from None
    problems = [_unknown(key) for key in members if key not in _KEYS]
    for key in _KEYS:
        value = members.get(key)
        if not isinstance(value, str | None):
            problems.append(f"s3Config.{key} must be a string")
        elif key in _SECRETS and value is not None and not REFERENCE.fullmatch(value):
            problems.append(_literal(key))
    if problems:
        raise ValueError("; ".join(problems))
    return msgspec.convert(members, S3Config)


def _unknown(key: str) -> str:
    near = difflib.get_close_matches(key.replace("_", ""), _KEYS, n=1)
    advice = f"did you mean {near[0]}?" if near else f"its keys are {', '.join(_KEYS)}"
    return f'there is no key "{key:.40}" in s3Config; {advice}'


def _reference(value: str | None) -> str:
    return repr(value) if value is None or REFERENCE.fullmatch(value) else "[hidden]"


def _literal(key: str) -> str:
    name = "S3_ACCESS_ID" if key == "accessId" else "S3_ACCESS_SECRET"
    return (
        f"s3Config.{key} must name an environment variable, so that the secret itself is stored nowhere: "
        f'set {name} and write "env:{name}"'
    )


class UnusableVariables(ValueError):
    """Environment variables to which an s3Config refers, and which a row cannot have."""

    def __init__(self, told: str, names: Sequence[str]) -> None:
        super().__init__(told)
        self.names = tuple(names)

    @property
    def with_advice(self) -> str:
        """What is wrong, and what can be done about it."""
        return str(self)


class MissingVariables(UnusableVariables):
    """They are not set."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(f"s3Config refers to {' and '.join(names)}, which the environment does not set", names)


def names_in(config: S3Config) -> list[str]:
    """The variables to which `config` refers."""
    references = [REFERENCE.fullmatch(value) for value in (config.access_id, config.access_secret) if value is not None]
    return list(dict.fromkeys(reference[1] for reference in references if reference))


def resolve_s3_config(config: S3Config, environ: Mapping[str, str]) -> S3Config:
    """`config` with the secrets that its references name, which are set and may be: `RowVariables` sees to both."""
    return msgspec.structs.replace(
        config, access_id=_resolved(config.access_id, environ), access_secret=_resolved(config.access_secret, environ)
    )


def _resolved(value: str | None, environ: Mapping[str, str]) -> str | None:
    return None if value is None else environ[value.removeprefix("env:")]
