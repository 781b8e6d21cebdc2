"""One HTTP request out: whether it was sent, whether it was answered, and nothing in between.

httpx is the interface (any `httpx.AsyncBaseTransport` will do: a mock, an ASGI app, the simulation), aiohttp does the
work, for its speed. The rules:

- `NotSent` only where the request provably never left, since that means "repeat it, it costs nothing". Everything else
  that is not a complete answer is `Unanswered`.
- httpx-aiohttp's exception names are not trusted: a server that hung up after reading the request arrives as
  `httpx.ConnectTimeout`. The aiohttp exception behind it decides.
- Nothing is repeated, redirected or remembered (no cookies). aiohttp would repeat a GET on its own; here it does not,
  or the limits would be counted wrongly.
- Our errors carry neither URL paths nor headers, and no foreign exception hangs on them: aiohttp's hold the request's
  headers, and with them the API key.
"""

import functools
import ipaddress
import re
import ssl
import urllib.request
from email.utils import parsedate_to_datetime
from typing import Final

import aiohttp
import anyio
import httpx
import httpx_aiohttp
from aiohttp.http_exceptions import HttpProcessingError

from orchestrator.clock import SECOND, Clock
from orchestrator.core.outcome import Answer
from orchestrator.core.pacing import RETRY_AFTER_S_MAX
from orchestrator.errors import NotSent, Unanswered

CONNECT_S_MAX: Final = 10.0
"""How long a connection may take, name look-up and TLS included."""

REQUEST_S_MAX: Final = 30.0
"""How long a request may take, from the first thought of connecting to the last byte of the answer."""

BODY_BYTES_MAX: Final = 64 * 1024 * 1024
"""The longest answer that is read."""

IDLE_S_MAX: Final = 4.0
"""How long an unused connection is kept. Common servers close theirs after 5 s or more, and a POST that meets the
closing is uncertain, which can cost a job; a new handshake costs milliseconds."""

DNS_CACHE_S: Final = 60

_NEVER_LEFT: Final = (
    aiohttp.ClientConnectorError,  # refused, unreachable, no such name, TLS failed
    aiohttp.ConnectionTimeoutError,
    aiohttp.ClientHttpProxyError,  # the proxy opened no tunnel
    aiohttp.InvalidURL,
    aiohttp.NonHttpUrlClientError,
)
"""What aiohttp raises only before it writes the request."""

_NEVER_LEFT_ELSEWHERE: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)
"""The same for every other httpx transport, whose names can be trusted."""

_FOREIGN_ERRORS: Final = (httpx.HTTPError, httpx.StreamError, aiohttp.ClientError, HttpProcessingError, OSError)
"""Whatever the libraries let through, `TimeoutError` included (it is an `OSError`)."""

_OK_MAX: Final = 299
_SECONDS: Final = re.compile(r"\d{1,9}(\.\d{1,6})?")


