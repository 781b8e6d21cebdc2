"""Load balancing endpoints: requests that go straight to a worker's own HTTP server (contract, Endpoint types).

There is no queue: a request is handed to the worker with the fewest, waits for one to start if none is there, and is
refused if none comes. The service gives each such endpoint a host name; here each is below `/lb/{endpoint_id}`, which
`requestUrls` of REST v2 names. The worker's server is an ASGI application of the user's. Its `/ping` is the service's
question whether a worker is well: it answers 204 while workers start, unless the application has its own.

Nobody tries a request again, and one whose sender hangs up is not heard of any more.
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Final

import anyio
from anyio.abc import TaskStatus
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from orchestrator.emulator.contract.answers import ConnectionCut, HttpAnswer, ServiceRefusal
from orchestrator.emulator.contract.limits import JobOperation, OperationMeter
from orchestrator.emulator.http.delivery import AnswerDelivery
from orchestrator.emulator.http.gate import ANY_ENDPOINT, Gate
from orchestrator.emulator.http.request_body import hold_request, read_bounded_body
from orchestrator.emulator.job_api.http_servers import (
    BEGINNING,
    METHODS,
    TIMED_OUT,
    Application,
    Lifespans,
    Reply,
    below_root,
    nothing,
    whole,
)
from orchestrator.emulator.job_api.live_world import LiveWorld
from orchestrator.emulator.jobs.fleet import Fleet
from orchestrator.units import MIB, SECOND_US

PREFIX: Final = "/lb"
"""What the paths of load balancing endpoints begin with."""

BODY_BYTES_MAX: Final = 30 * MIB
"""The longest body of a request (as published)."""

WORKER_WAIT_S: Final = 120.0
"""How long a request waits for a worker, until it is answered 400 (as published)."""

PROCESSING_S: Final = 330.0
"""How long a worker may take, until the sender is answered 524 (as published)."""


def base_url(request: Request, endpoint: str) -> str:
    """Where requests for the endpoint go, as whoever sent `request` reaches it."""
    return f"{request.url.scheme}://{request.url.netloc}{PREFIX}/{endpoint}"


class LoadBalancer:
    """Answers requests to load balancing endpoints.

    `applications` are the workers' servers by endpoint, those of `"*"` for every endpoint without one of its own.
    """

    def __init__(self, applications: Mapping[str, Application], live: LiveWorld, gate: Gate) -> None:
        self._applications = applications
        self._live = live
        self._gate = gate
        self._delivery = AnswerDelivery(gate.wire, live.clock, live.scale)
        self._bells: dict[str, anyio.Event] = {}
        self._lifespans = Lifespans()

    def routes(self) -> list[Route]:
        """The route of every path of every load balancing endpoint."""
        return [
            Route(f"{PREFIX}/{{endpoint_id}}", self._answer, methods=METHODS),
            Route(f"{PREFIX}/{{endpoint_id}}/{{path:path}}", self._answer, methods=METHODS),
        ]

    def wake(self, endpoint: str) -> None:
        """A worker of the endpoint has become ready."""
        bell = self._bells.pop(endpoint, None)
        if bell is not None:
            bell.set()

    def application(self, endpoint: str) -> Application | None:
        """The server that the endpoint's workers run; None: there is none, so no worker can start."""
        return self._applications.get(endpoint) or self._applications.get(ANY_ENDPOINT)

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Tells each application that it begins, and at the end that it ends (ASGI's lifespan), until cancelled.

        Raises UsageError for one that cannot begin.
        """
        async with anyio.create_task_group() as tasks:
            await self._lifespans.begin(self._applications.values(), tasks)
            task_status.started()

    async def _answer(self, request: Request) -> Response:
        endpoint: str = request.path_params["endpoint_id"]
        authorization = request.headers.get("authorization", "")
        try:
            meter = self._gate.enter(endpoint, JobOperation.HTTP, authorization, self._live.now())
        except ServiceRefusal as refusal:
            return await self._depart(refusal.answer())
        try:
            body = await read_bounded_body(request, BODY_BYTES_MAX)
        except BaseException as error:
            meter.leave()
            if isinstance(error, ServiceRefusal):
                return await self._depart(error.answer())
            raise
        return _Forwarded(self, endpoint, meter, body)

    async def _depart(self, answer: HttpAnswer) -> Response:
        return await self._delivery.deliver(self._gate.sending(JobOperation.HTTP, answer))

    async def forward(self, endpoint: str, meter: OperationMeter, body: bytes, scope: Scope, send: Send) -> None:
        """Hands the request to a worker, and what it says to the sender, as the faults of the wire have it."""
        try:
            with self._connected(endpoint) as fleet:
                if scope["path_params"].get("path") == "ping" and not fleet.running():
                    await Response(status_code=HTTPStatus.NO_CONTENT)(scope, nothing, send)
                    return
                worker = await self._worker(endpoint, fleet)
                if worker is None:
                    await self._refuse(HTTPStatus.BAD_REQUEST, "no workers available", scope, send)
                    return
                fleet.began(worker)
                try:
                    await self._execute(endpoint, body, scope, send)
                finally:
                    fleet.ended(worker, self._live.now())
                    fleet.give_back(worker, self._live.now())
        finally:
            meter.leave()

    @contextmanager
    def _connected(self, endpoint: str) -> Iterator[Fleet]:
        """The endpoint's workers, who have one request more to think of until the end of the block."""
        state = self._live.world.endpoints.state(endpoint)
        state.connections += 1
        self._live.ring()
        try:
            yield state.fleet
        finally:
            state.connections -= 1
            self._live.ring()

    async def _worker(self, endpoint: str, fleet: Fleet) -> str | None:
        """The worker with the fewest requests, once there is one; None if none comes."""
        if self.application(endpoint) is None:
            return None
        with anyio.move_on_after(WORKER_WAIT_S / self._live.scale):
            while (worker := fleet.least_busy()) is None:
                await self._bells.setdefault(endpoint, anyio.Event()).wait()
            return worker
        return None

    async def _execute(self, endpoint: str, body: bytes, scope: Scope, send: Send) -> None:
        application = self.application(endpoint)
        assert application is not None, "a worker runs something"
        sending = self._gate.sending(JobOperation.HTTP, BEGINNING)
        if sending.delay_us:
            await anyio.sleep(sending.delay_us / SECOND_US / self._live.scale)
        answer = Reply(sending, send)
        with anyio.move_on_after(PROCESSING_S / self._live.scale) as in_time:
            try:
                state = self._lifespans.state_of(application)
                await application(below_root(scope, f"{PREFIX}/{endpoint}", state), whole(body), answer.send)
            except (ConnectionCut, anyio.get_cancelled_exc_class()):
                raise
            except Exception:  # noqa: BLE001  a worker's server answers 500, whatever was raised in it
                if answer.has_begun and not answer.is_whole:
                    raise ConnectionCut from None
                if not answer.has_begun:
                    await self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, "internal server error", scope, send)
                    return
        self._gate.wire.check_connection(self._live.now())
        if in_time.cancelled_caught and not answer.has_begun:
            await self._refuse(TIMED_OUT, "the worker took too long", scope, send)
        elif in_time.cancelled_caught or answer.is_cut:
            raise ConnectionCut
        elif sending.answer is not BEGINNING:  # a fault has put something else in its place
            response = await self._delivery.deliver(sending)
            await response(scope, nothing, send)

    async def _refuse(self, status: int, sentence: str, scope: Scope, send: Send) -> None:
        response = await self._depart(ServiceRefusal(status, sentence).answer())
        await response(scope, nothing, send)


class _Forwarded(Response):
    """The answer of a worker, which is written while it comes."""

    def __init__(self, balancer: LoadBalancer, endpoint: str, meter: OperationMeter, body: bytes) -> None:
        super().__init__()
        self._balancer = balancer
        self._endpoint = endpoint
        self._meter = meter
        self._request_body = body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        cut: ConnectionCut | None = None

        async def forward() -> None:
            nonlocal cut
            try:
                await self._balancer.forward(self._endpoint, self._meter, self._request_body, scope, send)
            except ConnectionCut as error:
                cut = error

        await hold_request(Request(scope, receive), math.inf, forward)
        if cut is not None:
            raise cut
