"""The proxy in front of the HTTP ports of pods (as published): `https://PODID-PORT.proxy.HOST` of the service, here
`/proxy/PODID-PORT`, so that no names have to be resolved.

What listens in a pod is an ASGI application of the user's, by port. A pod that is not RUNNING, or has no such HTTP
port, is answered 404; one whose server is not there yet, 502. A pod that stops cuts its requests off. No key is needed:
who may use a pod is for its own server to say.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final, Protocol

import anyio
from anyio.abc import TaskStatus
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from orchestrator.emulator.contract.answers import ConnectionCut, ServiceRefusal
from orchestrator.emulator.contract.limits import JobOperation
from orchestrator.emulator.http.gate import Gate
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
from orchestrator.units import MIB, SECOND_US

PREFIX: Final = "/proxy"
BODY_BYTES_MAX: Final = 100 * MIB
"""What the network in front of the proxy takes (as published)."""

PROCESSING_S: Final = 100.0
"""How long a pod may take, until the sender is answered 524 (as published)."""


class ProxiedPods(Protocol):
    """The pods of all accounts, as far as the proxy sees them."""

    on_stop: Callable[[str], None]
    """Is told the id of a pod that runs no more."""

    def listens(self, pod_id: str, port: int, now: int) -> bool | None:
        """Whether the server of a running pod is up that has this HTTP port; None: there is no such."""
        ...


class PodProxy:
    """Answers requests to the pods of a `world`. `servers` are what listens in each, by port."""

    def __init__(self, servers: Mapping[int, Application], world: ProxiedPods, live: LiveWorld, gate: Gate) -> None:
        self._servers = servers
        self._world = world
        self._live = live
        self._gate = gate
        self._lifespans = Lifespans()
        self._under_way: dict[str, set[anyio.CancelScope]] = defaultdict(set)
        world.on_stop = self._cut

    def routes(self) -> list[Route]:
        """The route of every path of every port of every pod."""
        place = f"{PREFIX}/{{pod_id}}-{{port:int}}"
        return [
            Route(place, self._answer, methods=METHODS),
            Route(f"{place}/{{path:path}}", self._answer, methods=METHODS),
        ]

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Tells each application that it begins and ends, until cancelled. Raises UsageError for one that cannot."""
        async with anyio.create_task_group() as tasks:
            await self._lifespans.begin(self._servers.values(), tasks)
            task_status.started()

    def _cut(self, pod_id: str) -> None:
        for scope in self._under_way.pop(pod_id, ()):
            scope.cancel()

    async def _answer(self, request: Request) -> Response:
        self._gate.wire.check_connection(self._live.now())
        try:
            body = await read_bounded_body(request, BODY_BYTES_MAX)
        except ServiceRefusal as refusal:
            return Response(refusal.answer().body, refusal.status)
        return _Proxied(self, request.path_params["pod_id"], request.path_params["port"], body)

    async def forward(self, pod_id: str, port: int, body: bytes, scope: Scope, send: Send) -> None:
        """Hands the request to the pod, and what that says to the sender."""
        application = self._servers.get(port)
        listens = self._world.listens(pod_id, port, self._live.now())
        if listens is None:
            await Response("404 page not found", HTTPStatus.NOT_FOUND)(scope, nothing, send)
            return
        if not listens or application is None:
            await Response("Bad gateway", HTTPStatus.BAD_GATEWAY)(scope, nothing, send)
            return
        with anyio.CancelScope() as while_up:
            self._under_way[pod_id].add(while_up)
            try:
                await self._execute(application, f"{PREFIX}/{pod_id}-{port}", body, scope, send)
            finally:
                self._under_way[pod_id].discard(while_up)
        if while_up.cancelled_caught:
            raise ConnectionCut

    async def _execute(self, application: Application, root: str, body: bytes, scope: Scope, send: Send) -> None:
        sending = self._gate.sending(JobOperation.HTTP, BEGINNING)
        if sending.delay_us:
            await anyio.sleep(sending.delay_us / SECOND_US / self._live.scale)
        answer = Reply(sending, send)
        with anyio.move_on_after(PROCESSING_S / self._live.scale) as in_time:
            try:
                await application(
                    below_root(scope, root, self._lifespans.state_of(application)), whole(body), answer.send
                )
            except (ConnectionCut, anyio.get_cancelled_exc_class()):
                raise
            except Exception:  # noqa: BLE001  a pod's server answers 500, whatever was raised in it
                if answer.has_begun and not answer.is_whole:
                    raise ConnectionCut from None
                if not answer.has_begun:
                    await Response("Internal Server Error", HTTPStatus.INTERNAL_SERVER_ERROR)(scope, nothing, send)
                return
        self._gate.wire.check_connection(self._live.now())
        if in_time.cancelled_caught and not answer.has_begun:
            await Response("a timeout occurred", TIMED_OUT)(scope, nothing, send)
        elif in_time.cancelled_caught or answer.is_cut:
            raise ConnectionCut
        elif sending.answer is not BEGINNING:  # a fault has put something else in its place
            spoiled = sending.answer
            await Response(spoiled.body, spoiled.status, media_type=spoiled.content_type)(scope, nothing, send)


class _Proxied(Response):
    """The answer of a pod, which is written while it comes."""

    def __init__(self, proxy: PodProxy, pod_id: str, port: int, body: bytes) -> None:
        super().__init__()
        self._proxy = proxy
        self._pod_id = pod_id
        self._port = port
        self._request_body = body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        cut: ConnectionCut | None = None

        async def forward() -> None:
            nonlocal cut
            try:
                await self._proxy.forward(self._pod_id, self._port, self._request_body, scope, send)
            except ConnectionCut as error:
                cut = error

        await hold_request(Request(scope, receive), math.inf, forward)
        if cut is not None:
            raise cut
