"""Templates, secrets and endpoints over HTTP: `POST /graphql`, `/v1/endpoints` and `/v1/templates` (contract; as
observed).

Thin: the key, the body, the call, the answer. Errors of `/v1` are `{"error": "...", "status": N}`; those of GraphQL
have its own form.
"""

from collections.abc import Awaitable, Callable
from functools import cache, partial
from http import HTTPStatus
from typing import TYPE_CHECKING

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from orchestrator.emulator.account.account import Account
from orchestrator.emulator.account.endpoints import ServiceEndpoint, parse_endpoint, shown_endpoint_v1
from orchestrator.emulator.account.template_bodies import (
    asked_template_v1,
    new_template_v1,
    parse_template_v1,
    shown_template_v1,
    template_after_v1,
)
from orchestrator.emulator.contract.answers import HttpAnswer, ServiceRefusal
from orchestrator.emulator.contract.callers import Caller, CallerAccess
from orchestrator.emulator.http.account_gate import AccountGate
from orchestrator.emulator.http.delivery import AnswerDelivery
from orchestrator.emulator.http.request_body import read_bounded_body
from orchestrator.emulator.http.wire import key_in
from orchestrator.units import MIB

if TYPE_CHECKING:
    from orchestrator.emulator.account_api.graphql import GraphQLApi

BODY_BYTES_MAX = MIB

GRAPHQL_PATHS = ("/graphql", "/v1")
"""Pulumi asks in the one variable for GraphQL in which the command line of the service has the URL of REST v1."""

PUBLIC_PATH = "/graphql/public"
"""Where what everybody may know is asked for without a key (as observed of the service's own address)."""

GRAPHQL = "document"
"""Under which name GraphQL's requests are counted; a document may hold many operations."""

FAILURE = ServiceRefusal(500, "internal server error")

Call = Callable[[Request], Awaitable[HttpAnswer]]


