"""Endpoints by the REST interface v2: `/v2/serverless` (as observed).

An endpoint has a template of its own, a copy of the one it was created from.
"""

from collections.abc import Sequence
from functools import partial
from http import HTTPStatus

import msgspec
from starlette.requests import Request
from starlette.routing import Route

from orchestrator.emulator.account.account import Account
from orchestrator.emulator.account.endpoints import ServiceEndpoint
from orchestrator.emulator.account.pod_logs import SYSTEM, PodLogLine
from orchestrator.emulator.account.pod_records import OMITTED, Omitted
from orchestrator.emulator.account.serverless_bodies import (
    EndpointBody,
    EndpointCreation,
    changes_of,
    parse_endpoint_creation,
    parse_endpoint_update,
    shown_endpoint,
)
from orchestrator.emulator.account.template_bodies import DISK_GB, contained
from orchestrator.emulator.account.templates import ServiceTemplate, blank_template, kept
from orchestrator.emulator.account_api.rest_v2 import NOTHING, RestV2, ok, read_json_body
from orchestrator.emulator.contract.answers import HttpAnswer, ProblemRefusal, invalid_problem, not_found_problem
from orchestrator.emulator.contract.ids_and_times import iso_time
from orchestrator.emulator.job_api.load_balancer import base_url
from orchestrator.emulator.jobs.fleet import WorkerView
from orchestrator.units import SECOND_US

STATUSES = ("running", "idle", "initializing", "throttled", "unhealthy")
"""Those of a worker, of each of which the summary says how many there are."""


