"""The job API over HTTP, thin: let the request in, call the world, let the answer out.

An ASGI application without Starlette's error middleware, which would answer 500 where a connection is to be cut.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from http import HTTPStatus

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route, Router
from starlette.types import Receive, Scope, Send

from orchestrator.emulator.contract.answers import HttpAnswer, ServiceRefusal
from orchestrator.emulator.contract.limits import JobOperation
from orchestrator.emulator.http.delivery import AnswerDelivery, AnswerResponse
from orchestrator.emulator.http.gate import Gate
from orchestrator.emulator.http.not_found import refusal_answer
from orchestrator.emulator.http.request_body import hold_request, milliseconds, read_bounded_body
from orchestrator.emulator.http.wire import OutgoingAnswer
from orchestrator.emulator.job_api.live_world import LiveWorld
from orchestrator.emulator.jobs.jobs import FINISHED, ServiceRecord, ServiceStatus
from orchestrator.emulator.jobs.run_body import MILLISECOND, parse_submission
from orchestrator.emulator.jobs.world import HealthReply, MetricsReply, PurgeReply, RequestsReply, StreamReply
from orchestrator.units import MIB

RUNSYNC_BYTES_MAX = 20 * MIB
"""The longest body of a `/runsync` (as observed)."""

WAIT_MS_RANGE = (1_000, 300_000)
RUNSYNC_WAIT_MS_DEFAULT = 90_000
STREAM_WAIT_MS_DEFAULT = 5_000
"""How long an empty `/stream` is held. The service's 10 s are as long as the official client waits for an answer."""

QUEUE_FULL_MIN = 50
"""The old second rule of the service: a queue as short as this is never full (as observed)."""

AnswerUnserved = Callable[[Request, Collection[str]], Awaitable[Response]]

Reply = ServiceRecord | PurgeReply | HealthReply | MetricsReply | RequestsReply | StreamReply

JOB_ROUTES: tuple[tuple[JobOperation, str, tuple[str, ...]], ...] = (
    (JobOperation.RUN, "/v2/{endpoint_id}/run", ("POST",)),
    (JobOperation.STATUS, "/v2/{endpoint_id}/status/{job_id}", ("GET", "POST")),
    (JobOperation.RUNSYNC, "/v2/{endpoint_id}/runsync", ("POST",)),
    (JobOperation.STATUS, "/v2/{endpoint_id}/status-sync/{job_id}", ("GET", "POST")),
    (JobOperation.STREAM, "/v2/{endpoint_id}/stream/{job_id}", ("GET", "POST")),
    (JobOperation.CANCEL, "/v2/{endpoint_id}/cancel/{job_id}", ("POST",)),
    (JobOperation.RETRY, "/v2/{endpoint_id}/retry/{job_id}", ("POST",)),
    (JobOperation.PURGE_QUEUE, "/v2/{endpoint_id}/purge-queue", ("POST",)),
    (JobOperation.HEALTH, "/v2/{endpoint_id}/health", ("GET",)),
    (JobOperation.METRICS, "/v2/{endpoint_id}/metrics", ("GET",)),
    (JobOperation.REQUESTS, "/v2/{endpoint_id}/requests", ("GET",)),
)


def job_routes(api: "JobApi") -> list[Route]:
    """The routes of the job API (as observed)."""
    return [
        Route(path, partial(api.operate, operation, wait="-sync" in path), methods=methods)
        for operation, path, methods in JOB_ROUTES
    ]


async def _plainly(request: Request, allowed: Collection[str]) -> Response:
    status, words = (HTTPStatus.METHOD_NOT_ALLOWED, "method not allowed") if allowed else (404, "not found")
    return AnswerResponse(OutgoingAnswer(answer=refusal_answer(request.url.path, status, words)))


