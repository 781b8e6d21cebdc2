"""The pod operations over HTTP: `/v2/pods` (contract of pods, Endpoints; as observed)."""

from functools import partial
from http import HTTPStatus

from starlette.requests import Request
from starlette.routing import Route

from orchestrator.emulator.account.pod_bodies import parse_action, parse_creation, parse_modification
from orchestrator.emulator.account.pods import PodWorld
from orchestrator.emulator.account_api.rest_v2 import NOTHING, RestV2, ok, read_json_body
from orchestrator.emulator.contract.answers import HttpAnswer, invalid_problem

CREATION_BYTES_MAX = 102_400
"""A longer body of a new pod is refused before its key is looked at (as published; with `strict`)."""


class PodApi:
    """Answers requests about pods."""

    def __init__(self, rest: RestV2, world: PodWorld) -> None:
        self._rest = rest
        self._world = world
        self._strict = world.settings.strict

    def routes(self) -> list[Route]:
        """The routes of the pod interface. They stand behind the job routes, whose endpoint may be called "pods"."""
        route, one = partial(self._rest.route, "pods"), "/v2/pods/{pod_id}"
        bytes_max = CREATION_BYTES_MAX if self._strict else None
        return [
            route("/v2/pods", bytes_max=bytes_max, GET=("list", self._list), POST=("create", self._create)),
            route(one, GET=("get", self._get), PATCH=("modify", self._modify), DELETE=("delete", self._delete)),
            route(f"{one}/action", POST=("action", self._act)),
            route(f"{one}/logs", GET=("logs", self._read_log)),
        ]

    async def _list(self, request: Request, account: str) -> HttpAnswer:
        wanted = request.query_params.get("includeClusterPods", "false")
        if wanted not in ("true", "false"):
            raise invalid_problem(["includeClusterPods: got string, want boolean"])
        now = self._rest.clock.now()
        page = self._world.page(account, now, request.query_params, include_cluster_pods=wanted == "true")
        return ok(page)

    async def _create(self, request: Request, account: str) -> HttpAnswer:
        creation = parse_creation(await read_json_body(request), strict=self._strict)
        return ok(self._world.create(account, creation, self._rest.clock.now()), HTTPStatus.CREATED)

    async def _get(self, request: Request, account: str) -> HttpAnswer:
        return ok(self._world.get(account, _pod_id(request), self._rest.clock.now()))

    async def _modify(self, request: Request, account: str) -> HttpAnswer:
        modification = parse_modification(await read_json_body(request))
        return ok(self._world.modify(account, _pod_id(request), modification, self._rest.clock.now()))

    async def _delete(self, request: Request, account: str) -> HttpAnswer:
        self._world.delete(account, _pod_id(request), self._rest.clock.now())
        return NOTHING

    async def _act(self, request: Request, account: str) -> HttpAnswer:
        action = parse_action(await read_json_body(request))
        pod = self._world.act(account, _pod_id(request), action, self._rest.clock.now())
        return NOTHING if pod is None else ok(pod)

    async def _read_log(self, request: Request, account: str) -> HttpAnswer:
        pod_id = _pod_id(request)
        return self._rest.logs.answer(
            request, lambda asked: self._world.log(account, pod_id, asked, self._rest.clock.now())
        )


def _pod_id(request: Request) -> str:
    pod_id: str = request.path_params["pod_id"]
    return pod_id