class ServerlessApi:
    """Answers requests about endpoints."""

    def __init__(self, rest: RestV2, account: Account) -> None:
        self._rest = rest
        self._endpoints = account.endpoints
        self._templates = account.templates
        self._workers = account.workers

    def routes(self) -> list[Route]:
        """The routes of endpoints."""
        route, one = partial(self._rest.route, "serverless"), "/v2/serverless/{endpoint_id}"
        create, update = ("serverless create", self._create), ("serverless update", self._update)
        return [
            route("/v2/serverless", GET=("serverless list", self._list), POST=create),
            route(one, GET=("serverless get", self._get), PATCH=update, DELETE=("serverless delete", self._delete)),
            route(f"{one}/workers", GET=("serverless workers", self._list_workers)),
            route(f"{one}/releases", GET=("serverless releases", self._list_releases)),
            route(f"{one}/builds", GET=("serverless builds", self._list_builds)),
            route(f"{one}/builds/{{build_id}}", GET=("serverless build", self._get_build)),
            route(f"{one}/workers/{{worker_id}}/logs", GET=("serverless logs", self._read_log)),
        ]

    async def _list(self, request: Request, _account: str) -> HttpAnswer:
        page, pagination = self._rest.pages.cut("serverless", self._endpoints.list(), request.query_params)
        return ok({"endpoints": [self._shown(endpoint, request) for endpoint in page], "pagination": pagination})

    async def _create(self, request: Request, _account: str) -> HttpAnswer:
        body = parse_endpoint_creation(await read_json_body(request))
        endpoint = self._endpoints.create(changes_of(body), self._rest.clock.now(), own=self._template(body))
        return ok(self._shown(endpoint, request), HTTPStatus.CREATED)

    async def _get(self, request: Request, _account: str) -> HttpAnswer:
        return ok(self._shown(self._find(request), request))

    async def _update(self, request: Request, _account: str) -> HttpAnswer:
        body = parse_endpoint_update(await read_json_body(request))
        before = self._find(request)
        settings = changes_of(body, before)
        template = None
        if body.is_about_container or not isinstance(body.name, Omitted):
            present = self._template_of(before)
            name = (
                present.name if isinstance(body.name, Omitted) else f"{body.name}-template"
            )  # a shared one, too (as observed)
            source = self._source(body) or present
            template = msgspec.structs.replace(contained(source, body), id=present.id, name=name)
        after = self._endpoints.update(before.id, settings, self._rest.clock.now(), template=template)
        return ok(self._shown(after, request))

    async def _delete(self, request: Request, _account: str) -> HttpAnswer:
        self._endpoints.delete(self._find(request).id, self._rest.clock.now())
        return NOTHING

    async def _list_workers(self, request: Request, _account: str) -> HttpAnswer:
        endpoint = self._find(request)
        workers = [self._worker(endpoint, view) for view in self._workers(endpoint.id)]
        of = {name: sum(worker["status"] == name.upper() for worker in workers) for name in STATUSES}
        return ok(
            {
                "workers": workers,
                "summary": {**of, "total": len(workers)},
                "endpointVersion": endpoint.version,
            }
        )

    async def _list_releases(self, request: Request, _account: str) -> HttpAnswer:
        endpoint = self._find(request)
        page, pagination = self._rest.pages.cut("releases", self._endpoints.releases(endpoint.id), request.query_params)
        workers = len(self._workers(endpoint.id))
        rollout = {
            "inProgress": False,
            "workersOnLatest": workers,
            "workersTotal": workers,
            "percentOnLatest": 100,
        }
        shown = msgspec.to_builtins(page)
        return ok(
            {
                "endpointVersion": endpoint.version,
                "rollout": rollout,
                "releases": shown,
                "pagination": pagination,
            }
        )

    async def _list_builds(self, request: Request, _account: str) -> HttpAnswer:
        """None, since images are made elsewhere (our choice)."""
        self._find(request)
        none: tuple[str, ...] = ()
        builds, pagination = self._rest.pages.cut("builds", none, request.query_params)
        return ok({"builds": builds, "pagination": pagination})

    async def _get_build(self, request: Request, _account: str) -> HttpAnswer:
        self._find(request)
        raise not_found_problem()

    async def _read_log(self, request: Request, _account: str) -> HttpAnswer:
        return self._rest.logs.answer(request, lambda asked: (asked.of(self._log(request)), True))

    def _log(self, request: Request) -> Sequence[PodLogLine]:
        """What was done with a worker; what its jobs print stays with their handlers (our choice). Raises Problem."""
        endpoint, worker_id = self._find(request), request.path_params["worker_id"]
        view = next((each for each in self._workers(endpoint.id) if each.id == worker_id), None)
        if view is None:
            raise not_found_problem()
        started = PodLogLine(
            view.started_at, 1, SYSTEM, f"worker created with image {self._template_of(endpoint).image_name}"
        )
        ready = () if view.ready_at is None else (PodLogLine(view.ready_at, 2, SYSTEM, "worker ready"),)
        return (started, *ready)

    def _worker(self, endpoint: ServiceEndpoint, view: WorkerView) -> dict[str, object]:
        status = "INITIALIZING" if not view.is_ready else "RUNNING" if view.is_busy else "IDLE"
        return {
            "id": view.id,
            "status": status,
            "gpuCount": 0 if endpoint.cpu else endpoint.gpu_count,
            "isStale": False,
            "version": endpoint.version,
            "image": self._template_of(endpoint).image_name,
            "uptimeSeconds": (self._rest.clock.now() - view.started_at) // SECOND_US if view.is_ready else None,
            "gpuTypeId": None if endpoint.cpu else self._endpoints.gpu_of(endpoint.id),
            "dataCenterId": next(iter(endpoint.data_center_ids), None),
            "startedAt": iso_time(view.started_at),
        }

    def _find(self, request: Request) -> ServiceEndpoint:
        return self._endpoints.find(request.path_params["endpoint_id"])

    def _shown(self, endpoint: ServiceEndpoint, request: Request) -> dict[str, object]:
        return shown_endpoint(endpoint, self._template_of(endpoint), base_url(request, endpoint.id))

    def _template_of(self, endpoint: ServiceEndpoint) -> ServiceTemplate:
        template = self._templates.find(endpoint.template_id)
        assert template is not None, "what an endpoint uses is not deleted"
        return template

    def _template(self, body: EndpointCreation) -> ServiceTemplate:
        """The template that a new endpoint is to have for its own."""
        source = self._source(body) or blank_template(DISK_GB)
        own = contained(source, body)
        if not isinstance(body.env, Omitted) and not isinstance(body.template_id, Omitted):
            own = msgspec.structs.replace(own, **kept({**source.variables, **body.env}, OMITTED))  # as observed
        return msgspec.structs.replace(
            own, id=self._templates.new_id(), name=f"{body.name}-template", is_serverless=True
        )

    def _source(self, body: EndpointBody) -> ServiceTemplate | None:
        """The template that `body` names. Raises Problem: 404 where there is none, 422 for one of pods."""
        if isinstance(body.template_id, Omitted):
            return None
        template = self._templates.find(body.template_id)
        if template is None:
            raise ProblemRefusal(HTTPStatus.NOT_FOUND, "template not found")
        if not template.is_serverless:
            raise invalid_problem(["$.templateId: it is a template for pods"])
        return template
