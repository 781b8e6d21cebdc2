"""The pod operations over HTTP: `/v2/pods` (contract of pods, Endpoints; as observed)."""

import random
import uuid
from collections.abc import Awaitable, Callable, Collection, Mapping
from http import HTTPStatus

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from orchestrator.clock import Clock
from orchestrator.emulator.answers import Answer, ConnectionCut
from orchestrator.emulator.pod_access import READ, WRITE, Access, Caller
from orchestrator.emulator.pod_bodies import parse_action, parse_creation, parse_modification
from orchestrator.emulator.pod_records import PodRecord
from orchestrator.emulator.pod_templates import TemplateSource
from orchestrator.emulator.pods import PodSettings, PodWorld
from orchestrator.emulator.problems import Problem, invalid

BODY_BYTES_MAX = 1024 * 1024

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
"""All are let in, so that the wrong ones are answered in the service's form."""

Operation = Callable[[Request, str], Awaitable[Answer]]


class Pods(msgspec.Struct, frozen=True):
    """The answer to a list; there is no pagination."""

    pods: tuple[PodRecord, ...]


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
        keys: Collection[str] | None = None,
    ) -> None:
        """`keys` are those that the emulator takes (None: any), unless the settings say whom each stands for."""
        callers = dict.fromkeys(keys, Caller()) if settings.callers is None and keys is not None else settings.callers
        self.world = PodWorld(settings, rng, templates)
        self._access = Access(callers, settings.quotas)
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
        return await self._answer(request, {"GET": (READ, self._list), "POST": (WRITE, self._create)})

    async def pod(self, request: Request) -> Response:
        """`GET`, `PATCH` and `DELETE /v2/pods/{id}`."""
        operations = {"GET": (READ, self._get), "PATCH": (WRITE, self._modify), "DELETE": (WRITE, self._delete)}
        return await self._answer(request, operations)

    async def action(self, request: Request) -> Response:
        """`POST /v2/pods/{id}/action`."""
        return await self._answer(request, {"POST": (WRITE, self._act)})

    async def _answer(self, request: Request, operations: Mapping[str, tuple[str, Operation]]) -> Response:
        headers: tuple[tuple[str, str], ...] = ()
        try:
            caller = self._access.caller(request.headers.get("authorization", ""))
            try:
                self._access.count(caller, self._clock.now())
                answer = await self._operate(request, caller, operations)
            finally:
                headers = self._access.headers(caller, self._clock.now())
        except Problem as problem:
            answer = problem.answer()
        request_id = uuid.UUID(int=self._rng.getrandbits(128), version=4)
        response = Response(answer.body, answer.status, media_type=answer.content_type or None)
        response.headers.update({**dict(answer.headers), **dict(headers), "x-request-id": str(request_id)})
        return response

    async def _operate(
        self, request: Request, caller: Caller, operations: Mapping[str, tuple[str, Operation]]
    ) -> Answer:
        if request.method not in operations:
            allow = (("allow", ", ".join(operations)),)
            raise Problem(HTTPStatus.METHOD_NOT_ALLOWED, "method not allowed", headers=allow)
        scope, operation = operations[request.method]
        caller.check(scope)
        return await operation(request, caller.account(request.headers.get("x-team-id")))

    async def _list(self, request: Request, account: str) -> Answer:
        wanted = request.query_params.get("includeClusterPods", "false")
        if wanted not in ("true", "false"):
            raise invalid(["includeClusterPods: got string, want boolean"])
        now = self._clock.now()
        return _ok(Pods(self.world.list(account, now, include_cluster_pods=wanted == "true")))

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


def _ok(content: PodRecord | Pods, status: HTTPStatus = HTTPStatus.OK) -> Answer:
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
