"""The headers that requests to an endpoint at a URL carry besides: what is secret in them comes from a variable."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from orchestrator.core.service.s3_config import REFERENCE
from orchestrator.errors import UsageError

AUTHORIZATION: Final = "authorization"

_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
_VALUE: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]{0,4094}[\x21-\x7e])?")
_IN_VALUE: Final = re.compile(rf"(?:([\x21-\x7e]{{1,64}}) )?({REFERENCE.pattern})")
_SECRET: Final = re.compile(r"auth|cookie|key|token|secret|password|credential", re.IGNORECASE)
_OURS: Final = frozenset(
    {
        "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "expect", "host",
        "keep-alive", "te", "trailer", "transfer-encoding", "upgrade",
    }
)  # fmt: skip
"""What follows from the request itself."""


class EndpointHeaders(msgspec.Struct, frozen=True, kw_only=True):
    """The headers of one endpoint, with their values; `repr` shows none of these."""

    values: Mapping[str, str] = {}
    secrets: tuple[str, ...] = ()
    """Which parts of them come from variables."""

    variables: frozenset[str] = frozenset()
    missing: tuple[str, ...] = ()
    """Which of the variables are not set."""

    def __repr__(self) -> str:
        return f"EndpointHeaders({', '.join(self.values)})"

    def check(self, url: str) -> None:
        """Raises `UsageError` where a variable is not set that the headers of `url` need."""
        for name in self.missing:
            raise UsageError(f"the headers of {url} need the variable {name}; set it: export {name}=...")


NO_HEADERS: Final = EndpointHeaders()


def read_headers(given: Mapping[str, object], environ: Mapping[str, str]) -> EndpointHeaders:
    """The headers that were `given` by name, of which a variable that is not set leaves out its own. Raises
    `ValueError`, which quotes no value.
    """
    values: dict[str, str] = {}
    secrets: dict[str, str] = {}
    for name, text in given.items():
        _check_name(name, values)
        scheme, variable = _parts(name, text)
        if variable is None:
            values[name] = _checked(name, str(text))
            continue
        secrets[variable] = secret = environ.get(variable, "").strip()
        if scheme is None and name.lower() == AUTHORIZATION and " " not in secret:
            scheme = "Bearer"  # without any scheme it would be no credentials at all
        if secret:
            values[name] = _checked(name, secret if scheme is None else f"{scheme} {secret}")
    return EndpointHeaders(
        values=values,
        secrets=tuple(filter(None, secrets.values())),
        variables=frozenset(secrets),
        missing=tuple(variable for variable, secret in secrets.items() if not secret),
    )


def _check_name(name: str, before: Iterable[str]) -> None:
    if not _NAME.fullmatch(name):
        raise ValueError(f'"{name:.40}" is no name of a header')
    if name.lower() in _OURS:
        raise ValueError(f"{name} cannot be set: it follows from the request")
    if name.lower() in map(str.lower, before):
        raise ValueError(f"{name} stands there twice")


def _parts(name: str, text: object) -> tuple[str | None, str | None]:
    """What stands before the variable that `text` names, as in `Bearer env:NAME`, and its name, if it names one."""
    referring = _IN_VALUE.fullmatch(text) if isinstance(text, str) else None
    if referring is not None:
        return referring[1], referring[3]
    if not isinstance(text, str) or _SECRET.search(name) or "env:" in text:
        raise ValueError(f"{name}: write env:NAME, where NAME is the variable that holds it; it stands in no file")
    return None, None


def _checked(name: str, value: str) -> str:
    if not _VALUE.fullmatch(value):
        raise ValueError(f"the value of {name} is empty, too long, or has characters that fit in no header")
    return value
