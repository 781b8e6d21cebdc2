"""Requests past the queue: which inputs can be one, and what their answers mean."""

import json
import re

import pytest

from orchestrator.core.lanes.direct_answers import UNEXPLAINED, Answered, DirectOutcome, Unreadable
from orchestrator.core.lanes.openai import check_not_streamed, direct_request, of_openai
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.service.http_answers import Answer, Pointless
from orchestrator.core.service.outcomes import Deferred, Rejected, Uncertain
from orchestrator.errors import NotSent, Unanswered


def answer(status: int, body: bytes = b"", took_us: int = 2_500_000) -> Answer:
    return Answer(status=status, body=body, sent_at=1_000, answered_at=1_000 + took_us)


def test_an_input_of_route_and_body_is_a_request_and_its_body_goes_as_it_stands() -> None:
    found = direct_request(b'{"openai_route": "/v1/chat/completions", "openai_input": {"n" : 12345678901234567890}}')
    assert found == ("/v1/chat/completions", b'{"n" : 12345678901234567890}')


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"prompt": "a"}, 'only an input of "openai_route" and "openai_input" can go'),
        ({"openai_route": "/v1/x", "openai_input": {}, "n": 1}, 'only an input of "openai_route"'),
        ({"openai_route": 7, "openai_input": {}}, 'only an input of "openai_route"'),
        ({"openai_route": "v1/x", "openai_input": {}}, '"v1/x" is no path below /openai'),
        ({"openai_route": "/v1/../../purge-queue", "openai_input": {}}, "is no path below /openai"),
        ({"openai_route": "/v1/x?a=1", "openai_input": {}}, "is no path below /openai"),
        ({"openai_route": "/v1/x", "openai_input": [1]}, "openai_input must be an object"),
    ],
)
def test_what_is_no_request_is_told_to_its_author(given: object, told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)):
        direct_request(json.dumps(given).encode())


def test_only_a_body_that_asks_for_a_stream_is_refused_to_the_queue() -> None:
    check_not_streamed(b'{"stream":false,"prompt":"\\"stream\\""}')
    with pytest.raises(ValueError, match="a job in the queue has no stream"):
        check_not_streamed(b'{"prompt":"a", "stream": true}')


def test_an_answer_is_the_result_and_took_no_longer_than_the_request() -> None:
    found = of_openai(answer(200, b'{ "choices": [] }'), time_scale=2.0)
    assert isinstance(found, Answered)
    assert (found.record.status, found.record.output, found.record.execution_ms) == (
        "COMPLETED", b'{"choices":[]}', 5_000
    )  # fmt: skip
    assert (found.record.remote_id, found.record.delay_ms) == (None, None)


@pytest.mark.parametrize("body", [b"", b"<html>", b'{"a":', b"[" * 100_000])
def test_an_answer_that_nobody_can_read_is_over_all_the_same(body: bytes) -> None:
    assert of_openai(answer(200, body)) == Unreadable(body)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b'{"error":{"message":"CUDA out of memory","code":500}}', "CUDA out of memory"),
        (b'{"error":"boom"}', "boom"),
        (b'{"object":"error","message":"bad"}', "bad"),
        (b"it crashed\n", "it crashed"),
        (b"[1]", "[1]"),
        (b"", UNEXPLAINED),
    ],
)
def test_a_500_is_an_execution_that_failed(body: bytes, told: str) -> None:
    found = of_openai(answer(500, body))
    assert isinstance(found, Answered)
    assert (found.record.status, found.record.error, found.record.output) == ("FAILED", told, None)


@pytest.mark.parametrize(
    ("result", "meaning"),
    [
        (answer(429), Deferred(FailureClass.THROTTLED, "too many requests (429)")),
        (answer(503), Deferred(FailureClass.SERVER, "the service answered 503")),
        (NotSent("no way"), Deferred(FailureClass.TRANSPORT, "no way")),
        (Unanswered("cut"), Uncertain("cut")),
        (answer(502), Uncertain("the service answered 502")),
        (answer(400, b'{"error":"too long"}'), Rejected("the service refused the job (400: too long)")),
        (answer(401), Pointless("the service refused the API key (401)", 401)),
        (
            answer(404, b'{"error":"endpoint not found"}'),
            Pointless("the service does not know this endpoint (404)", 404),
        ),
        (
            answer(404, b'{"object":"error","message":"The model `x` does not exist."}'),
            Rejected("the worker refused the request (404: The model `x` does not exist.)"),
        ),
        (
            answer(404, b'{"error":{"message":"no such model","type":"NotFoundError"}}'),
            Rejected("the worker refused the request (404: no such model)"),
        ),
    ],
)
def test_everything_else_means_what_it_means_of_a_run(
    result: Answer | NotSent | Unanswered, meaning: DirectOutcome
) -> None:
    assert of_openai(result) == meaning
