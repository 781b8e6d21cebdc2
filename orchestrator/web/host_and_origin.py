"""What a request must be to be looked at: for us by its `Host` (DNS rebinding), and, where it changes anything, from a
page of ours (CSRF).

A page of somebody else's can have a browser send anything to us, and, once its name leads to our address (DNS
rebinding), read the answers, too. Its host's name is then what it cannot hide; and of what it has sent elsewhere the
browser tells from which site.
"""

import ipaddress
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from orchestrator.core.service.addresses import is_loopback

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""Those that change nothing."""

_LOCAL: Final = "localhost"


def is_our_host(host: str, own: str | None) -> bool:
    """Whether a `Host` can only be ours: a number, `localhost`, or that of the origin `own`."""
    name = _name_in(host)
    if name is None:
        return False
    if name == _LOCAL or (own is not None and name == urlsplit(own).hostname):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_trusted(host: str, own: str | None) -> bool:
    """Whether browsers trust what they are shown under that `Host`: by HTTPS, or of their own machine."""
    name = _name_in(host)
    if own is not None and name == urlsplit(own).hostname:
        return own.startswith("https:")
    return name is not None and is_loopback(name)


def is_from_our_page(headers: Mapping[str, str], own: str | None) -> bool:
    """Whether a request that changes something was sent by a page of ours.

    Browsers say so themselves on HTTPS and on this machine; where they do not, the origin that they name is that which
    was asked, or `own`. Who names neither is no browser that was shown a form of ours.
    """
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = headers.get("origin", "").lower()
    host = headers.get("host", "").lower()
    return origin in {f"http://{host}", f"https://{host}"} or (own is not None and origin == own)


def _name_in(host: str) -> str | None:
    """The name, without port; None where it is none."""
    try:
        parts = urlsplit(f"//{host}")
        name = (parts.hostname or "").removesuffix(".")
        _ = parts.port
    except ValueError:
        return None
    return None if "@" in host or not name else name
