"""Load balancing endpoints: requests that go straight to a worker's own HTTP server (contract, Endpoint types).

There is no queue: a request is handed to the worker with the fewest, waits for one to start if none is there, and is
refused if none comes. The service gives each such endpoint a host name; here each is below `/lb/{endpoint_id}`, which
`requestUrls` of REST v2 names. The worker's server is an ASGI application of the user's. Its `/ping` is the service's
question whether a worker is well: it answers 204 while workers start, unless the application has its own.

Nobody tries a request again, and one whose sender hangs up is not heard of any more.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from typing import Final

import anyio
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Scope, Send

from orchestrator.emulator.contract.answers import HttpAnswer, ServiceRefusal
from orchestrator.emulator.contract.limits import JobOperation, OperationMeter
from orchestrator.emulator.http.delivery import AnswerDelivery
from orchestrator.emulator.http.gate import ANY_ENDPOINT, Gate
from orchestrator.emulator.http.request_body import read_bounded_body
from orchestrator.emulator.http.wire import OutgoingAnswer
from orchestrator.emulator.job_api.http_servers import (
    METHODS,
    TIMED_OUT,
    Application,
    ForwardedAnswer,
    ServerFront,
    nothing,
)
from orchestrator.emulator.job_api.live_world import LiveWorld
from orchestrator.emulator.jobs.fleet import Fleet
from orchestrator.units import MIB

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


class LoadBalancer(ServerFront):
    """Answers requests to load balancing endpoints.

    `applications` are the workers' servers by endpoint, those of `"*"` for every endpoint without one of its own.
    """

    def __init__(self, applications: Mapping[str, Application], live: LiveWorld, gate: Gate) -> None:
        super().__init__(applications.values(), live, gate, within_s=PROCESSING_S)
        self._applications = applications
        self._delivery = AnswerDelivery(gate.wire, live.clock, live.scale)
        self._bells: dict[str, anyio.Event] = {}

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
        return ForwardedAnswer(partial(self._forward, endpoint, meter, body))

    async def _depart(self, answer: HttpAnswer) -> Response:
        return await self._delivery.deliver(self._gate.sending(JobOperation.HTTP, answer))

    async def _forward(self, endpoint: str, meter: OperationMeter, body: bytes, scope: Scope, send: Send) -> None:
        """Hands the request to a worker, and what it says to the sender, as the faults of the wire have it."""
        try:
            with self._connected(endpoint) as fleet:
                if scope["path_params"].get("path") == "ping" and not fleet.running():
                    await Response(status_code=HTTPStatus.NO_CONTENT)(scope, nothing, send)
                    return
                worker = await self._worker(endpoint, fleet)
                if worker is None:
                    refused = await self._refused(HTTPStatus.BAD_REQUEST, "no workers available")
                    await refused(scope, nothing, send)
                    return
                application = self.application(endpoint)
                assert application is not None, "a worker runs something"
                fleet.began(worker)
                try:
                    await self._execute(application, f"{PREFIX}/{endpoint}", body, scope, send)
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

    async def _failed(self, status: int) -> Response:
        return await self._refused(
            status, "the worker took too long" if status == TIMED_OUT else "internal server error"
        )

    async def _replaced(self, sending: OutgoingAnswer) -> Response:
        return await self._delivery.deliver(sending)

    async def _refused(self, status: int, sentence: str) -> Response:
        return await self._depart(ServiceRefusal(status, sentence).answer())
