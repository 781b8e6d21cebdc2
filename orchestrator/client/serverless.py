"""The job operations of one endpoint, within its limits (contract, Endpoints).

Paths are `{serverless_url}/v2/{endpoint_id}/run`, `…/status/{id}` and so on. Requests are put together here from
prepared parts, since a client object that merges headers and parses URLs for each request would double its cost.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

import httpx
import msgspec

from orchestrator import __version__
from orchestrator.client.backends import Leaving, Request, header_table
from orchestrator.client.places import Places
from orchestrator.client.rate_limiter import RateLimiter, RateLimiterPermit
from orchestrator.client.transport import REQUEST_S_MAX, Transport
from orchestrator.clock import Clock
from orchestrator.core.pacing import Limit, Meter, Operation
from orchestrator.core.ports import Permit
from orchestrator.core.redaction import HIDDEN, Redactor
from orchestrator.core.responses import Answer, is_remote_id
from orchestrator.errors import CutShort, NotSent, UsageError

_API_KEY: Final = re.compile(r"[\x21-\x7e]{1,4096}")

_OPENAI_PATH: Final = re.compile(r"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._~:@-]{1,256}){1,16}")

RUNSYNC_WAIT_MS_DEFAULT: Final = 90_000
"""How long the service holds a `/runsync` that names no `wait`."""

OPENAI_S_MAX: Final = 600.0 + REQUEST_S_MAX
"""How long an `/openai/*` call may take: the default execution timeout, and the way there and back."""


class ServerlessEndpoint:
    """One endpoint: `core.ports.JobApi`.

    `base` is `{serverless_url}/v2/{endpoint_id}`, see `endpoint_url`; `headers` are `request_headers`. Calls raise
    `NotSent` and `Unanswered` as the protocol says, and `RuntimeError` for a turn that is used up.
    """

    def __init__(
        self, base: httpx.URL, headers: Mapping[bytes, bytes], throttle: RateLimiter, transport: Transport, clock: Clock
    ) -> None:
        self._base = str(base)
        self._throttle = throttle
        self._transport = transport
        self._clock = clock
        self._redactor = Redactor({HIDDEN: key_of(headers)})
        self._headers = header_table(headers)
        self._submit_headers = header_table({**headers, b"Content-Type": b"application/json"})

    def __repr__(self) -> str:
        return f"ServerlessEndpoint({self._base!r})"

    @property
    def url(self) -> str:
        """`{serverless_url}/v2/{endpoint_id}`."""
        return self._base

    @property
    def up(self) -> Places:
        """The line to the service."""
        return self._transport.up

    @property
    def down(self) -> Places:
        """The line from the service."""
        return self._transport.down

    def permit_at_once(self, operation: Operation) -> RateLimiterPermit | None:
        """Leave for one request of `operation`, if it may be sent now."""
        return self._throttle.permit_at_once(operation)

    async def permit(self, operation: Operation) -> RateLimiterPermit:
        """Waits until one request of `operation` may be sent."""
        return await self._throttle.permit(operation)

    def available(self, operation: Operation, within_us: int) -> int:
        """How many more requests of `operation` may start within the next `within_us`, as far as one knows."""
        return self._throttle.available(operation, within_us)

    def figures(self, operation: Operation) -> Meter:
        """How `operation` stands with its limit."""
        return self._throttle.figures(operation)

    def limit(self, operation: Operation) -> Limit:
        """The limit in force."""
        return self._throttle.limit(operation)

    def change(self, operation: Operation, limit: Limit) -> None:
        """Puts another limit in force."""
        self._throttle.change(operation, limit)

    def hold(self, operation: Operation, answered: Iterable[int], unanswered: Iterable[int] = ()) -> None:
        """At a restart: requests of an earlier process hold their slots; see `RateLimiter.hold`."""
        self._throttle.hold(operation, answered, unanswered)

    def ease_in(self, operation: Operation) -> None:
        """At a restart: an earlier process may have sent requests of which nothing is known."""
        self._throttle.ease_in(operation)

    async def run(self, permit: Permit, body: bytes, *, leaving: Leaving | None = None) -> Answer:
        """`POST /run` with `body`, the complete JSON of the job request; see `core.ports`."""
        request = self._submission("run", body, leaving)
        return await self._send(permit, Operation.RUN, request)

    async def runsync(self, permit: Permit, body: bytes, *, wait_ms: int | None = None) -> Answer:
        """`POST /runsync` with `body`, the complete JSON of the job request.

        The service holds it until the job has finished, `wait_ms` at most (None: its own default).
        """
        path = "runsync" if wait_ms is None else f"runsync?wait={wait_ms}"
        within_s = (RUNSYNC_WAIT_MS_DEFAULT if wait_ms is None else wait_ms) / 1000 + REQUEST_S_MAX
        request = self._submission(path, body)
        return await self._send(permit, Operation.RUNSYNC, request, within_s=within_s)

    async def status(self, permit: Permit, remote_id: str) -> Answer:
        """`GET /status/{remote_id}`."""
        request = self._question(_job_path("status", remote_id))
        return await self._send(permit, Operation.STATUS, request)

    async def stream(self, permit: Permit, remote_id: str) -> Answer:
        """`GET /stream/{remote_id}`: what the job gave since the last such call. Each part is handed out once."""
        request = self._question(_job_path("stream", remote_id))
        return await self._send(permit, Operation.STREAM, request)

    async def retry(self, permit: Permit, remote_id: str) -> Answer:
        """`POST /retry/{remote_id}`."""
        request = self._order(_job_path("retry", remote_id))
        return await self._send(permit, Operation.RETRY, request)

    async def cancel(self, permit: Permit, remote_id: str) -> Answer:
        """`POST /cancel/{remote_id}`."""
        request = self._order(_job_path("cancel", remote_id))
        return await self._send(permit, Operation.CANCEL, request)

    async def health(self, permit: Permit) -> Answer:
        """`GET /health`."""
        return await self._send(permit, Operation.HEALTH, self._question("health"))

    async def purge_queue(self, permit: Permit) -> Answer:
        """`POST /purge-queue`."""
        return await self._send(permit, Operation.PURGE_QUEUE, self._order("purge-queue"))

    async def requests(self, permit: Permit) -> Answer:
        """`GET /requests`."""
        return await self._send(permit, Operation.REQUESTS, self._question("requests"))

    async def openai(self, permit: Permit, path: str, body: bytes | None) -> Answer:
        """`POST /openai{path}` with the JSON `body`, or `GET` where that is None. `path` is as in `/v1/models`.

        Raises `ValueError` for a path that would lead elsewhere.
        """
        check_openai_path(path)
        path = f"openai{path}"
        request = self._question(path) if body is None else self._submission(path, body)
        return await self._send(permit, Operation.OPENAI, request, within_s=OPENAI_S_MAX)

    def _question(self, path: str) -> Request:
        return Request("GET", f"{self._base}/{path}", self._headers)

    def _order(self, path: str) -> Request:
        return Request("POST", f"{self._base}/{path}", self._headers)

    def _submission(self, path: str, body: bytes, leaving: Leaving | None = None) -> Request:
        return Request("POST", f"{self._base}/{path}", self._submit_headers, body, leaving)

    async def _send(
        self, permit: Permit, operation: Operation, request: Request, *, within_s: float | None = None
    ) -> Answer:
        """Sends `request` and ends `permit` according to what came of it."""
        if not isinstance(permit, RateLimiterPermit):
            raise TypeError(f"a permit comes from `permit`, not from elsewhere: {permit!r}")
        permit.use(operation)
        try:
            answer = await self._transport.send(request, within_s=within_s)
        except CutShort:  # the service may have counted it by its head
            permit.given_up(self._clock.now())
            raise
        except NotSent:
            permit.not_sent()
            raise
        except BaseException:  # unanswered or cancelled: the service may be at it still
            permit.given_up(self._clock.now())
            raise
        permit.answered(answer)
        # What a service says about a request it refused may repeat the request, and is kept and shown.
        if answer.status < 300 or (body := self._redactor.scrub(answer.body)) is answer.body:  # noqa: PLR2004
            return answer
        return msgspec.structs.replace(answer, body=body)


def _job_path(operation: str, remote_id: str) -> str:
    if not is_remote_id(remote_id):  # it came over the network once: "../purge-queue" must not enter a path
        raise ValueError(f"{remote_id!r} is no remote id")
    return f"{operation}/{remote_id}"


def check_openai_path(path: str) -> None:
    """Raises `ValueError` for a path that would lead elsewhere than below `/openai`."""
    if _OPENAI_PATH.fullmatch(path) is None:
        raise ValueError(f"{path!r} is no path below /openai; it looks like /v1/chat/completions")


def endpoint_url(serverless_url: str, endpoint_id: str) -> httpx.URL:
    """`{serverless_url}/v2/{endpoint_id}`. Raises `UsageError` for what is no http(s) address or no endpoint id."""
    return httpx.URL(f"{service_url(serverless_url)}/v2/{checked_id(endpoint_id, 'endpoint')}")


def checked_id(text: str, what: str) -> str:
    """`text`, the id of a `what`, before it becomes a part of a path or a header. Raises `UsageError`."""
    if not is_remote_id(text):
        raise UsageError(f"{text[:80]!r} is no {what} id: 1-128 letters, digits, '-' and '_'")
    return text


def service_url(text: str) -> httpx.URL:
    """The service's address without a slash at its end; it may have a path. Raises `UsageError`."""
    try:
        url = httpx.URL(text.strip().rstrip("/"))
    except httpx.InvalidURL:
        raise UsageError("the service URL cannot be read; it looks like https://api.example.com") from None
    if url.scheme not in {"http", "https"} or not url.host:
        raise UsageError("the service URL must begin with http:// or https:// and name a host")
    if url.userinfo or url.query or url.fragment:
        raise UsageError("the service URL must have no user, query or fragment; the API key is a setting of its own")
    return httpx.URL(scheme=url.scheme, host=url.host, port=url.port, path=url.path.rstrip("/"))


def request_headers(api_key: str) -> dict[bytes, bytes]:
    """What every request carries. Raises `UsageError`, without quoting it, for a key that fits in no header."""
    if _API_KEY.fullmatch(api_key) is None:
        raise UsageError("the API key is empty, too long, or has blanks or other characters that fit in no header")
    return {
        b"Authorization": b"Bearer " + api_key.encode("ascii"),
        b"Accept": b"application/json",
        b"Accept-Encoding": b"identity",
        b"User-Agent": b"orchestrator/" + __version__.encode("ascii"),
    }


def key_of(headers: Mapping[bytes, bytes]) -> str:
    """The key in `request_headers`."""
    return headers.get(b"Authorization", b"").removeprefix(b"Bearer ").decode("ascii")
