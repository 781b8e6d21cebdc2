"""The REST client beneath the pods: problem documents, repeats, rate limits, secrets."""

from typing import Any

import httpx
import pytest

from orchestrator.account.transport.rest_client import ProblemError, Rest
from orchestrator.client import Service
from orchestrator.client.jobs.retries import TRIES
from orchestrator.errors import NotSent, Unanswered
from tests.simulation.clock import VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

KEY = "a-very-secret-key"
CUT = httpx.ReadError("cut")


class Server:
    """Answers as told, the last answer for ever, and remembers when it was asked what."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self.answers = list(answers)
        self.clock = VirtualClock()
        self.started_at = self.clock.now()
        self.requests: list[httpx.Request] = []
        self.times: list[float] = []
        self.waits: list[tuple[str, float]] = []
        service = Service("http://jobs", KEY, self.clock, transport=httpx.MockTransport(self.handle))
        self.rest = Rest(service, "http://rest")
        self.rest.notify = self._note

    def handle(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        self.times.append(round((self.clock.now() - self.started_at) / 1e6, 3))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return httpx.Response(answer.status_code, content=answer.content, headers=answer.headers)

    def _note(self, reason: str, wait_s: float) -> None:
        self.waits.append((reason, wait_s))


def answer(status: int = 200, body: bytes = b"{}", **headers: str) -> httpx.Response:
    return httpx.Response(status, content=body, headers={k.replace("_", "-"): v for k, v in headers.items()})


def limited(remaining: int, reset_s: int) -> httpx.Response:
    return answer(RateLimit=f'"minute";r={remaining};t={reset_s}')


async def refusal(server: Server, method: str = "POST") -> ProblemError:
    with pytest.raises(ProblemError) as refused:
        await (server.rest.get("doing", "/x", bytes) if method == "GET" else server.rest.post("doing", "/x", {}, bytes))
    return refused.value


# --- requests --------------------------------------------------------------------------------------------------------


async def test_each_method_sends_its_request() -> None:
    """Contract of pods, Versioning 1: all paths begin with `/v2`."""
    server = Server(answer())
    await server.rest.get("doing", "/v2/pods?a=b", bytes)
    await server.rest.post("doing", "/p", {"a": 1}, bytes)
    await server.rest.patch("doing", "/p", {}, bytes)
    await server.rest.delete("doing", "/p")
    assert [(r.method, str(r.url), r.content) for r in server.requests] == [
        ("GET", "http://rest/v2/pods?a=b", b""),
        ("POST", "http://rest/p", b'{"a":1}'),
        ("PATCH", "http://rest/p", b"{}"),
        ("DELETE", "http://rest/p", b""),
    ]
    kinds = [r.headers.get("content-type") for r in server.requests]
    assert kinds == [None, "application/json", "application/json", None]
    assert {r.headers["authorization"] for r in server.requests} == {f"Bearer {KEY}"}


# --- problems --------------------------------------------------------------------------------------------------------


async def test_a_problem_document_becomes_one_error() -> None:
    """Contract, Errors."""
    body = (
        b'{"title":"Unprocessable Entity","status":422,"detail":"Request validation failed.","errors":["$: a","$: b"]}'
    )
    error = await refusal(Server(answer(422, body)))
    assert (error.status, error.title, error.detail) == (422, "Unprocessable Entity", "Request validation failed.")
    assert error.errors == ("$: a", "$: b")
    assert str(error) == (
        "doing: the service cannot work with the request"
        " (422 Unprocessable Entity: Request validation failed.; $: a; $: b); check what was given"
    )
    assert error.exit_code == 3


@pytest.mark.parametrize(
    ("status", "body", "text"),
    [
        (400, b"", "the service takes the request for malformed (400 Bad Request); check what was given"),
        (401, b"", "the service refused the API key (401 Unauthorized); check ORCHESTRATOR_API_KEY"),
        (403, b"<html>", "the API key has no permission for this (403 Forbidden); use a key that has"),
        (404, b"null", "the service does not know it, or it is not this account's (404 Not Found); check the id"),
        (409, b"[1]", "it is not possible in the present state (409 Conflict); look at it first"),
        (402, b'{"error":"no money"}', "(402 Payment Required: no money); add to the balance"),
        (418, b'{"message":"tea"}', "(418 I'm a Teapot: tea); check the service URL"),
        (418, b'"tea"', "(418 I'm a Teapot: tea)"),
        (418, b"tea", "(418 I'm a Teapot: tea)"),
        (418, b'{"title":7,"detail":{},"errors":"x","message":""}', "(418 I'm a Teapot)"),
        (418, b'{"errors":[1,"e",null]}', "(418 I'm a Teapot; e)"),
        (418, b'{"error":{"message":{"detail":"deep"}}}', "(418 I'm a Teapot: deep)"),
        (418, b'{"error":{"error":{"error":{"error":{"error":"too deep"}}}}}', "(418 I'm a Teapot)"),
        (418, b'{"detail":"a\\u001b[2Jb\\nc"}', "(418 I'm a Teapot: a [2Jb c)"),
        (302, b"", "the service gave no success (302 Found); check the service URL"),
        (500, b"", "(500 Internal Server Error); repeat it a little later; whether it happened is unknown"),
        (599, b"[" * 5000, "the service failed (599 unknown status: [["),
    ],
)
async def test_every_other_body_is_tolerated(status: int, body: bytes, text: str) -> None:
    error = str(await refusal(Server(answer(status, body))))
    assert error.startswith("doing: ")
    assert text in error
    assert "\n" not in error


async def test_the_key_is_in_no_error() -> None:
    error = await refusal(Server(answer(400, b'{"detail":"bad key a-very-secret-key"}')))
    assert "(400 Bad Request: bad key [hidden])" in str(error)
    assert KEY not in repr(Server(answer()).rest)


# --- repeats ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trouble", [answer(500), answer(503), CUT, httpx.ConnectError("no")])
async def test_a_get_is_repeated_with_growing_pauses(trouble: Any) -> None:
    server = Server(trouble, trouble, answer())
    await server.rest.get("doing", "/x", bytes)
    assert server.times == [0.0, 0.5, 1.5]


async def test_a_get_is_not_repeated_for_ever() -> None:
    server = Server(answer(500))
    assert (await refusal(server, "GET")).status == 500
    assert len(server.times) == TRIES
    with pytest.raises(Unanswered):
        await Server(CUT).rest.get("doing", "/x", bytes)
    server = Server(answer(404))
    await refusal(server, "GET")
    assert len(server.times) == 1


@pytest.mark.parametrize(("trouble", "error"), [(CUT, Unanswered), (httpx.ConnectError("no"), NotSent)])
async def test_what_may_have_taken_effect_is_not_repeated(trouble: Exception, error: type[Exception]) -> None:
    server = Server(trouble, answer())
    with pytest.raises(error):
        await server.rest.post("doing", "/x", {}, bytes)
    assert len(server.times) == 1
    server = Server(answer(500), answer())
    await refusal(server)
    assert len(server.times) == 1


# --- limits ----------------------------------------------------------------------------------------------------------


async def test_a_429_is_waited_out_for_as_long_as_it_says() -> None:
    """Contract, Limits 5: `Retry-After` in seconds."""
    server = Server(answer(429, Retry_After="17"), answer())
    await server.rest.post("doing", "/x", {}, bytes)
    assert server.times == [0.0, 17.0]
    assert server.waits == [("the service asked for it (429)", 17.0)]


async def test_a_429_that_names_no_time_is_waited_out_all_the_same() -> None:
    server = Server(answer(429), answer(429), answer())
    await server.rest.get("doing", "/x", bytes)
    assert server.times == [0.0, 0.5, 1.5]


async def test_a_429_again_and_again_is_an_error() -> None:
    server = Server(answer(429, b'{"detail":"rate limit exceeded for the day window"}', Retry_After="5"))
    error = await refusal(server)
    assert len(server.times) == TRIES
    assert (error.status, error.retry_after_s) == (429, 5.0)
    assert "day window" in str(error)


async def test_before_a_window_is_empty_requests_wait() -> None:
    """Contract, Limits 2."""
    server = Server(limited(2, 30), limited(1, 30), limited(59, 60))
    for _ in range(3):
        await server.rest.get("doing", "/x", bytes)
    assert server.times == [0.0, 0.0, 30.0]
    assert server.waits == [("the minute window of the rate limit is nearly used up", 30.0)]
    assert [window.remaining for window in server.rest.windows] == [59]


async def test_a_wait_beyond_our_patience_is_an_error_at_once() -> None:
    server = Server(limited(0, 3000), answer())
    with pytest.raises(NotSent, match=r"doing: .* it takes 3000 s until it is free again; nothing was sent"):
        await _twice(server)
    assert server.times == [0.0]


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_429_that_wants_more_than_our_patience_is_an_error_at_once_and_remembered(method: str) -> None:
    server = Server(answer(429, Retry_After="3000"), answer())
    error = await refusal(server, method)
    assert "too many requests (429 Too Many Requests); the service asks to wait for 3000 s" in str(error)
    with pytest.raises(NotSent, match="it takes 3000 s until it is free again"):
        await server.rest.get("doing", "/x", bytes)
    assert server.times == [0.0]


async def _twice(server: Server) -> None:
    await server.rest.post("doing", "/x", {}, bytes)
    await server.rest.post("doing", "/x", {}, bytes)


async def test_nobody_has_to_listen_to_the_waits() -> None:
    server = Server(limited(0, 9), answer())
    server.rest.notify = None
    await _twice(server)
    assert server.times == [0.0, 9.0]
