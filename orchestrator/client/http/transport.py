"""One HTTP request out: whether it was sent, whether it was answered, and nothing in between; through a proxy where
there is one.

aiohttp does the work, for its speed; any `httpx.AsyncBaseTransport` will do as well (see `client.http.backends`). The
rules:

- `NotSent` only where the request provably never left, or not as a whole, since that means "repeat it, it costs
  nothing": nobody acts on a body that is shorter than its `Content-Length`. Everything else that is not a complete
  answer is `Unanswered`.
- Where aiohttp hides behind an httpx transport, the names of httpx are not trusted: a server that hung up after reading
  the request arrives as `httpx.ConnectTimeout`. The aiohttp exception behind it decides.
- Nothing is repeated, redirected or remembered (no cookies). aiohttp would repeat a GET on its own; here it does not,
  or the limits would be counted wrongly.
- Our errors carry neither URL paths nor headers, and no foreign exception hangs on them: aiohttp's hold the request's
  headers, and with them the API key.
"""

import re
import urllib.request
from typing import Final

import aiohttp
import httpx
import msgspec
from aiohttp.http_exceptions import HttpProcessingError
from yarl import URL

from orchestrator.client.http.backends import OK_MAX, AiohttpCarrier, Carrier, HttpxCarrier, Request
from orchestrator.client.http.bodies import MayLeave
from orchestrator.client.http.idle_timeout import IdleWatch
from orchestrator.client.http.transfer_slots import TransferSlots
from orchestrator.clock import Clock
from orchestrator.core.service.addresses import is_loopback
from orchestrator.core.service.http_answers import Answer, retry_after_s
from orchestrator.core.text.json_compact import without_mark
from orchestrator.errors import CutShort, Hurdle, NotSent, Unanswered, UsageError, bare
from orchestrator.units import MIB

CONNECT_S_MAX: Final = 10.0
"""How long a connection may take, name look-up and TLS included."""

REQUEST_S_MAX: Final = 30.0
"""How long nothing may come of a request: no byte of it leaves, none of its answer comes. See
`client.http.idle_timeout`."""

BODY_BYTES_MAX: Final = 64 * MIB
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

_HURDLES: Final = (
    ((aiohttp.ClientProxyConnectionError, aiohttp.ClientHttpProxyError), Hurdle.PROXY),
    ((aiohttp.ClientConnectorDNSError,), Hurdle.DNS),
    ((aiohttp.ClientSSLError, aiohttp.ServerFingerprintMismatch), Hurdle.TLS),
    ((TimeoutError, httpx.TimeoutException), Hurdle.TIME_OUT),
)
"""What each of them tells about the way; the first that fits counts."""

_WORDS: Final = {
    aiohttp.ServerDisconnectedError: "it was closed before one came",
    aiohttp.ClientPayloadError: "it ended in the middle of one",
}
"""Of a connection, what users meet most."""

_PROXY_AUTHENTICATION: Final = 407
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_USABLE: Final = frozenset({"http", "https"})
_HELP: Final = (
    "set HTTPS_PROXY (HTTP_PROXY for an http:// service) to http://HOST:PORT, or name the service in NO_PROXY"
)


