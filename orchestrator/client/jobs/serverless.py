"""The job operations of one endpoint, within its limits (contract, Endpoints).

Paths are `{serverless_url}/v2/{endpoint_id}/run`, `…/status/{id}` and so on. Requests are put together here from
prepared parts, since a client object that merges headers and parses URLs for each request would double its cost.
"""

import re
from collections.abc import Mapping
from typing import Final

import httpx
import msgspec
from multidict import CIMultiDict

from orchestrator import __version__
from orchestrator.client.http.backends import Request
from orchestrator.client.http.bodies import Leaving
from orchestrator.client.http.transport import REQUEST_S_MAX, Transport
from orchestrator.client.jobs.rate_limiter import Permit, RateLimiter
from orchestrator.clock import Clock
from orchestrator.core.lanes.openai import ROUTE
from orchestrator.core.limits.rate_pacer import Operation
from orchestrator.core.service.health import Health, health_of
from orchestrator.core.service.http_answers import Answer
from orchestrator.core.service.job_record import is_remote_id
from orchestrator.core.text.redaction import Redactor
from orchestrator.errors import CutShort, NotSent, Unanswered, UsageError
from orchestrator.units import SECOND_US

HEALTH_WAIT_US_MAX: Final = 10 * SECOND_US
"""A wish that no `/health` is asked for is waited for no longer: it may be for an hour's rest."""

HEALTH_WAIT_S: Final = 60.0
"""Nor is leave to ask it that our limits do not give, or a wish that came meanwhile."""

_API_KEY: Final = re.compile(r"[\x21-\x7e]{1,4096}")


