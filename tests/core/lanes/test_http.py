"""What comes back from a server at a URL: what certainly had no effect, what is an execution, and what nobody knows."""

from typing import Final

import pytest
from msgspec.structs import replace

from orchestrator.core.lanes.direct_answers import Answered, DirectOutcome, Unreadable
from orchestrator.core.lanes.http import POINTLESS_AT_URL, of_http
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.service.http_answers import Answer, Pointless
from orchestrator.core.service.outcomes import Deferred, Rejected, Uncertain, verdict_of
from orchestrator.errors import CutShort, NotSent, Unanswered

SERVER: Final = FailureClass.SERVER


def answer(status: int, body: bytes = b"", *, retry_after_s: float | None = None) -> Answer:
    return Answer(status=status, body=body, sent_at=1_000, answered_at=2_501_000, retry_after_s=retry_after_s)


@pytest.mark.parametrize(
    ("result", "meaning"),
    [
        # certainly not executed
        (NotSent("no connection"), Deferred(FailureClass.TRANSPORT, "no connection")),
        (CutShort("half of it"), Deferred(FailureClass.TRANSPORT, "half of it")),
        (answer(429, retry_after_s=7.0), Deferred(FailureClass.THROTTLED, "too many requests (429)", 7.0)),
        (answer(503, retry_after_s=3.0), Deferred(SERVER, "the server answered 503", 3.0)),
        (answer(400, b"no workers available"), Deferred(SERVER, "no worker was available (400)")),
        (answer(400, b'{"error":"No worker available."}'), Deferred(SERVER, "no worker was available (400)")),
        *((answer(status), Deferred(SERVER, f"the server answered {status}")) for status in (425, 521, 522, 523, 529)),
        # refused, which concerns the job alone
        (answer(400, b'{"error":"too long"}'), Rejected("the server refused the request (400: too long)")),
        (answer(400, b"no workers available in n"), Rejected("the server refused the request (400)")),
        (answer(413), Rejected("the server refused the request (413)")),
        (answer(422, b'{"detail":"n is missing"}'), Rejected("the server refused the request (422: n is missing)")),
        (
            answer(404, b'{"error":{"message":"no such model"}}'),
            Rejected("the server refused the request (404: no such model)"),
        ),
        # may have been executed
        (Unanswered("cut"), Uncertain("cut")),
        (answer(408), Uncertain("the server answered 408")),
        (answer(502, b'{"error":"bad gateway"}'), Uncertain("the server answered 502: bad gateway")),
        (answer(504), Uncertain("the server answered 504")),
        (answer(520), Uncertain("the server answered 520")),
        (answer(599), Uncertain("the server answered 599")),
    ],
)
def test_what_an_answer_means(result: Answer | NotSent | Unanswered, meaning: DirectOutcome) -> None:
    assert of_http(result) == meaning


@pytest.mark.parametrize(("status", "told"), POINTLESS_AT_URL.items())
def test_what_concerns_every_job_is_pointless(status: int, told: str) -> None:
    assert of_http(answer(status, b'{"error":"no"}')) == Pointless(told, status)


@pytest.mark.parametrize(
    ("result", "trouble", "message"),
    [
        (answer(200, b'{"n": 1}'), None, ""),
        (answer(500, b'{"error":{"message":"CUDA out of memory"}}'), FailureClass.FAILED, "CUDA out of memory"),
        (answer(524), FailureClass.TIMED_OUT, "the server was not done in time (524)"),
    ],
)
def test_what_was_executed_is_over_and_took_no_longer_than_its_request(
    result: Answer, trouble: FailureClass | None, message: str
) -> None:
    found = of_http(result, time_scale=2.0)
    assert isinstance(found, Answered)
    verdict = verdict_of(found.record, output_required=False)
    assert (verdict.trouble, verdict.message, found.record.execution_ms) == (trouble, message, 5_000)


def success(body: bytes, content_type: str = "") -> Answer:
    return replace(answer(200, body), headers={"content-type": content_type})


@pytest.mark.parametrize(
    ("result", "output"),
    [
        (success(b'{ "n": 1 }', "application/json"), b'{"n":1}'),
        (success(b"[1, 2]"), b"[1,2]"),
        (success("hällo\n".encode(), "text/plain; charset=utf-8"), '"hällo\\n"'.encode()),
        (success(b"12", "text/plain"), b"12"),
        (success(b""), None),
        (success(b"data: 1\n\ndata: [DONE]\n\n", "Text/Event-Stream; charset=utf-8"), b"[1]"),
    ],
)
def test_a_success_brings_the_result(result: Answer, output: bytes | None) -> None:
    found = of_http(result)
    assert isinstance(found, Answered)
    assert (found.record.status, found.record.output) == ("COMPLETED", output)


@pytest.mark.parametrize(
    "result",
    [
        success(b"\x89PNG", "image/png"),
        success(b"\xff\xfe", "text/plain"),
        success(b"<html>"),
        success(b"<html>Sign in</html>", "text/html; charset=utf-8"),
        success(b"data: \xff\n\n", "text/event-stream"),
    ],
)
def test_a_success_that_nobody_can_read_is_over(result: Answer) -> None:
    assert of_http(result) == Unreadable(result.body)


@pytest.mark.parametrize("result", [success(b""), success(b"12 apples", "text/plain")])
def test_by_the_interface_of_openai_only_json_is_an_answer(result: Answer) -> None:
    assert of_http(result, is_json=True) == Unreadable(result.body)
    assert isinstance(of_http(success(b"{}"), is_json=True), Answered)


def test_a_stream_that_ends_in_an_error_is_an_execution_that_failed() -> None:
    body = b'data: {"choices":[]}\n\ndata: {"error":{"message":"CUDA out of memory"}}\n\ndata: [DONE]\n\n'
    found = of_http(success(body, "text/event-stream"))
    assert isinstance(found, Answered)
    assert (found.record.status, found.record.error, found.record.output) == ("FAILED", "CUDA out of memory", None)
