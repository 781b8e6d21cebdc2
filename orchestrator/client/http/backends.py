"""What carries requests: aiohttp with its TLS and pool of connections, or any httpx transport (a mock, an app in this
process, the simulation).

A carrier knows nothing of what an answer means. Whatever goes wrong leaves it as the library raised it; only
`client.http.transport` says what that means.

aiohttp is spoken to without httpx in between: what httpx builds for each request and each answer (URLs, headers,
streams) costs more than everything that aiohttp does (measured: 0.25 ms of CPU a request with it, 0.13 without).
"""

import functools
import socket
import ssl
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping
from typing import Final, Protocol

import aiohttp
import aiohttp.payload
import httpx
import msgspec
from aiohttp.connector import Connection
from multidict import CIMultiDict
from yarl import URL

from orchestrator.client.http.bodies import Download, Leaving, MayLeave, Upload, leave_marked, refuse_to_leave
from orchestrator.client.http.idle_timeout import IdleTimeout
from orchestrator.client.http.transfer_slots import LARGE_BYTES, TransferSlots
from orchestrator.client.http.unpacking import decompressed
from orchestrator.core.ownership.lease import LATE_US_MAX
from orchestrator.units import MIB

IDLE_S_MAX: Final = 4.0
"""How long an unused connection is kept. Common servers close theirs after 5 s or more, and a POST that meets the
closing is uncertain, which can cost a job; a new handshake costs milliseconds."""

DNS_CACHE_S: Final = 60

READ_BYTES: Final = 64 * 1024
"""Twice as much of an answer is taken from its socket before somebody reads it."""

UNKNOWN_BYTES: Final = 4 * MIB
"""What a large answer is taken for that does not say how long it is."""

OK_MAX: Final = 299
"""The last status of a success."""

Headers = CIMultiDict[str]

Coming = Callable[[int, bytes], None]
"""Called with the status and a piece of an answer's body, as it comes; the first, with its head, is empty."""


class Request(msgspec.Struct, frozen=True):
    """A request to be carried. `Host` and `Content-Length` follow from the URL and the body."""

    method: str
    url: str
    headers: Headers
    body: bytes = b""
    leaving: Leaving | None = None
    coming: Coming | None = None
    is_endless: bool = False
    """Whether a success is for `coming` alone, and nothing of it kept: it lasts until somebody ends it."""

    is_head_enough: bool = False
    """Whether the status tells all: the body is not read, however long it is."""

    def __repr__(self) -> str:
        return f"Request({self.method})"  # the URL and the headers may hold the key


class Carried(msgspec.Struct, frozen=True):
    """An answer, read to its end, or as far as its request wants it."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Carrier(Protocol):
    """Carries one request to where its URL says, once, and follows no redirect."""

    may_leave: MayLeave | None
    """Asked before anything leaves, if there is one; to be said before the first request."""

    async def carry(self, request: Request, idle_timeout: IdleTimeout) -> Carried:
        """The answer to `request`. Raises `NotSent` where it may not leave, `Unanswered` for an answer that is too
        long, and what its library raises.

        `idle_timeout` is told of all that moves, and whether the request was cut.
        """

    def distrust(self) -> None:
        """Connections that nobody uses now may be dead: the machine has slept."""

    async def aclose(self) -> None:
        """Closes all connections."""


class AiohttpCarrier:
    """aiohttp with a pool of connections, through `proxy` where one is named.

    Connecting may take `connect_s`, an answer have `body_bytes_max`. Large bodies share the line by `up` and `down`.
    """

    may_leave: MayLeave | None = None

    def __init__(
        self, *, proxy: str | None, connect_s: float, body_bytes_max: int, up: TransferSlots, down: TransferSlots
    ) -> None:
        self._proxy = proxy
        self._body_bytes_max = body_bytes_max
        self._timeout = aiohttp.ClientTimeout(total=None, connect=connect_s, sock_connect=connect_s)
        self._up, self._down = up, down
        self._session: aiohttp.ClientSession | None = None
        self._sessions: list[aiohttp.ClientSession] = []

    async def carry(self, request: Request, idle_timeout: IdleTimeout) -> Carried:
        """See `Carrier`; raises aiohttp's errors."""
        if not request.body:
            return await self._exchange(request, None, idle_timeout)
        upload = Upload(request.body, idle_timeout, request.leaving, self.may_leave)
        if len(request.body) > LARGE_BYTES:
            with idle_timeout.paused():
                upload.slot = await self._up.enter(len(request.body))
        try:
            return await self._exchange(request, upload, idle_timeout)
        except BaseException:
            idle_timeout.is_cut = upload.cut()
            upload.check()
            raise
        finally:
            if upload.slot is not None:
                upload.slot.leave()

    async def _exchange(self, request: Request, upload: "Upload | None", idle_timeout: IdleTimeout) -> Carried:
        session = self._session or self._open()
        url = URL(request.url, encoded=True)
        async with session.request(
            request.method,
            url,
            headers=request.headers,
            data=upload,
            allow_redirects=False,
            timeout=self._timeout,
            ssl=tls() if url.scheme == "https" else True,
        ) as response:
            return Carried(response.status, response.headers, await self._body(response, idle_timeout, request))

    async def _body(self, response: aiohttp.ClientResponse, idle_timeout: IdleTimeout, request: Request) -> bytes:
        if request.is_head_enough:
            return b""
        content = response.content
        pieces: AsyncIterable[bytes]
        if "Content-Encoding" in response.headers:
            pieces = decompressed(content.iter_any(), response.headers)
        elif content.is_eof() and content.total_bytes <= self._body_bytes_max and request.coming is None:
            return content.read_nowait(-1)  # nearly every answer comes in one piece, its head included
        else:
            pieces = content.iter_any()
        expected = UNKNOWN_BYTES if "Content-Encoding" in response.headers else response.content_length or UNKNOWN_BYTES
        pieces = _told(pieces, response.status, request.coming)
        download = Download(idle_timeout, self._down, expected, is_kept=_is_kept(request, response.status))
        return await download.read(pieces, self._body_bytes_max)

    def _open(self) -> aiohttp.ClientSession:
        """Made at the first request, inside the event loop that it belongs to."""
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0,  # the rate limiter limits; a second queue here would hide how long a request waited
                keepalive_timeout=IDLE_S_MAX,
                ttl_dns_cache=DNS_CACHE_S,
                socket_factory=None if self.may_leave is None else impatient_socket,
            ),
            request_class=aiohttp.ClientRequest if self.may_leave is None else _asking(self.may_leave),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            read_bufsize=READ_BYTES,
            proxy=self._proxy,
            trust_env=False,  # it would read netrc and the environment in a thread for each request
        )
        # There is no public switch, and without it a GET onto a connection that the server has just closed is sent
        # a second time, unseen by the rate limiter (tests/client/http/test_transport.py fails should the name change).
        session._retry_connection = False  # noqa: SLF001
        self._session = session
        self._sessions.append(session)
        return session

    def distrust(self) -> None:
        """See `Carrier`: what comes next gets connections of its own; those that are idle close after `IDLE_S_MAX`."""
        self._session = None

    async def aclose(self) -> None:
        """See `Carrier`."""
        for session in self._sessions:
            await session.close()


