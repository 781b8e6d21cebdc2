"""The pod operations over HTTP: `/v2/pods` (contract of pods, Endpoints; as observed)."""

import random
import uuid
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from http import HTTPStatus

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from orchestrator.clock import Clock
from orchestrator.emulator.answers import Answer, ConnectionCut
from orchestrator.emulator.front import Front
from orchestrator.emulator.pod_access import READ, WRITE, Access, Caller, exceeded
from orchestrator.emulator.pod_bodies import parse_action, parse_creation, parse_modification
from orchestrator.emulator.pod_pages import Page
from orchestrator.emulator.pod_records import PodRecord
from orchestrator.emulator.pod_templates import TemplateSource
from orchestrator.emulator.pods import Listed, PodSettings, PodWorld
from orchestrator.emulator.problems import Problem, invalid
from orchestrator.emulator.wire import Wire
from orchestrator.units import MIB

BODY_BYTES_MAX = MIB

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
"""All are let in, so that the wrong ones are answered in the service's form."""

UNKNOWN = "unknown"
"""Under which name requests with a wrong method are counted."""


class Operation(msgspec.Struct, frozen=True):
    """What one method does at one path: its name among the figures, the permission it takes, and the call."""

    name: str
    scope: str
    call: Callable[[Request, str], Awaitable[Answer]]


class PodApi:
    """Answers requests about pods.

    A request is checked in this order: key (401), rate limit (429), method (405), permission (403), body (400, 422),
    pod (404), its state (409). `world` is there for tests: containers that end, pods that fail, members of clusters.
    """

    def __init__(
        self,
        settings: PodSettings,
        *,
        templates: TemplateSource,
        clock: Clock,
        rng: random.Random,
        wire: Wire,
        scale: float = 1.0,
        keys: Collection[str] | None = None,
    ) -> None:
        """`keys` are those that the emulator takes (None: any), unless the settings say whom each stands for.

        `scale` is how fast `clock` runs.
        """
        callers = dict.fromkeys(keys, Caller()) if settings.callers is None and keys is not None else settings.callers
        self.world = PodWorld(settings, rng, templates)
        self.front = Front(wire, clock, scale=scale, failure=_failed().answer)
        self._access = Access(callers, settings.quotas, scale=scale)
        self._clock = clock
        self._rng = rng

    def routes(self) -> list[Route]:
        """The routes of the pod interface. They stand behind the job routes, whose endpoint may be called "pods"."""
        return [
            Route("/v2/pods", self.pods, methods=_METHODS),
            Route("/v2/pods/{pod_id}", self.pod, methods=_METHODS),
            Route("/v2/pods/{pod_id}/action", self.action, methods=_METHODS),
        ]

    async def pods(self, request: Request) -> Response:
        """`GET` and `POST /v2/pods`."""
        create = Operation("create", WRITE, self._create)
        return await self._answer(request, {"GET": Operation("list", READ, self._list), "POST": create})

    async def pod(self, request: Request) -> Response:
        """`GET`, `PATCH` and `DELETE /v2/pods/{id}`."""
        operations = {
            "GET": Operation("get", READ, self._get),
            "PATCH": Operation("modify", WRITE, self._modify),
            "DELETE": Operation("delete", WRITE, self._delete),
        }
        return await self._answer(request, operations)

    async def action(self, request: Request) -> Response:
        """`POST /v2/pods/{id}/action`."""
        return await self._answer(request, {"POST": Operation("action", WRITE, self._act)})

    async def _answer(self, request: Request, operations: Mapping[str, Operation]) -> Response:
        return await self.front.answer(partial(self._decide, request, operations))

    async def _decide(self, request: Request, operations: Mapping[str, Operation]) -> Answer:
        headers: tuple[tuple[str, str], ...] = ()
        try:
            caller = self._access.caller(request.headers.get("authorization", ""))
            try:
                answer = await self._within_limits(request, caller, operations)
            finally:
                headers = self._access.headers(caller, self._clock.now())
        except Problem as problem:
            answer = problem.answer()
        request_id = uuid.UUID(int=self._rng.getrandbits(128), version=4)
        return msgspec.structs.replace(answer, headers=(*answer.headers, *headers, ("x-request-id", str(request_id))))

    async def _within_limits(self, request: Request, caller: Caller, operations: Mapping[str, Operation]) -> Answer:
        operation = operations.get(request.method)
        name = UNKNOWN if operation is None else operation.name
        if self.front.doubts_key():
            raise Problem(HTTPStatus.UNAUTHORIZED, "invalid bearer token")
        if self.front.throttles():
            raise exceeded("minute", 1)
        try:
            self._access.count(caller, self._clock.now())
        except Problem:
            self.front.turn_away(name)
            raise
        with self.front.under_way(name) as fails:
            if fails:
                raise _failed()
            if operation is None:
                raise Problem(
                    HTTPStatus.METHOD_NOT_ALLOWED, "method not allowed", headers=(("allow", ", ".join(operations)),)
                )
            caller.check(operation.scope)
            answer = await operation.call(request, caller.account(request.headers.get("x-team-id")))
            return msgspec.structs.replace(answer, changes=operation.scope == WRITE)

    async def _list(self, request: Request, account: str) -> Answer:
        wanted = request.query_params.get("includeClusterPods", "false")
        if wanted not in ("true", "false"):
            raise invalid(["includeClusterPods: got string, want boolean"])
        now = self._clock.now()
        page = Page.of(request.query_params)
        return _ok(self.world.page(account, now, page, include_cluster_pods=wanted == "true"))

    async def _create(self, request: Request, account: str) -> Answer:
        creation = parse_creation(await _body(request))
        return _ok(self.world.create(account, creation, self._clock.now()), HTTPStatus.CREATED)

    async def _get(self, request: Request, account: str) -> Answer:
        return _ok(self.world.get(account, _pod_id(request), self._clock.now()))

    async def _modify(self, request: Request, account: str) -> Answer:
        modification = parse_modification(await _body(request))
        return _ok(self.world.modify(account, _pod_id(request), modification, self._clock.now()))

    async def _delete(self, request: Request, account: str) -> Answer:
        self.world.delete(account, _pod_id(request), self._clock.now())
        return _NOTHING

    async def _act(self, request: Request, account: str) -> Answer:
        action = parse_action(await _body(request))
        pod = self.world.act(account, _pod_id(request), action, self._clock.now())
        return _NOTHING if pod is None else _ok(pod)


_NOTHING = Answer(status=HTTPStatus.NO_CONTENT, body=b"", content_type="")


def _failed() -> Problem:
    return Problem(HTTPStatus.INTERNAL_SERVER_ERROR, "internal server error")


def _ok(content: PodRecord | Listed, status: HTTPStatus = HTTPStatus.OK) -> Answer:
    return Answer(status=status, body=msgspec.json.encode(content))


def _pod_id(request: Request) -> str:
    pod_id: str = request.path_params["pod_id"]
    return pod_id


async def _body(request: Request) -> bytes:
    """The whole body. Raises Problem 413 for one that is too long, ConnectionCut if its sender hangs up."""
    body = b""
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > BODY_BYTES_MAX:
                raise Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body is larger than {BODY_BYTES_MAX} bytes")
    except ClientDisconnect:
        raise ConnectionCut from None
    return body
