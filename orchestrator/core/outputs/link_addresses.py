"""From which addresses links of outputs are fetched: whoever writes an output must not reach into our network."""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

_NAT64: Final = IPv6Network("64:ff9b::/96")
_SIX_TO_FOUR: Final = IPv6Network("2002::/16")
_LOCAL_NAT64: Final = IPv6Network("64:ff9b:1::/48")
"""Of these two one Python says that they are public, and the next that they are not."""


def may_be_fetched_from(address: str, networks: Sequence[str]) -> bool:
    """Whether `address`, of a connection about to be made, is public, or in one of `networks`."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    meant = _inside(found)
    return (_is_public(found) and _is_public(meant)) or any(meant in ip_network(each) for each in networks)


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    is_global = (address.is_global or address in _SIX_TO_FOUR) and address not in _LOCAL_NAT64
    return is_global and not address.is_multicast


def _inside(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The IPv4 address that one of IPv6 leads to, where it does."""
    if isinstance(address, IPv4Address):
        return address
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    teredo = address.teredo
    return address.ipv4_mapped or address.sixtofour or (teredo[1] if teredo else None) or address
