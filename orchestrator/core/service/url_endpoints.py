"""Endpoints that are a URL: servers that answer a request with its result, and that have no queue.

Such an endpoint is at no service of an account, so the ledger has it at a place of its own, and its URL in the place of
an id.
"""

import re
from typing import Final
from urllib.parse import SplitResult, urlsplit

from orchestrator.core.service.addresses import is_loopback

BY_URL: Final = "url:"
"""What stands for the service's URL where an endpoint is a URL itself."""

PODS: Final = "pods:"
"""What an endpoint begins with that is pods which work for a run; each has a URL of its own, and is one of a pool."""

URL_CHARS_MAX: Final = 512

_BEGINNING: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_HOST: Final = re.compile(r"[A-Za-z0-9_.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]")
_PATH: Final = re.compile(r"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._~:@%-]{1,256})*")
_USUAL_PORTS: Final = {"http": 80, "https": 443}
_OPENAI_VERSION: Final = "/v1"


def looks_like_url(text: str) -> bool:
    """Whether `text` is meant as a URL, a wrong one perhaps."""
    return _BEGINNING.match(text) is not None


def is_url(endpoint: str) -> bool:
    """Whether `endpoint`, as the ledger has it, is a URL and no id, or pods, of which each has one."""
    return endpoint.startswith(("http://", "https://", PODS))


def is_pods(endpoint: str) -> bool:
    """Whether `endpoint` is the place where jobs wait for pods: nothing is ever sent there."""
    return endpoint.startswith(PODS)


def url_endpoint(text: str) -> str:
    """The URL of an endpoint, always written the same way. Raises `ValueError`, which quotes nothing that may be a
    secret.
    """
    parts, port = _parts(text)
    if parts is None or parts.scheme not in _USUAL_PORTS or len(text) > URL_CHARS_MAX:
        raise ValueError("this is no URL of an endpoint; write https://HOST/PATH or http://HOST:PORT/PATH")
    if "@" in parts.netloc:
        raise ValueError(
            "the URL of an endpoint has no user and no password; give it headers in the configuration file"
        )
    if "?" in text or "#" in text:
        raise ValueError("the URL of an endpoint has no query (?) and no fragment (#); leave them out")
    host, _, _ = parts.netloc.rpartition(":") if _has_port(parts.netloc) else (parts.netloc, "", "")
    path = parts.path.rstrip("/")
    if not _HOST.fullmatch(host) or not _PATH.fullmatch(path):
        raise ValueError("this host or path cannot be an endpoint's; a path has letters, digits and . _ ~ : @ - %")
    is_usual = port in (None, _USUAL_PORTS[parts.scheme])
    return f"{parts.scheme}://{host.lower()}{'' if is_usual else f':{port}'}{path}"


def _parts(text: str) -> tuple[SplitResult | None, int | None]:
    """The parts of a URL, and its port; None where it is none: urlsplit alone lets spaces and line breaks pass."""
    if not text.isascii() or not text.isprintable() or " " in text:
        return None, None
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return None, None
    return (parts, port) if parts.hostname else (None, None)


def _has_port(netloc: str) -> bool:
    return ":" in netloc.rpartition("]")[2]


def root_of(url: str) -> str:
    """Where a server tells how it is: `url` without the version that the paths of OpenAI's interface begin with."""
    return url.removesuffix(_OPENAI_VERSION)


def openai_url(url: str, route: str) -> str:
    """Where a request of OpenAI's interface goes, as `/v1/chat/completions`, at the server that is at `url`: with or
    without the version at its end.
    """
    return f"{root_of(url) if route.startswith(f'{_OPENAI_VERSION}/') else url}{route}"


def belongs_to_service(url: str, service_url: str) -> bool:
    """Whether what is at `url` belongs to the service at `service_url`: the same host or one below its name, by the
    same scheme and port. Nobody else gets to see its API key.
    """
    its, given = urlsplit(service_url), urlsplit(url)
    if (given.scheme, _port(given)) != (its.scheme, _port(its)) or not given.hostname or not its.hostname:
        return False
    host, of = given.hostname.rstrip("."), its.hostname.rstrip(".")
    if host == of:
        return True
    return not is_loopback(of) and not _is_number(of) and "." in of and host.endswith(f".{of}")


def _port(parts: SplitResult) -> int | None:
    return parts.port or _USUAL_PORTS.get(parts.scheme)


def _is_number(host: str) -> bool:
    return ":" in host or host.rpartition(".")[2].isdecimal()
