"""One HTTP request out: whether it was sent, whether it was answered, and nothing in between.

aiohttp does the work, for its speed; any `httpx.AsyncBaseTransport` will do as well (see `client.carriers`). The rules:

- `NotSent` only where the request provably never left, since that means "repeat it, it costs nothing". Everything else
  that is not a complete answer is `Unanswered`.
- Where aiohttp hides behind an httpx transport, the names of httpx are not trusted: a server that hung up after reading
  the request arrives as `httpx.ConnectTimeout`. The aiohttp exception behind it decides.
- Nothing is repeated, redirected or remembered (no cookies). aiohttp would repeat a GET on its own; here it does not,
  or the limits would be counted wrongly.
- Our errors carry neither URL paths nor headers, and no foreign exception hangs on them: aiohttp's hold the request's
  headers, and with them the API key.
"""

import ipaddress
import re
import urllib.request
from email.utils import parsedate_to_datetime
from typing import Final

import aiohttp
import anyio
import httpx
from aiohttp.http_exceptions import HttpProcessingError

from orchestrator.client.carriers import AiohttpCarrier, Carrier, HttpxCarrier, Request
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
    """Sends prepared requests. `transport` is what carries them, by default aiohttp with a pool of connections.

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
        self._request_s = request_s
        self._connect_s = connect_s
        self._carrier: Carrier
        if transport is None:
            self._carrier = AiohttpCarrier(proxy=proxy, connect_s=connect_s, body_bytes_max=body_bytes_max)
        else:
            self._carrier = HttpxCarrier(transport, connect_s=connect_s, body_bytes_max=body_bytes_max)

    async def send(self, request: Request, *, within_s: float | None = None) -> Answer:
        """The answer to `request`, read to its end, whatever its status.

        `within_s` replaces the time limit of the transport, for requests that the service holds on purpose. Raises
        `NotSent` or `Unanswered`. A cancelled call closes its connection; the request may have taken effect.
        """
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

    async def _exchange(self, request: Request, sent_at: int) -> Answer:
        carried = await self._carrier.carry(request)
        now, status = self._clock.now(), carried.status
        return Answer(
            status=status,
            body=carried.body,
            sent_at=sent_at,
            answered_at=now,
            retry_after_s=None if status <= _OK_MAX else retry_after_s(carried.headers.get("retry-after"), now),
            headers=carried.headers,
        )

    def _meaning(self, error: Exception, request: Request) -> NotSent | Unanswered:
        cause = error.__cause__ if isinstance(error, httpx.HTTPError) else error
        if isinstance(cause, aiohttp.ClientError):
            never_left = isinstance(cause, _NEVER_LEFT)
        else:
            never_left = isinstance(error, _NEVER_LEFT_ELSEWHERE)
        if never_left:
            host = httpx.URL(request.url).netloc.decode("ascii", "replace")
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
        await self._carrier.aclose()


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
