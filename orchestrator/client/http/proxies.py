"""What the environment says of a proxy, read once; whoever shows it shows its `name`, never its credentials."""

import re
from typing import Final

import msgspec
from yarl import URL

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_USABLE: Final = frozenset({"http", "https"})
_HELP: Final = (
    "set HTTPS_PROXY (HTTP_PROXY for an http:// service) to http://HOST:PORT, or name the service in NO_PROXY"
)


class Proxy(msgspec.Struct, frozen=True, kw_only=True):
    """A proxy, or why it cannot be used."""

    url: str = ""
    """With its credentials, if it has any."""

    name: str = ""
    """Host and port, to be shown."""

    fault: str | None = None
    """What is wrong with it and what to do; nothing can be sent through it then."""

    def __repr__(self) -> str:
        return f"Proxy({self.name})"


def proxy_of(text: str) -> Proxy:
    """The proxy that `text` names; without a scheme it is `http://`, as for every other program.

    Of a text that cannot be read nothing is shown: any part of it may be a password.
    """
    text = text.strip()
    scheme = _SCHEME.match(text)
    if scheme is not None and scheme[1].lower() not in _USABLE:
        kind = scheme[1].lower()
        return Proxy(fault=f"the environment names a proxy of the kind {kind}://, which cannot be used here: {_HELP}")
    address = text if scheme is not None else f"http://{text}"
    try:
        url = URL(address)
        name = f"{url.host_subcomponent}:{url.port}"
    except ValueError:
        url, name = URL(), ""
    if not url.host or url.path not in ("", "/") or url.query_string or url.fragment:
        return Proxy(fault=f"the proxy that the environment names cannot be read: {_HELP}")
    return Proxy(url=address, name=name)
