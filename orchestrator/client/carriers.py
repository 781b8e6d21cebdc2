"""What carries requests: aiohttp, or any httpx transport (a mock, an app in this process, the simulation).

A carrier knows nothing of what an answer means. Whatever goes wrong leaves it as the library raised it; only
`client.transport` says what that means.

aiohttp is spoken to without httpx in between: what httpx builds for each request and each answer (URLs, headers,
streams) costs more than everything that aiohttp does (measured: 0.25 ms of CPU a request with it, 0.13 without).
"""

import functools
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Final, Protocol

import aiohttp
import httpx
import msgspec
from multidict import CIMultiDict
from yarl import URL

from orchestrator.errors import Unanswered

IDLE_S_MAX: Final = 4.0
"""How long an unused connection is kept. Common servers close theirs after 5 s or more, and a POST that meets the
closing is uncertain, which can cost a job; a new handshake costs milliseconds."""

DNS_CACHE_S: Final = 60

Headers = CIMultiDict[str]


class Request(msgspec.Struct, frozen=True):
    """A request to be carried. `Host` and `Content-Length` follow from the URL and the body."""

    method: str
    url: str
    headers: Headers
    body: bytes = b""

    def __repr__(self) -> str:
        return f"Request({self.method})"  # the URL and the headers may hold the key


class Carried(msgspec.Struct, frozen=True):
    """An answer, read to its end."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def header_table(headers: Mapping[bytes, bytes]) -> Headers:
    """`headers` as a request wants them; made once, it serves any number of requests."""
    return CIMultiDict((name.decode("ascii"), value.decode("ascii")) for name, value in headers.items())


class Carrier(Protocol):
    """Carries one request to where its URL says, once, and follows no redirect."""

    async def carry(self, request: Request) -> Carried:
        """The answer to `request`. Raises `Unanswered` for one that is too long, and what its library raises."""

    async def aclose(self) -> None:
        """Closes all connections."""


class AiohttpCarrier:
    """aiohttp with a pool of connections, through `proxy` where one is named.

    Connecting may take `connect_s`, an answer have `body_bytes_max`.
    """

    def __init__(self, *, proxy: str | None, connect_s: float, body_bytes_max: int) -> None:
        self._proxy = proxy
        self._body_bytes_max = body_bytes_max
        self._timeout = aiohttp.ClientTimeout(total=None, connect=connect_s, sock_connect=connect_s)
        self._session: aiohttp.ClientSession | None = None

    async def carry(self, request: Request) -> Carried:
        """See `Carrier`; raises aiohttp's errors."""
        session = self._session or self._open()
        async with session.request(
            request.method,
            URL(request.url, encoded=True),
            headers=request.headers,
            data=request.body or None,
            allow_redirects=False,
            timeout=self._timeout,
        ) as response:
            return Carried(response.status, response.headers, await self._body(response))

    async def _body(self, response: aiohttp.ClientResponse) -> bytes:
        content = response.content
        if "Content-Encoding" in response.headers:
            return await joined(_decoded(response), self._body_bytes_max)
        if content.is_eof() and content.total_bytes <= self._body_bytes_max:
            return content.read_nowait(-1)  # nearly every answer comes in one piece, its head included
        return await joined(content.iter_any(), self._body_bytes_max)

    def _open(self) -> aiohttp.ClientSession:
        """Made at the first request, inside the event loop that it belongs to."""
        self._session = session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0,  # the throttle limits; a second queue here would hide how long a request waited
                keepalive_timeout=IDLE_S_MAX,
                ttl_dns_cache=DNS_CACHE_S,
                ssl=_tls(),
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            proxy=self._proxy,
            trust_env=False,  # it would read netrc and the environment in a thread for each request
        )
        # There is no public switch, and without it a GET onto a connection that the server has just closed is sent
        # a second time, unseen by the throttle (tests/client/test_transport.py fails should the name change).
        session._retry_connection = False  # noqa: SLF001
        return session

    async def aclose(self) -> None:
        """See `Carrier`."""
        if self._session is not None:
            await self._session.close()


class HttpxCarrier:
    """Any httpx transport; `connect_s` is handed to it, an answer may have `body_bytes_max`."""

    def __init__(self, transport: httpx.AsyncBaseTransport, *, connect_s: float, body_bytes_max: int) -> None:
        self._transport = transport
        self._body_bytes_max = body_bytes_max
        self._extensions = {"timeout": {"connect": connect_s, "pool": connect_s}}

    async def carry(self, request: Request) -> Carried:
        """See `Carrier`; raises httpx's errors."""
        response = await self._transport.handle_async_request(
            httpx.Request(
                request.method,
                request.url,
                headers=list(request.headers.items()),
                content=request.body,
                extensions=dict(self._extensions),
            )
        )
        try:
            body = await joined(response.aiter_bytes(), self._body_bytes_max)
        finally:
            await response.aclose()
        return Carried(response.status_code, response.headers, body)

    async def aclose(self) -> None:
        """See `Carrier`."""
        await self._transport.aclose()


def _decoded(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """The body as it was meant. We ask for no encoding; some proxies answer with one all the same."""
    headers = list(response.headers.items())
    return httpx.Response(response.status, headers=headers, content=response.content.iter_any()).aiter_bytes()


async def joined(pieces: AsyncIterator[bytes], bytes_max: int) -> bytes:
    """All of `pieces`. Raises `Unanswered` where they are longer than `bytes_max`."""
    chunks: list[bytes] = []
    room = bytes_max
    async for chunk in pieces:
        room -= len(chunk)
        if room < 0:
            raise Unanswered(f"the answer is longer than {bytes_max} bytes")
        chunks.append(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


@functools.cache
def _tls() -> ssl.SSLContext:
    """Certificates as httpx has them: certifi's, or those of SSL_CERT_FILE. Loaded once, it takes 20 ms."""
    return httpx.create_ssl_context()