class Transport:
    """Sends prepared requests. `transport` is what carries them, by default aiohttp with a pool of connections.

    `proxy` is an HTTP proxy for the default transport, as `environment_proxy` has it.
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
        self.up, self.down = TransferSlots(clock), TransferSlots(clock)
        """The places of large bodies on the line."""

        self._proxy = None if proxy is None else proxy_of(proxy)
        self._carrier: Carrier
        if transport is None:
            url = None if self._proxy is None else self._proxy.url
            self._carrier = AiohttpCarrier(
                proxy=url, connect_s=connect_s, body_bytes_max=body_bytes_max, up=self.up, down=self.down
            )
        else:
            self._carrier = HttpxCarrier(transport, connect_s=connect_s, body_bytes_max=body_bytes_max)
        self._watch = IdleWatch(clock, on_sleep=self._carrier.distrust)

    def ask_first(self, may_leave: MayLeave) -> None:
        """Nothing leaves where that says no, which raises `NotSent`. To be called before the first request."""
        self._carrier.may_leave = may_leave

    def check_proxy(self) -> None:
        """Raises `UsageError` where the proxy cannot be used: then nothing can be sent."""
        if self._proxy is not None and self._proxy.fault is not None:
            raise UsageError(self._proxy.fault)

    async def send(self, request: Request, *, within_s: float | None = None) -> Answer:
        """The answer to `request`, read to its end, whatever its status.

        `within_s` replaces the time limit of the transport, for requests that the service holds on purpose. Raises
        `NotSent`, `Unanswered`, or what `check_proxy` does. A cancelled call closes its connection; the request may
        have taken effect.
        """
        if self._proxy is not None:
            self.check_proxy()
        sent_at = self._clock.now()
        limit_s = self._request_s if within_s is None else within_s
        failure: NotSent | Unanswered
        idle_timeout = self._watch.begin(limit_s, is_endless=request.is_endless)
        try:
            with idle_timeout.scope:
                carried = await self._carrier.carry(request, idle_timeout)
                now, status = self._clock.now(), carried.status
                return Answer(
                    status=status,
                    body=without_mark(carried.body),
                    sent_at=sent_at,
                    answered_at=now,
                    retry_after_s=None if status <= OK_MAX else retry_after_s(carried.headers, now),
                    headers=carried.headers,
                )
            failure = Unanswered(f"no complete answer: nothing came for {limit_s:g} s")
            failure.hurdle = Hurdle.TIME_OUT
        except aiohttp.ClientHttpProxyError as error:
            if error.status == _PROXY_AUTHENTICATION:  # the same answer as to a request that needs no tunnel
                return Answer(status=error.status, body=b"", sent_at=sent_at, answered_at=self._clock.now())
            failure = self._meaning(error, request)
            bare(error)
        except _FOREIGN_ERRORS as error:
            failure = self._meaning(error, request)
            bare(error)  # its connection keeps it, and it the frames that have what came of the answer
        except (NotSent, Unanswered) as error:
            failure = bare(error)
        finally:
            self._watch.end(idle_timeout)
        if idle_timeout.is_cut and not isinstance(failure, NotSent):
            failure = CutShort(
                f"the line to {_host(request)} was cut, or stood still, before the whole request had left"
            )
        # Outside of the handler, so that the foreign exception is not even the context of ours.
        try:
            raise failure
        finally:
            del failure  # this frame has the request, and the error has this frame

    def _meaning(self, error: Exception, request: Request) -> NotSent | Unanswered:
        cause = error.__cause__ if isinstance(error, httpx.HTTPError) else error
        if isinstance(cause, aiohttp.ClientError):
            never_left = isinstance(cause, _NEVER_LEFT)
        else:
            never_left = isinstance(error, _NEVER_LEFT_ELSEWHERE)
        reason = self._reason(cause or error)
        meaning: NotSent | Unanswered
        if never_left:
            meaning = NotSent(f"no connection to {self._way_to(request, cause)}: {reason}")
        else:
            meaning = Unanswered(f"the connection gave no complete answer: {reason}")
        meaning.hurdle = next((hurdle for kinds, hurdle in _HURDLES if isinstance(cause or error, kinds)), None)
        return meaning

    def _way_to(self, request: Request, cause: BaseException | None) -> str:
        """Where there was no connection to: the proxy, or the service, through the proxy if there is one."""
        host = _host(request)
        if self._proxy is None:
            return host
        if isinstance(cause, aiohttp.ClientProxyConnectionError):
            return f"the proxy {self._proxy.name}"
        return f"{host} through the proxy {self._proxy.name}"

    def _reason(self, error: BaseException) -> str:
        """A few words of our own, or the system's: texts of libraries may quote the URL."""
        if isinstance(error, aiohttp.ClientHttpProxyError):
            return f"it answered {error.status}"
        if isinstance(error, TimeoutError | httpx.TimeoutException):
            return f"nothing within {self._connect_s:g} s"
        if isinstance(error, OSError) and error.strerror:
            return error.strerror
        return next((words for kind, words in _WORDS.items() if isinstance(error, kind)), type(error).__name__)

    async def aclose(self) -> None:
        """Closes all connections."""
        await self._carrier.aclose()


def _host(request: Request) -> str:
    return httpx.URL(request.url).netloc.decode("ascii", "replace")


# --- what the environment says of a proxy: whoever shows it shows its `name`, never its credentials


def environment_proxy(url: httpx.URL) -> str | None:
    """The proxy that the environment (HTTPS_PROXY, NO_PROXY, …; on macOS the system) names for `url`.

    Never for this machine itself, where the emulator runs. Looked up once for each service, not for each request.
    """
    if is_loopback(url.host) or urllib.request.proxy_bypass(url.host):
        return None
    return urllib.request.getproxies().get(url.scheme)


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