class AccountApi:
    """Answers what is not about jobs or pods. `documents` makes what answers GraphQL, at the first request."""

    def __init__(
        self, account: Account, access: CallerAccess, delivery: AnswerDelivery, *, documents: "Callable[[], GraphQLApi]"
    ) -> None:
        self._templates = account.templates
        self._endpoints = account.endpoints
        self._workers = account.workers
        self._access = access
        self._clock = delivery.clock
        self._documents = cache(documents)
        self.rest = AccountGate(delivery, FAILURE.answer_v1)
        self.graphql = AccountGate(delivery, FAILURE.answer_graphql)

    def routes(self) -> list[Route]:
        """All routes of this API."""
        endpoints, templates = "/v1/endpoints", "/v1/templates"
        one_endpoint, one_template = f"{endpoints}/{{endpoint_id}}", f"{templates}/{{template_id}}"
        operations: tuple[tuple[str, str, str, Call], ...] = (
            ("POST", endpoints, "create", self._create),
            ("GET", endpoints, "list", self._list),
            ("GET", one_endpoint, "show", self._show),
            ("PATCH", one_endpoint, "update", self._update),
            ("POST", f"{one_endpoint}/update", "update", self._update),
            ("DELETE", one_endpoint, "delete", self._delete),
            ("POST", templates, "templates create", self._create_template),
            ("GET", templates, "templates list", self._list_templates),
            ("GET", one_template, "templates show", self._show_template),
            ("PATCH", one_template, "templates update", self._update_template),
            ("POST", f"{one_template}/update", "templates update", self._update_template),
            ("DELETE", one_template, "templates delete", self._delete_template),
        )
        return [
            *(Route(path, self._graphql, methods=["POST"]) for path in (*GRAPHQL_PATHS, PUBLIC_PATH)),
            *(
                Route(path, partial(self._rest, name, call), methods=[method])
                for method, path, name, call in operations
            ),
        ]

    async def _rest(self, operation: str, call: Call, request: Request) -> Response:
        family = "templates" if request.url.path.startswith("/v1/templates") else "serverless"
        scope = f"{family}:{'read' if request.method == 'GET' else 'write'}"

        async def operate() -> HttpAnswer:
            try:
                self._checked_key(request, scope)
                answer = await self._within_limits(self.rest, operation, call, request)
            except ServiceRefusal as refusal:
                return refusal.answer_v1()
            return msgspec.structs.replace(answer, changes=request.method != "GET")

        return await self.rest.answer(operate)

    async def _graphql(self, request: Request) -> Response:
        async def operate() -> HttpAnswer:
            try:
                is_public = request.url.path == PUBLIC_PATH
                caller = None if is_public else self._access.caller_of(self._checked_key(request))
                return await self._within_limits(self.graphql, GRAPHQL, partial(self._document, caller), request)
            except ServiceRefusal as refusal:
                return refusal.answer_graphql()

        return await self.graphql.answer(operate)

    async def _within_limits(self, front: AccountGate, operation: str, call: Call, request: Request) -> HttpAnswer:
        if front.wire.doubts_key():
            raise ServiceRefusal(401, "unauthorized")
        if front.wire.throttles():
            raise ServiceRefusal(429, "too many requests")
        with front.under_way(operation) as fails:
            if fails:
                raise FAILURE
            return await call(request)

    def _checked_key(self, request: Request, scope: str | None = None) -> str:
        """A bearer header, or for GraphQL the parameter `api_key` (contract, Authentication 1).

        Without the permission `scope` a key is as wrong as an unknown one (contract of jobs, Authentication 2).
        """
        key = key_in(request.headers.get("authorization", ""))
        if not key and request.url.path in GRAPHQL_PATHS:
            key = request.query_params.get("api_key", "")
        if not self._access.takes(key) or (scope is not None and not self._access.permits(key, scope)):
            raise ServiceRefusal(401, "unauthorized")
        return key

    async def _document(self, caller: Caller | None, request: Request) -> HttpAnswer:
        """`caller` is whom its key stands for; None where none is asked for."""
        body = await read_bounded_body(request, BODY_BYTES_MAX)
        return self._documents().answer(body, self._clock.now(), caller, request.headers.get("x-team-id"))

    async def _create(self, request: Request) -> HttpAnswer:
        wanted = parse_endpoint(await read_bounded_body(request, BODY_BYTES_MAX))
        return _json(shown_endpoint_v1(self._endpoints.create(wanted, self._clock.now())))

    async def _list(self, request: Request) -> HttpAnswer:
        return _json([self._shown(endpoint, request) for endpoint in self._endpoints.list()])

    async def _show(self, request: Request) -> HttpAnswer:
        return _json(self._shown(self._endpoints.find(request.path_params["endpoint_id"]), request))

    async def _update(self, request: Request) -> HttpAnswer:
        wanted = parse_endpoint(await read_bounded_body(request, BODY_BYTES_MAX))
        return _json(
            shown_endpoint_v1(self._endpoints.update(request.path_params["endpoint_id"], wanted, self._clock.now()))
        )

    async def _delete(self, request: Request) -> HttpAnswer:
        self._endpoints.delete(request.path_params["endpoint_id"], self._clock.now())
        return HttpAnswer(status=HTTPStatus.NO_CONTENT, body=b"")

    async def _create_template(self, request: Request) -> HttpAnswer:
        body = parse_template_v1(await read_bounded_body(request, BODY_BYTES_MAX))
        return _json(shown_template_v1(self._templates.put(new_template_v1(self._templates.new_id(), body))))

    async def _list_templates(self, _request: Request) -> HttpAnswer:
        return _json([asked_template_v1(template) for template in self._templates.list()])

    async def _show_template(self, request: Request) -> HttpAnswer:
        return _json(asked_template_v1(self._templates.own(request.path_params["template_id"])))

    async def _update_template(self, request: Request) -> HttpAnswer:
        body = parse_template_v1(await read_bounded_body(request, BODY_BYTES_MAX))
        present = self._templates.own(request.path_params["template_id"])
        return _json(shown_template_v1(self._templates.put(template_after_v1(present, body))))

    async def _delete_template(self, request: Request) -> HttpAnswer:
        self._templates.forget(self._templates.own(request.path_params["template_id"]), self._clock.now())
        return HttpAnswer(status=HTTPStatus.NO_CONTENT, body=b"")

    def _shown(self, endpoint: ServiceEndpoint, request: Request) -> dict[str, object]:
        template = self._endpoints.template_of(endpoint.id) if _asked_for(request, "includeTemplate") else None
        return shown_endpoint_v1(
            endpoint, template, self._workers(endpoint.id) if _asked_for(request, "includeWorkers") else None
        )


def _asked_for(request: Request, parameter: str) -> bool:
    return request.query_params.get(parameter, "").lower() in {"true", "1"}


def _json(content: object) -> HttpAnswer:
    return HttpAnswer(status=HTTPStatus.OK, body=msgspec.json.encode(content))