class ServerlessEndpoint:
    """One endpoint. `base` is `{serverless_url}/v2/{endpoint_id}`, see `endpoint_url`; every request carries `headers`,
    and what `secrets` knows of is taken out of refusals.

    A request needs a permit, got by `limiter.permit` (which waits for the limits) and used up by the call it is handed
    to. So the caller decides *what* to send at the last moment. Calls raise `NotSent` when the request never left,
    `Unanswered` when no usable answer came, and `RuntimeError` for a permit that is used up; an HTTP error status is an
    `Answer` like any other. No call repeats a request by itself.
    """

    takes_jobs = True
    """Whether anything can be sent there."""

    is_by_url = False
    """Whether it is a server at a URL, without the operations on jobs."""

    def __init__(
        self,
        base: httpx.URL,
        headers: Mapping[str, str],
        secrets: Redactor,
        limiter: RateLimiter,
        transport: Transport,
        clock: Clock,
    ) -> None:
        self.url = str(base)
        """`{serverless_url}/v2/{endpoint_id}`."""

        self.limiter = limiter
        self.up, self.down = transport.up, transport.down
        """The line to the service, and from it."""

        self.time_scale = 1.0
        """How many seconds of the service's time pass in one: an emulator may run fast, and says so."""

        self.tells_health = True
        """Whether it says how it is, as far as anybody has asked."""

        self.latest_health: tuple[int, Health] | None = None
        """When `/health` last told how the endpoint stands, and how; None before the first time."""

        self._transport = transport
        self._clock = clock
        self._redactor = secrets
        self._headers = CIMultiDict(headers)
        self._submit_headers = CIMultiDict({**self._headers, "Content-Type": "application/json"})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    async def run(self, permit: Permit, body: bytes, *, leaving: Leaving | None = None) -> Answer:
        """`POST /run` with `body`, the complete JSON of the job request.

        `leaving` is called just before its last bytes are handed over: what ends before that has no effect there.
        """
        return await self.send(permit, Operation.RUN, self.submission("run", body, leaving))

    async def runsync(self, permit: Permit, body: bytes, *, wait_ms: int, leaving: Leaving | None = None) -> Answer:
        """`POST /runsync` with `body`; the service holds the answer for `wait_ms` of its time at most."""
        request = self.submission(f"runsync?wait={wait_ms}", body, leaving)
        within_s = wait_ms / 1000 / self.time_scale + REQUEST_S_MAX
        return await self.send(permit, Operation.RUNSYNC, request, within_s=within_s)

    async def openai(
        self, permit: Permit, route: str, body: bytes, *, within_s: float, leaving: Leaving | None = None
    ) -> Answer:
        """`POST /openai{route}` with `body`; the answer, which is the result, may take `within_s`."""
        if ROUTE.fullmatch(route) is None:
            raise ValueError(f"{route!r} is no path below /openai")
        request = self.submission(f"openai{route}", body, leaving)
        return await self.send(permit, Operation.OPENAI, request, within_s=within_s)

    async def http(
        self, permit: Permit, path: str, body: bytes, *, within_s: float, leaving: Leaving | None = None
    ) -> Answer:
        """`POST {url}{path}` with `body`, to a server at a URL; the answer may take `within_s`."""
        if not self.is_by_url or (path and ROUTE.fullmatch(path) is None):
            raise ValueError(f"{path!r} is no path of a server at a URL")
        request = self.submission_to(f"{self.url}{path}", body, leaving)
        return await self.send(permit, Operation.HTTP, request, within_s=within_s)

    async def status(self, permit: Permit, remote_id: str) -> Answer:
        """`GET /status/{remote_id}`."""
        return await self.send(permit, Operation.STATUS, self.question(path_with_id("status", remote_id)))

    async def retry(self, permit: Permit, remote_id: str) -> Answer:
        """`POST /retry/{remote_id}`."""
        return await self.send(permit, Operation.RETRY, self.order(path_with_id("retry", remote_id)))

    async def cancel(self, permit: Permit, remote_id: str) -> Answer:
        """`POST /cancel/{remote_id}`."""
        return await self.send(permit, Operation.CANCEL, self.order(path_with_id("cancel", remote_id)))

    async def health(self, permit: Permit, *, within_s: float | None = None) -> Answer:
        """`GET /health`. What it tells is kept, for whoever asks how many workers there were."""
        answer = await self.send(permit, Operation.HEALTH, self.question("health"), within_s=within_s)
        if (health := health_of(answer.status, answer.body)) is not None:
            self.latest_health = answer.answered_at, health
        return answer

    async def health_permit(self) -> Permit | None:
        """Leave to ask `/health`; None where the service wants no such question for long: nothing that matters may wait
        for it.
        """
        if self.limiter.throttled_until(Operation.HEALTH) > self._clock.now() + HEALTH_WAIT_US_MAX:
            return None
        return await self.limiter.permit_within(Operation.HEALTH, HEALTH_WAIT_S)

    async def health_answer(self) -> Answer | None:
        """The answer of `/health`; None where none comes, or there is no leave to ask."""
        permit = await self.health_permit()
        try:
            return None if permit is None else await self.health(permit)
        except (NotSent, Unanswered):
            return None

    async def ask_health(self) -> Health | None:
        """What `/health` says now; None where no answer comes, or one that tells of no good health."""
        answer = await self.health_answer()
        return None if answer is None else health_of(answer.status, answer.body)

    def question(self, path: str) -> Request:
        """`GET {url}/{path}`. The caller has checked whatever came into the `path`; so for the others."""
        return self.request("GET", f"{self.url}/{path}")

    def request(self, method: str, url: str) -> Request:
        """A request without a body to `url`, which the caller has checked."""
        return Request(method, url, self._headers)

    def order(self, path: str) -> Request:
        """`POST {url}/{path}` without a body."""
        return self.request("POST", f"{self.url}/{path}")

    def submission(self, path: str, body: bytes, leaving: Leaving | None = None) -> Request:
        """`POST {url}/{path}` with the JSON `body`."""
        return self.submission_to(f"{self.url}/{path}", body, leaving)

    def submission_to(self, url: str, body: bytes, leaving: Leaving | None = None) -> Request:
        """The same to a URL that the caller has checked."""
        return Request("POST", url, self._submit_headers, body, leaving)

    async def send(
        self, permit: Permit, operation: Operation, request: Request, *, within_s: float | None = None
    ) -> Answer:
        """Sends `request`, and ends `permit` according to what came of it.

        `within_s` is for what the service holds on purpose.
        """
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
        if (scale := answer.headers.get(TIME_SCALE_HEADER)) is not None:
            self.time_scale = time_scale(scale)
        # What a service says about a request it refused may repeat the request, and is kept and shown.
        if answer.status < 300 or (body := self._redactor.scrub(answer.body)) is answer.body:  # noqa: PLR2004
            return answer
        return msgspec.structs.replace(answer, body=body)


TIME_SCALE_HEADER: Final = "x-emulator-time-scale"
TIME_SCALE_MAX: Final = 10_000.0


def time_scale(text: str) -> float:
    """What an emulator tells of its time; 1 for what makes no sense, and for one that is slow: that is no hurry."""
    try:
        scale = float(text)
    except ValueError:
        return 1.0
    return min(scale, TIME_SCALE_MAX) if scale > 1 else 1.0


def path_with_id(path: str, remote_id: str) -> str:
    """`{path}/{remote_id}`. Raises `ValueError` for an id that is none."""
    if not is_remote_id(remote_id):  # it came over the network once: "../purge-queue" must not enter a path
        raise ValueError(f"{remote_id!r} is no remote id")
    return f"{path}/{remote_id}"


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


PLAIN_HEADERS: Final[Mapping[str, str]] = {
    "Accept": "application/json",
    "Accept-Encoding": "identity",
    "User-Agent": f"orchestrator/{__version__}",
}
"""What every request carries beside a key."""


def request_headers(api_key: str) -> dict[str, str]:
    """What every request carries. Raises `UsageError`, without quoting it, for a key that fits in no header."""
    if _API_KEY.fullmatch(api_key) is None:
        raise UsageError("the API key is empty, too long, or has blanks or other characters that fit in no header")
    return {"Authorization": f"Bearer {api_key}", **PLAIN_HEADERS}
