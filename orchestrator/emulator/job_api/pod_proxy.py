"""The proxy in front of the HTTP ports of pods (as published): `https://PODID-PORT.proxy.HOST` of the service, here
`/proxy/PODID-PORT`, so that no names have to be resolved.

What listens in a pod is an ASGI application of the user's, by port. A pod that is not RUNNING, or has no such HTTP
port, is answered 404; one whose server is not there yet, 502. A pod that stops cuts its requests off. No key is needed:
who may use a pod is for its own server to say.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Final, Protocol

import anyio
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Scope, Send

from orchestrator.emulator.contract.answers import ConnectionCut, ServiceRefusal
from orchestrator.emulator.http.gate import Gate
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
from orchestrator.units import MIB

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


class PodProxy(ServerFront):
    """Answers requests to the pods of a `world`. `servers` are what listens in each, by port."""

    def __init__(self, servers: Mapping[int, Application], world: ProxiedPods, live: LiveWorld, gate: Gate) -> None:
        super().__init__(servers.values(), live, gate, within_s=PROCESSING_S)
        self._servers = servers
        self._world = world
        self._under_way: dict[str, set[anyio.CancelScope]] = defaultdict(set)
        world.on_stop = self._cut

    def routes(self) -> list[Route]:
        """The route of every path of every port of every pod."""
        place = f"{PREFIX}/{{pod_id}}-{{port:int}}"
        return [
            Route(place, self._answer, methods=METHODS),
            Route(f"{place}/{{path:path}}", self._answer, methods=METHODS),
        ]

    def _cut(self, pod_id: str) -> None:
        for scope in self._under_way.pop(pod_id, ()):
            scope.cancel()

    async def _answer(self, request: Request) -> Response:
        self._gate.wire.check_connection(self._live.now())
        try:
            body = await read_bounded_body(request, BODY_BYTES_MAX)
        except ServiceRefusal as refusal:
            return Response(refusal.answer().body, refusal.status)
        return ForwardedAnswer(partial(self._forward, request.path_params["pod_id"], request.path_params["port"], body))

    async def _forward(self, pod_id: str, port: int, body: bytes, scope: Scope, send: Send) -> None:
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

    async def _failed(self, status: int) -> Response:
        return Response("a timeout occurred" if status == TIMED_OUT else "Internal Server Error", status)

    async def _replaced(self, sending: OutgoingAnswer) -> Response:
        spoiled = sending.answer
        return Response(spoiled.body, spoiled.status, media_type=spoiled.content_type)