class Transport:
    """Sends prebuilt requests. `transport` is what carries them, by default aiohttp with a pool of connections.

    `proxy` is the URL of an HTTP proxy for the default transport, see `environment_proxy`.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        proxy: str | None = None,
        connect_s: float = CONNECT_S_MAX,
        request_s: float = REQUEST_S_MAX,
        body_bytes_max: int = BODY_BYTES_MAX,
    ) -> None:
        self._clock = clock
        self._transport = transport or _aiohttp_transport(proxy)
        self._request_s = request_s
        self._connect_s = connect_s
        self._body_bytes_max = body_bytes_max
        self._timeouts = {"connect": connect_s, "pool": connect_s}

    async def send(self, request: httpx.Request, *, within_s: float | None = None) -> Answer:
        """The answer to `request`, read to its end, whatever its status.

        `within_s` replaces the time limit of the transport, for requests that the service holds on purpose. Raises
        `NotSent` or `Unanswered`. A cancelled call closes its connection; the request may have taken effect.
        """
        request.extensions["timeout"] = self._timeouts  # where httpx transports look for it
        sent_at = self._clock.now()
        limit_s = self._request_s if within_s is None else within_s
        failure: NotSent | Unanswered
        try:
            with anyio.move_on_after(limit_s):
                return await self._exchange(request, sent_at)
            failure = Unanswered(f"no complete answer within {limit_s:g} s")
        except _FOREIGN_ERRORS as error:
            failure = self._meaning(error, request)
        # Outside of the handler, so that the foreign exception is not even the context of ours.
        raise failure

    async def _exchange(self, request: httpx.Request, sent_at: int) -> Answer:
        response = await self._transport.handle_async_request(request)
        try:
            body = await self._body(response)
        finally:
            await response.stream.aclose()  # type: ignore[union-attr]  # an async transport has async streams
        now = self._clock.now()
        status = response.status_code
        return Answer(
            status=status,
            body=body,
            sent_at=sent_at,
            answered_at=now,
            retry_after_s=None if status <= _OK_MAX else retry_after_s(response.headers.get("retry-after"), now),
            headers=response.headers,
        )

    async def _body(self, response: httpx.Response) -> bytes:
        """The body as it was meant. We ask for no encoding; some proxies answer with one all the same."""
        response.headers.encoding = "iso-8859-1"  # or httpx tries two others on every header first
        encoded = "content-encoding" in response.headers
        chunks: list[bytes] = []
        room = self._body_bytes_max
        async for chunk in response.aiter_bytes() if encoded else response.stream:  # type: ignore[union-attr]
            room -= len(chunk)
            if room < 0:
                raise Unanswered(f"the answer is longer than {self._body_bytes_max} bytes")
            chunks.append(chunk)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def _meaning(self, error: Exception, request: httpx.Request) -> NotSent | Unanswered:
        cause = error.__cause__ if isinstance(error, httpx.HTTPError) else error
        if isinstance(cause, aiohttp.ClientError):
            never_left = isinstance(cause, _NEVER_LEFT)
        else:
            never_left = isinstance(error, _NEVER_LEFT_ELSEWHERE)
        if never_left:
            host = request.url.netloc.decode("ascii", "replace")
            return NotSent(f"no connection to {host}: {self._reason(cause or error)}")
        return Unanswered(f"the connection gave no complete answer: {self._reason(cause or error)}")

    def _reason(self, error: BaseException) -> str:
        """A few words of our own, or the system's: texts of libraries may quote the URL."""
        if isinstance(error, TimeoutError | httpx.TimeoutException):
            return f"nothing within {self._connect_s:g} s"
        if isinstance(error, OSError) and error.strerror:
            return error.strerror
        return type(error).__name__

    async def aclose(self) -> None:
        """Closes all connections."""
        await self._transport.aclose()


def _aiohttp_transport(proxy: str | None) -> httpx.AsyncBaseTransport:
    def session() -> aiohttp.ClientSession:
        """Made at the first request, inside the event loop that it belongs to."""
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0,  # the throttle limits; a second queue here would hide how long a request waited
                keepalive_timeout=IDLE_S_MAX,
                ttl_dns_cache=DNS_CACHE_S,
                ssl=_tls(),
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            proxy=proxy,
            trust_env=False,  # it would read netrc and the environment in a thread for each request
        )
        # There is no public switch, and without it a GET onto a connection that the server has just closed is sent
        # a second time, unseen by the throttle (tests/client/test_transport.py fails should the name change).
        session._retry_connection = False  # noqa: SLF001
        return session

    return httpx_aiohttp.AiohttpTransport(client=session, verify=_tls())


@functools.cache
def _tls() -> ssl.SSLContext:
    """Certificates as httpx has them: certifi's, or those of SSL_CERT_FILE. Loaded once, it takes 20 ms."""
    return httpx.create_ssl_context()


def environment_proxy(url: httpx.URL) -> str | None:
    """The proxy that the environment (HTTPS_PROXY, NO_PROXY, …; on macOS the system) names for `url`.

    Never for this machine itself, where the emulator runs. Looked up once for each service, not for each request.
    """
    if _is_loopback(url.host) or urllib.request.proxy_bypass(url.host):
        return None
    return urllib.request.getproxies().get(url.scheme)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def retry_after_s(header: str | None, now: int) -> float | None:
    """`Retry-After` in seconds from `now`: it comes as seconds or as an HTTP date. None where it makes no sense.

    An hour at most: nobody means to be asked again in the next century.
    """
    if header is None:
        return None
    if _SECONDS.fullmatch(header.strip()):
        return min(float(header), RETRY_AFTER_S_MAX)
    try:
        at_s = parsedate_to_datetime(header).timestamp()
    except (ValueError, OverflowError):
        return None
    return min(max(0.0, at_s - now / SECOND), RETRY_AFTER_S_MAX)
