"""What a link in an output leads to: fetched once, without our key, and only from where it may.

Whoever wrote the output chose the link, and must not reach into our network by it. So the address is looked at of each
connection as it is made: whatever a name is resolved to, now or after a redirect, that one is checked and connected to.
No proxy is used, since it would look names up itself. A page of HTML in the place of a file is refused. Errors name no
more of a link than its host: its path may be a secret.
"""

import os
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Sequence
from socket import socket
from typing import Any, Final, Protocol

import aiohttp
from yarl import URL

from orchestrator import __version__
from orchestrator.client.http.backends import READ_BYTES, tls
from orchestrator.client.http.unpacking import decompressed
from orchestrator.core.outputs.link_addresses import may_be_fetched_from
from orchestrator.core.outputs.linked_pages import HEAD_BYTES, is_page
from orchestrator.errors import Unanswered, bare

REDIRECTS_MAX: Final = 5
CONNECT_S_MAX: Final = 10.0
SILENCE_S_MAX: Final = 30.0
WHOLE_S_MAX: Final = 600.0
"""So long a file may take in all."""

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_OK: Final = 200


class FetchLink(Protocol):
    """Fetches what a link leads to: `fetched_link`."""

    def __call__(
        self, url: str, /, *, networks: Sequence[str], bytes_max: int, pages: bool
    ) -> AsyncGenerator[bytes, None]:
        """Its pieces."""
        ...


async def fetched_link(
    url: str, /, *, networks: Sequence[str], bytes_max: int, pages: bool
) -> AsyncGenerator[bytes, None]:
    """The pieces of what `url` leads to, of no more than `bytes_max` bytes, from public addresses or `networks`; a page
    of HTML only where `pages` are meant.

    Raises `Unanswered` where it cannot be had, and why.
    """
    refused: list[str] = []

    def make_socket(info: tuple[Any, Any, int, str, Any]) -> socket:
        family, kind, protocol, _, address = info
        if not may_be_fetched_from(str(address[0]), networks):
            refused.append(str(address[0]))
            raise PermissionError
        return socket(family=family, type=kind, proto=protocol)

    connector = aiohttp.TCPConnector(force_close=True, use_dns_cache=False, socket_factory=make_socket)
    timeout = aiohttp.ClientTimeout(total=WHOLE_S_MAX, connect=CONNECT_S_MAX, sock_read=SILENCE_S_MAX)
    session = aiohttp.ClientSession(
        connector=connector,
        timeout=timeout,
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        read_bufsize=READ_BYTES,
        trust_env=False,
        headers={"User-Agent": f"orchestrator/{__version__}", "Accept": "*/*", "Accept-Encoding": "identity"},
    )
    failure: Unanswered
    async with session:
        try:
            async with await _answer(session, url) as response:
                left = bytes_max
                whole = decompressed(response.content.iter_any(), response.headers)
                async for piece in whole if pages else _no_page(whole, response):
                    left -= len(piece)
                    if left < 0:
                        break
                    yield piece
                else:
                    return
            failure = Unanswered(f"it is larger than {bytes_max:,} bytes")
        except Unanswered as error:
            failure = bare(error)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            failure = Unanswered(_reason(error, refused))
            bare(error)
    try:
        raise failure
    finally:
        del failure


async def _answer(session: aiohttp.ClientSession, url: str) -> aiohttp.ClientResponse:
    """The answer that has the file, after redirects."""
    at = URL(url, encoded=True)
    for _ in range(REDIRECTS_MAX + 1):
        if at.scheme not in ("http", "https") or not at.host:
            raise Unanswered("it leads to something that is no http:// or https:// link")
        response = await session.get(at, allow_redirects=False, ssl=tls() if at.scheme == "https" else True)
        location = response.headers.get("Location")
        if response.status == _OK:
            return response
        response.close()
        if response.status not in _REDIRECTS or location is None:
            raise Unanswered(f"{at.host} answered {response.status}")
        at = at.join(URL(location, encoded=True))
    raise Unanswered(f"it was redirected more than {REDIRECTS_MAX} times")


async def _no_page(pieces: AsyncIterable[bytes], answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """The same `pieces`. Raises `Unanswered` where they are a page of HTML."""
    head = bytearray()
    is_looked_at = False
    async for piece in pieces:
        if is_looked_at:
            yield piece
            continue
        head += piece
        if len(head) >= HEAD_BYTES:
            is_looked_at = True
            yield _looked_at(bytes(head), answer)
    if not is_looked_at:
        yield _looked_at(bytes(head), answer)


def _looked_at(head: bytes, answer: aiohttp.ClientResponse) -> bytes:
    if is_page(head, answer.headers.get("Content-Type", "")):
        raise Unanswered(f"{answer.url.host} answered with a page of HTML in place of it")
    return head


def _reason(error: Exception, refused: Sequence[str]) -> str:
    if refused and isinstance(error, aiohttp.ClientConnectorError):
        return f"it leads to {refused[-1]}, which is no public address"
    if isinstance(error, TimeoutError):
        return "it took too long"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "its host is not known"
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return f"no connection: {os.strerror(error.errno)}"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "it ended in the middle"
    return "it is no URL" if isinstance(error, ValueError) else f"no answer ({type(error).__name__})"