class RouteTable(Router):
    """The routes, and `unserved` for what none of them takes, with the methods that its path takes."""

    def __init__(self, routes: Sequence[BaseRoute], unserved: AnswerUnserved = _plainly) -> None:
        super().__init__(routes, redirect_slashes=False)
        self._unserved = unserved

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hands a request to the first route that takes its path and its method."""
        if scope["type"] != "http":  # a server that asks whether we want to know when it begins and ends
            await super().app(scope, receive, send)
            return
        allowed: set[str] = set()
        for route in self.routes:
            match, found = route.matches(scope)
            if match is Match.FULL:
                scope.update(found)
                await route.handle(scope, receive, send)
                return
            if match is Match.PARTIAL and isinstance(route, Route):
                allowed.update(route.methods or ())
        response = await self._unserved(Request(scope, receive), allowed)
        await response(scope, receive, send)


class JobApi:
    """Answers the operations of the job API.

    `changed` is called with the endpoint after each operation: it may have queued a job or moved the world's next
    due time. With `queue_per_worker`, a longer queue than that many jobs for each
    worker there may be is full, and answered 429.
    """

    def __init__(
        self,
        live: LiveWorld,
        gate: Gate,
        *,
        changed: Callable[[str], None],
        body_bytes_max: int,
        queue_per_worker: int | None = None,
        stream_wait_ms: int = STREAM_WAIT_MS_DEFAULT,
    ) -> None:
        self._live = live
        self._world = live.world
        self._gate = gate
        self._changed = changed
        self._body_bytes_max = body_bytes_max
        self._delivery = AnswerDelivery(gate.wire, live.clock, live.scale)
        self._queue_per_worker = queue_per_worker
        self._stream_wait_ms = stream_wait_ms

    async def operate(self, operation: JobOperation, request: Request, *, wait: bool = False) -> Response:
        """Everything that happens to one request. Raises ConnectionCut where no answer is to come."""
        endpoint: str = request.path_params["endpoint_id"]
        try:
            meter = self._gate.enter(endpoint, operation, request.headers.get("authorization", ""), self._live.now())
        except ServiceRefusal as refusal:
            return await self._delivery.deliver(self._gate.sending(operation, refusal.answer()))
        try:
            answer = await self._answer(operation, endpoint, request, wait=wait)
            return await self._delivery.deliver(self._gate.sending(operation, answer))
        finally:
            meter.leave()

    async def _answer(self, operation: JobOperation, endpoint: str, request: Request, *, wait: bool) -> HttpAnswer:
        try:
            content = await self._call(operation, endpoint, request, wait=wait)
        except ServiceRefusal as refusal:
            return refusal.answer()
        finally:
            self._changed(endpoint)
        return HttpAnswer(status=200, body=msgspec.json.encode(content))

    async def _call(  # noqa: PLR0911  # one line for each operation
        self, operation: JobOperation, endpoint: str, request: Request, *, wait: bool
    ) -> Reply:
        job_id: str = request.path_params.get("job_id", "")
        now = self._live.now()
        match operation:
            case JobOperation.RUN:
                return await self._run(endpoint, request)
            case JobOperation.RUNSYNC:
                return await self._run_sync(endpoint, request)
            case JobOperation.STATUS:
                return await (self._status_sync if wait else self._status)(endpoint, job_id, request)
            case JobOperation.STREAM:
                return await self._stream(endpoint, job_id, request)
            case JobOperation.CANCEL:
                return self._world.cancel(endpoint, job_id, now)
            case JobOperation.RETRY:
                return self._world.retry(endpoint, job_id, now)
            case JobOperation.PURGE_QUEUE:
                return self._world.purge(endpoint)
            case JobOperation.METRICS:
                return self._world.metrics(endpoint)
            case JobOperation.REQUESTS:
                return self._world.requests(endpoint)
            case _:
                return self._world.health(endpoint)

    async def _run(self, endpoint: str, request: Request) -> ServiceRecord:
        body = await read_bounded_body(request, self._body_bytes_max)
        self._check_queue(endpoint)
        record = self._world.submit(endpoint, parse_submission(body), self._live.now())
        return self._world.table.false_answers.accepted(endpoint, record)

    async def _run_sync(self, endpoint: str, request: Request) -> ServiceRecord:
        """The record at the job's end, or `{"id","status"}` once `wait` has run out; the job goes on."""
        wait_ms = _wait_ms(request, RUNSYNC_WAIT_MS_DEFAULT)
        body = await read_bounded_body(request, RUNSYNC_BYTES_MAX)
        self._check_queue(endpoint)
        accepted = self._world.submit(endpoint, parse_submission(body, is_sync=True), self._live.now())
        try:
            record = await self._end_of(endpoint, accepted.id, wait_ms, request)
        except ServiceRefusal:  # the job is gone before its end
            return accepted
        answers = self._world.table.false_answers
        if record.status in FINISHED:
            return answers.shown(endpoint, record)
        return answers.accepted(endpoint, ServiceRecord(id=record.id, status=record.status))

    async def _status(self, endpoint: str, job_id: str, request: Request) -> ServiceRecord:
        ttl_ms = milliseconds(request, "ttl")
        ttl_us = None if ttl_ms is None else ttl_ms * MILLISECOND
        record = self._world.status(endpoint, job_id, self._live.now(), ttl_us)
        return self._world.table.false_answers.shown(endpoint, record)

    async def _status_sync(self, endpoint: str, job_id: str, request: Request) -> ServiceRecord:
        await read_bounded_body(request, self._body_bytes_max)
        return await self._end_of(endpoint, job_id, _wait_ms(request, RUNSYNC_WAIT_MS_DEFAULT), request)

    async def _end_of(self, endpoint: str, job_id: str, wait_ms: int, request: Request) -> ServiceRecord:
        """The job's record once it has ended, or after `wait_ms` however it is. Raises Refusal 404."""
        until_ended = partial(self._live.until_ended, endpoint, job_id, self._changed)
        await hold_request(request, self._seconds(wait_ms), until_ended)
        return self._world.status(endpoint, job_id, self._live.now())

    async def _stream(self, endpoint: str, job_id: str, request: Request) -> StreamReply:
        """The chunks since the previous call, as soon as there are any or the job has ended."""
        await read_bounded_body(request, self._body_bytes_max)
        part = StreamReply(status=ServiceStatus.IN_QUEUE, stream=())
        with self._live.watching(job_id) as watch:

            async def wait() -> None:
                nonlocal part
                with suppress(ServiceRefusal):
                    part = self._world.stream(endpoint, job_id, self._live.now())
                    while not part.stream and part.status not in FINISHED:
                        self._changed(endpoint)
                        await watch.change()
                        part = self._world.stream(endpoint, job_id, self._live.now())

            await hold_request(request, self._seconds(_wait_ms(request, self._stream_wait_ms)), wait)
        if part.stream or part.status in FINISHED:
            return part
        return self._world.stream(endpoint, job_id, self._live.now())

    def _seconds(self, wait_ms: int) -> float:
        return wait_ms / 1000 / self._live.scale

    def _check_queue(self, endpoint: str) -> None:
        if self._queue_per_worker is None:
            return
        room = max(QUEUE_FULL_MIN, self._world.endpoints.fleet(endpoint).scaling.workers_max * self._queue_per_worker)
        if self._world.endpoints.queued(endpoint) > room:
            raise ServiceRefusal(429, "too many jobs are queued")


def _wait_ms(request: Request, default: int) -> int:
    """How long the sender wants to wait; what is out of the range is taken as its nearest end."""
    low, high = WAIT_MS_RANGE
    wait_ms = milliseconds(request, "wait")
    return default if wait_ms is None else min(max(wait_ms, low), high)
