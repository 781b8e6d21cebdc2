"""Which hosts are this machine: the one rule for everybody who asks (keys over plain HTTP, listeners, proxies)."""

import ipaddress
from typing import Final
from urllib.parse import urlsplit

LOCALHOST: Final = "localhost"


def is_loopback(host: str) -> bool:
    """Whether `host`, a name or an address without brackets, can only be this machine.

    That is an address of 127.0.0.0/8 or ::1, and `localhost` with every name below it (RFC 6761). A name that merely
    begins like such an address (`127.evil.example`) is anybody's.
    """
    name = host.lower().removesuffix(".")
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return name == LOCALHOST or name.endswith(f".{LOCALHOST}")
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def leads_to_loopback(url: str) -> bool:
    """The same for the host of `url`."""
    return is_loopback(urlsplit(url).hostname or "")
