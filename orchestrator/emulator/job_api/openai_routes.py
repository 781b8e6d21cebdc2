"""`/openai/*`: requests in the form of another well-known interface, answered by the endpoint's handler.

The contract names the paths and nothing else. Here a request becomes a job as the official language-model worker takes
it: `{"openai_route": "/v1/chat/completions", "openai_input": <body>}`. Its output is the answer; with `"stream": true`
in the body, its chunks are server-sent events: those of a worker that writes events itself, as they are; anything else
as `data: <JSON>`, and at the end `data: [DONE]`.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from functools import partial

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from orchestrator.emulator.contract.answers import ConnectionCut, HttpAnswer, ServiceRefusal
from orchestrator.emulator.contract.limits import JobOperation
from orchestrator.emulator.http.delivery import AnswerDelivery
from orchestrator.emulator.http.gate import Gate
from orchestrator.emulator.http.request_body import hold_request, read_bounded_body
from orchestrator.emulator.http.wire import Cut
from orchestrator.emulator.job_api.live_world import LiveWorld
from orchestrator.emulator.job_api.routes import RUNSYNC_BYTES_MAX
from orchestrator.emulator.jobs.jobs import FINISHED, ServiceRecord, ServiceStatus
from orchestrator.emulator.jobs.run_body import parse_submission

DONE = b"data: [DONE]\n\n"

EVENT_FIELDS = ("data:", "event:", "id:", "retry:", ":")
"""What a line of an event stream begins with."""

EVENT_STREAM = "text/event-stream"

BEGINNING = HttpAnswer(status=200, body=b"data: ", content_type=EVENT_STREAM)
"""What stands for a stream where it is decided how it leaves."""


class _Question(msgspec.Struct):
    """The one key of a body that concerns the service."""

    stream: object = False


class OpenAiApi:
    """Answers `/openai/*`. A job whose sender hangs up is cancelled, for nobody else knows its id."""

    def __init__(self, live: LiveWorld, gate: Gate, *, changed: Callable[[str], None]) -> None:
        """`changed` is as in `JobApi`."""
        self._live = live
        self._world = live.world
        self._gate = gate
        self._delivery = AnswerDelivery(gate.wire, live.clock, live.scale)
        self._changed = changed

    def routes(self) -> list[Route]:
        """The routes of this API."""
        return [Route("/v2/{endpoint_id}/openai/{path:path}", self._operate, methods=["GET", "POST"])]

    async def _operate(self, request: Request) -> Response:
        endpoint: str = request.path_params["endpoint_id"]
        authorization = request.headers.get("authorization", "")
        try:
            meter = self._gate.enter(endpoint, JobOperation.OPENAI, authorization, self._live.now())
        except ServiceRefusal as refusal:
            return await self._depart(refusal.answer())
        with ExitStack() as under_way:
            under_way.callback(meter.leave)
            try:
                body = await read_bounded_body(request, RUNSYNC_BYTES_MAX)
                job_id, wants_stream = self._submit(endpoint, request.path_params["path"], body)
            except ServiceRefusal as refusal:
                return await self._depart(refusal.answer())
            under_way.callback(self._give_up, endpoint, job_id)
            if not wants_stream:
                return await self._depart(await self._answer(endpoint, job_id, request))
            sending = self._gate.sending(JobOperation.OPENAI, BEGINNING)
            response = await self._delivery.deliver(sending)
            if sending.answer is not BEGINNING:  # a fault has put something else in its place
                return response
            events = self._events(endpoint, job_id, is_cut=sending.cut is Cut.INSIDE_BODY)
            return _EventStream(events, under_way.pop_all())

    async def _depart(self, answer: HttpAnswer) -> Response:
        return await self._delivery.deliver(self._gate.sending(JobOperation.OPENAI, answer))

    def _submit(self, endpoint: str, path: str, body: bytes) -> tuple[str, bool]:
        question = _Question()
        if body:
            try:
                question = msgspec.json.decode(body, type=_Question)
            except (ValueError, RecursionError):
                raise ServiceRefusal(400, "bad request: the body is not a JSON object") from None
        asked = {"openai_route": f"/{path}", "openai_input": msgspec.Raw(body or b"null")}
        submission = parse_submission(msgspec.json.encode({"input": asked}), is_sync=True)
        record = self._world.submit(endpoint, submission, self._live.now())
        self._changed(endpoint)
        return record.id, question.stream is True

    async def _answer(self, endpoint: str, job_id: str, request: Request) -> HttpAnswer:
        until_ended = partial(self._live.until_ended, endpoint, job_id, self._changed)
        is_there = await hold_request(request, float("inf"), until_ended)
        if not is_there:
            raise ConnectionCut
        try:
            return _answer_of(self._world.status(endpoint, job_id, self._live.now()))
        except ServiceRefusal:  # its time to live is over
            return ServiceRefusal(500, "the job was deleted").answer()

    async def _events(self, endpoint: str, job_id: str, *, is_cut: bool) -> AsyncIterator[bytes]:
        """The job's chunks as they come. With `is_cut` the connection breaks after the first of them."""
        async for event in self._chunks(endpoint, job_id):
            yield event
            if is_cut:
                raise ConnectionCut

    async def _chunks(self, endpoint: str, job_id: str) -> AsyncIterator[bytes]:
        status = ServiceStatus.IN_QUEUE
        events = _Events()
        try:
            with self._live.watching(job_id) as watch:
                while status not in FINISHED:
                    part = self._world.stream(endpoint, job_id, self._live.now())
                    status = part.status
                    for chunk in part.stream:
                        yield events.event(chunk.output)
                    if status not in FINISHED:
                        self._changed(endpoint)
                        await watch.change()
            record = self._world.status(endpoint, job_id, self._live.now())
            if status is not ServiceStatus.COMPLETED:
                yield _data(msgspec.json.encode({"error": record.error or f"job {status}"}))
            elif events.is_empty and record.output is not None:  # a plain handler
                yield events.event(record.output)
            if not events.are_its_own:
                yield DONE
        except ServiceRefusal:
            yield _data(b'{"error":"the job was deleted"}')

    def _give_up(self, endpoint: str, job_id: str) -> None:
        """Whoever asked is gone or has everything; a job that still runs need not."""
        try:
            self._world.cancel(endpoint, job_id, self._live.now())
        except ServiceRefusal:
            return
        self._changed(endpoint)


