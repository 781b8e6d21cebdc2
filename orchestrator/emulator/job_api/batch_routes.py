"""`/batch` over HTTP, thin: let the request in, call the batches, let the answer out."""

from collections.abc import Awaitable, Callable
from functools import partial
from http import HTTPStatus
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from orchestrator.emulator.batches.batch_bodies import name_given, requests_appended, requests_created
from orchestrator.emulator.batches.batch_records import (
    AppendReply,
    BatchesPage,
    BatchReply,
    BatchSummary,
    RequestsPage,
)
from orchestrator.emulator.batches.batch_rules import CALL_BYTES_MAX
from orchestrator.emulator.batches.batches import Batches
from orchestrator.emulator.contract.answers import HttpAnswer, ServiceRefusal
from orchestrator.emulator.contract.limits import JobOperation
from orchestrator.emulator.http.delivery import AnswerDelivery
from orchestrator.emulator.http.gate import Gate
from orchestrator.emulator.http.request_body import read_bounded_body
from orchestrator.emulator.job_api.live_world import LiveWorld
from orchestrator.emulator.jobs.endpoint_table import batch_pool

Reply = BatchReply | AppendReply | BatchSummary | BatchesPage | RequestsPage
Operate = Callable[[str, Request], Awaitable[Reply]]

_BATCH: Final = JobOperation.BATCH
_PATH: Final = "/v2/{endpoint_id}/batch"


class BatchApi:
    """Answers the operations of batches. `changed` is called after each with the endpoint's pool of batch workers, for
    whom there may be something to do.
    """

    def __init__(self, batches: Batches, live: LiveWorld, gate: Gate, *, changed: Callable[[str], None]) -> None:
        self._batches = batches
        self._live = live
        self._gate = gate
        self._delivery = AnswerDelivery(gate.wire, live.clock, live.scale)
        self._changed = changed

    def routes(self) -> list[Route]:
        """The routes of this API (as documented)."""
        operations: tuple[tuple[str, str, Operate], ...] = (
            ("POST", "", self._create),
            ("GET", "", self._newest),
            ("GET", "/{batch_id}", self._get),
            ("PUT", "/{batch_id}", self._rename),
            ("POST", "/{batch_id}/requests", self._append),
            ("GET", "/{batch_id}/requests", self._page),
            ("DELETE", "/{batch_id}/requests/{request_id}", self._remove),
            ("POST", "/{batch_id}/finalize", self._finalize),
            ("POST", "/{batch_id}/cancel", self._cancel),
        )
        return [
            Route(f"{_PATH}{path}", partial(self._operate, operate), methods=[method])
            for method, path, operate in operations
        ]

    async def _operate(self, operate: Operate, request: Request) -> Response:
        endpoint: str = request.path_params["endpoint_id"]
        is_question = request.method in ("GET", "HEAD")
        authorization = request.headers.get("authorization", "")
        try:
            meter = self._gate.enter(endpoint, _BATCH, authorization, self._live.now(), is_question=is_question)
        except ServiceRefusal as refusal:
            return await self._delivery.deliver(self._gate.sending(_BATCH, refusal.answer()))
        try:
            answer = await self._answer(operate, endpoint, request, changes=not is_question)
            return await self._delivery.deliver(self._gate.sending(_BATCH, answer))
        finally:
            meter.leave()

    async def _answer(self, operate: Operate, endpoint: str, request: Request, *, changes: bool) -> HttpAnswer:
        try:
            reply = await operate(endpoint, request)
        except ServiceRefusal as refusal:
            return refusal.answer()
        finally:
            self._changed(batch_pool(endpoint))
        return HttpAnswer(status=HTTPStatus.OK, body=msgspec.json.encode(reply), changes=changes)

    async def _create(self, endpoint: str, request: Request) -> Reply:
        inputs = requests_created(await read_bounded_body(request, CALL_BYTES_MAX))
        return self._batches.create(endpoint, inputs, self._live.now())

    async def _append(self, endpoint: str, request: Request) -> Reply:
        inputs = requests_appended(await read_bounded_body(request, CALL_BYTES_MAX))
        return self._batches.append(endpoint, _batch_id(request), inputs, self._live.now())

    async def _rename(self, endpoint: str, request: Request) -> Reply:
        name = name_given(await read_bounded_body(request, CALL_BYTES_MAX))
        return self._batches.rename(endpoint, _batch_id(request), name, self._live.now())

    async def _remove(self, endpoint: str, request: Request) -> Reply:
        return self._batches.remove(endpoint, _batch_id(request), request.path_params["request_id"], self._live.now())

    async def _finalize(self, endpoint: str, request: Request) -> Reply:
        return self._batches.finalize(endpoint, _batch_id(request), self._live.now())

    async def _cancel(self, endpoint: str, request: Request) -> Reply:
        return self._batches.cancel(endpoint, _batch_id(request), self._live.now())

    async def _newest(self, endpoint: str, request: Request) -> Reply:
        return self._batches.newest(endpoint, *_place(request), self._live.now())

    async def _get(self, endpoint: str, request: Request) -> Reply:
        return self._batches.get(endpoint, _batch_id(request), self._live.now())

    async def _page(self, endpoint: str, request: Request) -> Reply:
        return self._batches.page(endpoint, _batch_id(request), *_place(request), self._live.now())


def _batch_id(request: Request) -> str:
    batch_id: str = request.path_params["batch_id"]
    return batch_id


def _place(request: Request) -> tuple[int, int | None]:
    """Where the page begins, and how much it is to show. Raises ServiceRefusal 400."""
    offset, limit = (request.query_params.get(name) for name in ("offset", "limit"))
    if not (offset or "0").isdecimal() or not (limit or "1").isdecimal() or limit == "0":
        raise ServiceRefusal(400, "offset must be a whole number, and limit one from 1")
    return int(offset or 0), int(limit) if limit else None
