"""Posts a webhook over a connection of its own, as the service does from its side.

Nothing but a socket: this package takes no part of the program's HTTP client, whose reading of HTTP it is there to
check. Redirects are not followed, and an answer's body is not read.
"""

from collections.abc import Mapping
from urllib.parse import quote, urlsplit

import anyio
from anyio.abc import ByteStream

HEAD_BYTES_MAX = 64 * 1024
"""The longest head of an answer that is read."""

PORTS: Mapping[str, int] = {"http": 80, "https": 443}

_SAFE = "/%:@!$&'()*+,;=?-._~"
"""What may stand in a path and a query as it is."""

_INTERIM = range(100, 200)


async def post(url: str, body: bytes, headers: Mapping[str, str]) -> int:
    """POSTs `body` to an http or https URL; the status of the answer.

    Raises ValueError for a URL that cannot be used and for an answer that is not HTTP, OSError and AnyIO's errors for
    a connection that fails. Waits as long as it takes.
    """
    target = urlsplit(url)
    if target.hostname is None or target.scheme not in PORTS:
        raise ValueError("not an http or https URL with a host")
    port = target.port or PORTS[target.scheme]
    name = f"[{target.hostname}]" if ":" in target.hostname else target.hostname
    path = quote(target.path or "/", safe=_SAFE) + (f"?{quote(target.query, safe=_SAFE)}" if target.query else "")
    lines = [f"POST {path} HTTP/1.1", f"Host: {name}:{port}", f"Content-Length: {len(body)}", "Connection: close"]
    lines += [f"{key}: {value}" for key, value in headers.items()]
    head = "\r\n".join([*lines, "", ""]).encode("ascii")
    async with await _connect(target.hostname, port, tls=target.scheme == "https") as stream:
        await stream.send(head + body)
        return await _status(stream)


async def _connect(host: str, port: int, *, tls: bool) -> ByteStream:
    if tls:
        return await anyio.connect_tcp(host, port, tls=True, tls_standard_compatible=False)
    return await anyio.connect_tcp(host, port)


async def _status(stream: ByteStream) -> int:
    received = b""
    while True:
        head, end, rest = received.partition(b"\r\n\r\n")
        if end:
            version, _, text = head.partition(b" ")
            if not version.startswith(b"HTTP/1.") or not text[:3].isdigit():
                raise ValueError("the answer is not HTTP/1")
            if int(text[:3]) not in _INTERIM:
                return int(text[:3])
            received = rest
        elif len(received) > HEAD_BYTES_MAX:
            raise ValueError(f"the head of the answer is longer than {HEAD_BYTES_MAX} bytes")
        else:
            received += await stream.receive()