class _EventStream(StreamingResponse):
    """Server-sent events; `under_way` ends with them, however that happens."""

    def __init__(self, events: AsyncIterator[bytes], under_way: ExitStack) -> None:
        super().__init__(events, media_type=EVENT_STREAM)
        self._under_way = under_way

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._under_way:
            await super().__call__(scope, receive, send)


def _answer_of(record: ServiceRecord) -> HttpAnswer:
    """The worker's own answer. One that streams by nature puts it out as a list of one."""
    if record.status is not ServiceStatus.COMPLETED:
        return ServiceRefusal(500, record.error or f"job {record.status}").answer()
    body = b"null" if record.output is None else bytes(record.output)
    if body.startswith(b"["):
        parts = msgspec.json.decode(body, type=list[msgspec.Raw])
        body = bytes(parts[0]) if len(parts) == 1 else body
    return HttpAnswer(status=200, body=body)


class _Events:
    """Makes chunks events. Whether a worker writes events itself, its first text shows; a part of one may follow."""

    def __init__(self) -> None:
        self.is_empty = True
        self.are_its_own = False

    def event(self, output: msgspec.Raw) -> bytes:
        raw = bytes(output)
        text = msgspec.json.decode(raw, type=str) if raw.startswith(b'"') else None
        if self.is_empty and text is not None:
            self.are_its_own = text.lstrip().startswith(EVENT_FIELDS)
        self.is_empty = False
        return text.encode() if text is not None and self.are_its_own else _data(raw)


def _data(raw: bytes) -> bytes:
    """One event; JSON may have line breaks between its tokens, and an event has not."""
    return b"data: " + (msgspec.json.format(raw, indent=-1) if b"\n" in raw else raw) + b"\n\n"
