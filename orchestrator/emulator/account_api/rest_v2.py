"""What every operation of the REST interface (v2) has in common, whatever it is about (contract of pods).

A request is checked in this order: key (401), rate limit (429), method (405), permission (403), body (400, 422), the
thing itself (404), its state (409). What is turned down is a problem document. The limits are a user's, so all that
speak for one share an `CallerAccess`.
"""

import random
import uuid
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from http import HTTPStatus

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from orchestrator.emulator.account_api.log_streams import LogStreams
from orchestrator.emulator.contract.answers import ConnectionCut, HttpAnswer, ProblemRefusal, ServiceRefusal
from orchestrator.emulator.contract.callers import Caller, CallerAccess, exceeded
from orchestrator.emulator.contract.paging import Pages
from orchestrator.emulator.http.account_gate import AccountGate
from orchestrator.emulator.http.delivery import AnswerDelivery
from orchestrator.emulator.http.request_body import read_bounded_body
from orchestrator.units import MIB

BODY_BYTES_MAX = MIB

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
"""All are let in, so that the wrong ones are answered in the service's form."""

UNKNOWN = "unknown"
"""Under which name requests with a wrong method are counted."""


Call = Callable[[Request, str], Awaitable[HttpAnswer]]
"""Answers a request that is about the account of that name."""


class RestOperation(msgspec.Struct, frozen=True):
    """What a method does at a path: its name among the figures, its permission (None: any key), the call."""

    name: str
    scope: str | None
    call: Call


class RestV2:
    """Answers requests with one of the operations of their path. `pages` cuts lists."""

    def __init__(self, access: CallerAccess, delivery: AnswerDelivery, rng: random.Random, pages: Pages) -> None:
        self.front = AccountGate(delivery, _failed().answer)
        self.clock = delivery.clock
        self.pages = pages
        self.logs = LogStreams(delivery.clock, delivery.scale)
        self._access = access
        self._rng = rng

    def route(self, area: str | None, path: str, *, bytes_max: int | None = None, **calls: tuple[str, Call]) -> Route:
        """The route of a path that belongs to an `area` of permissions (None: any key will do).

        `calls` are by method, each with the operation's name among the figures. A body longer than `bytes_max` is
        refused before all else.
        """
        operations = {
            method: RestOperation(name, area and f"{area}:{'read' if method == 'GET' else 'write'}", call)
            for method, (name, call) in calls.items()
        }

        async def answer(request: Request) -> Response:
            return await self.front.answer(partial(self._decide, request, operations, bytes_max))

        return Route(path, answer, methods=METHODS)

    async def _decide(
        self, request: Request, operations: Mapping[str, RestOperation], bytes_max: int | None
    ) -> HttpAnswer:
        headers: tuple[tuple[str, str], ...] = ()
        try:
            if bytes_max is not None:
                await _check_length(request, bytes_max)
            caller = self._access.caller(request.headers.get("authorization", ""))
            try:
                answer = await self._within_limits(request, caller, operations)
            finally:
                headers = self._access.headers(caller, self.clock.now())
        except ProblemRefusal as problem:
            answer = problem.answer()
        request_id = uuid.UUID(int=self._rng.getrandbits(128), version=4)
        return msgspec.structs.replace(answer, headers=(*answer.headers, *headers, ("x-request-id", str(request_id))))

    async def _within_limits(
        self, request: Request, caller: Caller, operations: Mapping[str, RestOperation]
    ) -> HttpAnswer:
        operation = operations.get(request.method)
        name = UNKNOWN if operation is None else operation.name
        if self.front.wire.doubts_key():
            raise ProblemRefusal(HTTPStatus.UNAUTHORIZED, "invalid bearer token")
        if self.front.wire.throttles():
            raise exceeded("minute", 1)
        try:
            self._access.count(caller, self.clock.now())
        except ProblemRefusal:
            self.front.turn_away(name)
            raise
        with self.front.under_way(name) as fails:
            if fails:
                raise _failed()
            if operation is None:
                raise ProblemRefusal(
                    HTTPStatus.METHOD_NOT_ALLOWED, "method not allowed", headers=(("allow", ", ".join(operations)),)
                )
            if operation.scope is not None:
                caller.check(operation.scope)
            try:
                answer = await operation.call(request, caller.account(request.headers.get("x-team-id")))
            except ServiceRefusal as refusal:
                raise _problem_of(refusal) from None
            return msgspec.structs.replace(answer, changes=request.method != "GET")


NOTHING = HttpAnswer(status=HTTPStatus.NO_CONTENT, body=b"", content_type="")


def ok(content: object, status: HTTPStatus = HTTPStatus.OK) -> HttpAnswer:
    """A success, with `content` as JSON."""
    return HttpAnswer(status=status, body=msgspec.json.encode(content))


def read_json_body(request: Request) -> Awaitable[bytes]:
    """The whole body. Raises Refusal 413 for one that is too long, ConnectionCut if its sender hangs up."""
    return read_bounded_body(request, BODY_BYTES_MAX)


async def _check_length(request: Request, bytes_max: int) -> None:
    """Raises Problem 413, ConnectionCut if its sender hangs up. Afterwards the body can be read as before."""
    try:
        length = len(await request.body())
    except ClientDisconnect:
        raise ConnectionCut from None
    if length > bytes_max:
        raise ProblemRefusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body is larger than {bytes_max} bytes")


def _problem_of(refusal: ServiceRefusal) -> ProblemRefusal:
    """What a refusal of an older interface is in v2: what is used cannot be deleted is a 400 there (as observed)."""
    status = HTTPStatus.BAD_REQUEST if refusal.status == HTTPStatus.CONFLICT else refusal.status
    return ProblemRefusal(status, refusal.error)


def _failed() -> ProblemRefusal:
    return ProblemRefusal(HTTPStatus.INTERNAL_SERVER_ERROR, "internal server error")