def _asking(may_leave: MayLeave) -> type[aiohttp.ClientRequest]:
    """Requests that ask once they have their connection: without a body they leave in the same step. Where there is
    one, it asks itself: it leaves with their head, in a task of its own.
    """

    class Asking(aiohttp.ClientRequest):
        async def send(self, conn: Connection) -> aiohttp.ClientResponse:
            refuse_to_leave(may_leave)
            return await super().send(conn)

    return Asking


def impatient_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """A socket that does not try for ever to deliver what was handed to it."""
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux; macOS gives up later, and has no such option
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, LATE_US_MAX // 1_000)
    return made


class HttpxCarrier:
    """Any httpx transport; `connect_s` is handed to it, an answer may have `body_bytes_max`."""

    may_leave: MayLeave | None = None

    def __init__(self, transport: httpx.AsyncBaseTransport, *, connect_s: float, body_bytes_max: int) -> None:
        self._transport = transport
        self._body_bytes_max = body_bytes_max
        self._extensions = {"timeout": {"connect": connect_s, "pool": connect_s}}

    async def carry(self, request: Request, idle_timeout: IdleTimeout) -> Carried:
        """See `Carrier`; raises httpx's errors."""
        leave_marked(request.leaving, self.may_leave)
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
            # Not by httpx, which unpacks a piece as a whole, however much is in it.
            assert isinstance(response.stream, httpx.AsyncByteStream)
            pieces = _told(decompressed(response.stream, response.headers), response.status_code, request.coming)
            download = Download(idle_timeout, is_kept=_is_kept(request, response.status_code))
            body = b"" if request.is_head_enough else await download.read(pieces, self._body_bytes_max)
        finally:
            await response.aclose()
        return Carried(response.status_code, response.headers, body)

    def distrust(self) -> None:
        """See `Carrier`: its connections, if it has any, are its own."""

    async def aclose(self) -> None:
        """See `Carrier`."""
        await self._transport.aclose()


def _is_kept(request: Request, status: int) -> bool:
    """Whether the answer is wanted as a whole: why something was refused always is."""
    return not request.is_endless or status > OK_MAX


def _told(pieces: AsyncIterable[bytes], status: int, coming: Coming | None) -> AsyncIterable[bytes]:
    """The pieces, of each of which `coming` is told first."""
    return pieces if coming is None else _tell(pieces, status, coming)


async def _tell(pieces: AsyncIterable[bytes], status: int, coming: Coming) -> AsyncIterator[bytes]:
    coming(status, b"")
    async for piece in pieces:
        coming(status, piece)
        yield piece


@functools.cache
def tls() -> ssl.SSLContext:
    """Certificates as httpx has them: certifi's, or those of SSL_CERT_FILE. Loaded once, it takes 20 ms."""
    return httpx.create_ssl_context()
