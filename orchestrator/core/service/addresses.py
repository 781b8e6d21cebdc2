"""Where the listener listens, under which URL the service reaches it, and where the service is: what people write.

Nothing listens publicly unless its user says so: a missing host means 127.0.0.1.
"""

import ipaddress
import re
from typing import Final, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from orchestrator.errors import UsageError

LOCALHOST: Final = "127.0.0.1"
PORT_MAX: Final = 65_535

_LOCAL_NAME: Final = "localhost"
_ADDRESS: Final = re.compile(r"(?:\[(?P<bracketed>[^\[\]\s]+)\]|(?P<host>[^\[\]:/\s]*)):(?P<port>[0-9]{1,5})")


class Address(NamedTuple):
    """A host (name or number, IPv6 without brackets) and a port; port 0 means any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_address(text: str) -> Address:
    """The address in `text`: `127.0.0.1:8080`, `:8080` (on 127.0.0.1), `[::1]:0`; raises UsageError."""
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match["port"]) > PORT_MAX:
        raise UsageError(f"{text!r} is no address to listen on; write HOST:PORT, :PORT or [IPv6]:PORT")
    return Address(match["bracketed"] or match["host"] or LOCALHOST, int(match["port"]))


def webhook_base_url(url: str) -> str:
    """`url`, checked, without a slash at its end: what the service is told to put before `/hooks/...`.

    Raises UsageError for what cannot serve as the base of a webhook URL. A password in it is refused, since the URL is
    sent with every job and stored by the service.
    """
    parts = _split(url)
    problem = None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        problem = "write http://HOST[:PORT][/PREFIX] or https://..."
    elif "@" in parts.netloc:
        problem = "it must not hold a user name or password"
    elif "?" in url or "#" in url:
        problem = "it must not hold a query (?) or a fragment (#)"
    if problem:
        # Not the URL itself: what was given may hold a password.
        raise UsageError(f"the webhook URL cannot be used: {problem}")
    return url.rstrip("/")


def interface_url(text: str, *, added: str) -> str:
    """A URL of the service without a slash at its end; `added` is what the client adds. Raises `ValueError`."""
    parts = _split(text)
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("this is no URL; write https://HOST or http://HOST:PORT")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError(
            "the URL must not hold a password, a query (?) or a fragment (#); the API key comes from the environment"
        )
    if added and parts.path.rstrip("/").endswith(added):
        raise ValueError(f"leave {added} out of the URL; it is added")
    return text.rstrip("/")


def _split(url: str) -> SplitResult | None:
    """The parts of `url`, or None where it is none: urlsplit alone takes line breaks away and lets spaces pass."""
    if not url.isascii() or not url.isprintable() or " " in url:
        return None
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises where the port is no number or too large
    except ValueError:
        return None
    return parts


def path_prefix(base: str) -> str:
    """The path of a `base` that `webhook_base_url` returned, as ASGI gives paths (decoded): "" or `/...`."""
    return unquote(urlsplit(base).path)


# --- this machine: the one rule for everybody who asks (keys over plain HTTP, listeners, proxies)


def is_loopback(host: str) -> bool:
    """Whether `host`, a name or an address without brackets, can only be this machine.

    That is an address of 127.0.0.0/8 or ::1, and `localhost` with every name below it (RFC 6761). A name that merely
    begins like such an address (`127.evil.example`) is anybody's.
    """
    name = host.lower().removesuffix(".")
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return name == _LOCAL_NAME or name.endswith(f".{_LOCAL_NAME}")
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def leads_to_loopback(url: str) -> bool:
    """The same for the host of `url`."""
    return is_loopback(urlsplit(url).hostname or "")
