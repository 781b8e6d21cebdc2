"""A receiver of traces, by OTLP over HTTP, in a thread of the test process."""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.http_server import listening


def spans_of(requests: Iterable[Any]) -> list[Any]:
    """All spans of these requests, one after the other."""
    return [
        span
        for request in requests
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def numbers_by_job(spans: Iterable[Any]) -> dict[int, set[str]]:
    """The numbers under which each job was told of."""
    found: dict[int, set[str]] = {}
    for span in spans:
        if span.name == "job":
            values = {each.key: each.value.int_value for each in span.attributes}
            found.setdefault(values["orchestrator.job"], set()).add(span.span_id.hex())
    return found


@dataclass
class Receiver:
    """What came in, and what it is answered."""

    url: str = ""
    answers: list[int] = field(default_factory=list)
    """Statuses of the next answers; then 200."""

    requests: list[Any] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    holds: threading.Event | None = None
    """Answers wait for it, if it is there."""

    came: threading.Event = field(default_factory=threading.Event)

    @property
    def spans(self) -> list[Any]:
        """All that were taken, one after the other."""
        return spans_of(self.requests)

    @property
    def numbers(self) -> list[str]:
        return [span.span_id.hex() for span in self.spans]


@contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver()

    def answer(request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers["Content-Length"]))
        status = receiver.answers.pop(0) if receiver.answers else 200
        if status == 200:
            receiver.headers.append(dict(request.headers.items()))
            receiver.requests.append(ExportTraceServiceRequest.FromString(body))
            receiver.came.set()
        if receiver.holds is not None:
            receiver.holds.wait()
        request.send_response(status)
        request.send_header("Content-Length", "0")
        request.end_headers()

    with listening(answer) as receiver.url:
        yield receiver
