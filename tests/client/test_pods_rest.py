"""The REST client beneath the pods: problem documents, repeats, rate limits, secrets."""

from typing import Any

import httpx
import pytest

from orchestrator.client.rest import PAUSES_S, ProblemError, Rest
from orchestrator.client.serverless import request_headers
from orchestrator.client.transport import Transport
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
        headers = request_headers(KEY)
        transport = Transport(self.clock, transport=httpx.MockTransport(self.handle))
        self.rest = Rest(httpx.URL("http://rest"), headers, transport, self.clock, notify=self._note)

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
        await (server.rest.get("/x") if method == "GET" else server.rest.post("/x", b"{}"))
    return refused.value


# --- requests --------------------------------------------------------------------------------------------------------


async def test_each_method_sends_its_request() -> None:
    server = Server(answer())
    await server.rest.get("/v2/pods?a=b")
    await server.rest.post("/p", b'{"a":1}')
    await server.rest.patch("/p", b"{}")
    await server.rest.delete("/p")
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
    assert str(error) == "422 Unprocessable Entity: Request validation failed.; $: a; $: b"
    assert error.exit_code == 3


@pytest.mark.parametrize(
    ("status", "body", "text"),
    [
        (400, b"", "400 Bad Request: the service gave no reason"),
        (401, b"", "401 Unauthorized: the service refused the API key"),
        (403, b"<html>", "403 Forbidden: the API key has no permission for this"),
        (404, b"null", "404 Not Found: the service does not know it, or it is not this account's"),
        (409, b"[1]", "409 Conflict: not possible in its present state"),
        (402, b'{"error":"no money"}', "402 Payment Required: no money"),
        (418, b'{"message":"tea"}', "418 I'm a Teapot: tea"),
        (418, b'{"title":7,"detail":{},"errors":"x","message":""}', "418 I'm a Teapot: the service gave no reason"),
        (418, b'{"errors":[1,"e",null]}', "418 I'm a Teapot: the service gave no reason; e"),
        (418, b'{"detail":"a\\u001b[2Jb\\nc"}', "418 I'm a Teapot: a [2Jb c"),
        (302, b"", "302 Found: the service gave no reason"),
        (599, b"[" * 5000, "599 unknown status: the service gave no reason"),
    ],
)
async def test_every_other_body_is_tolerated(status: int, body: bytes, text: str) -> None:
    assert str(await refusal(Server(answer(status, body)))) == text


async def test_the_key_is_in_no_error() -> None:
    error = await refusal(Server(answer(400, b'{"detail":"bad key a-very-secret-key"}')))
    assert str(error) == "400 Bad Request: bad key [the API key]"
    assert KEY not in repr(Server(answer()).rest)


# --- repeats ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trouble", [answer(500), answer(503), CUT, httpx.ConnectError("no")])
async def test_a_get_is_repeated_with_growing_pauses(trouble: Any) -> None:
    server = Server(trouble, trouble, answer())
    await server.rest.get("/x")
    assert server.times == [0.0, 1.0, 3.0]


async def test_a_get_is_not_repeated_for_ever() -> None:
    server = Server(answer(500))
    assert (await refusal(server, "GET")).status == 500
    assert len(server.times) == len(PAUSES_S) + 1
    with pytest.raises(Unanswered):
        await Server(CUT).rest.get("/x")
    server = Server(answer(404))
    await refusal(server, "GET")
    assert len(server.times) == 1


@pytest.mark.parametrize(("trouble", "error"), [(CUT, Unanswered), (httpx.ConnectError("no"), NotSent)])
async def test_what_may_have_taken_effect_is_not_repeated(trouble: Exception, error: type[Exception]) -> None:
    server = Server(trouble, answer())
    with pytest.raises(error):
        await server.rest.post("/x", b"{}")
    assert len(server.times) == 1
    server = Server(answer(500), answer())
    await refusal(server)
    assert len(server.times) == 1


# --- limits ----------------------------------------------------------------------------------------------------------


async def test_a_429_is_waited_out_for_as_long_as_it_says() -> None:
    """Contract, Limits 5: `Retry-After` in seconds."""
    server = Server(answer(429, Retry_After="17"), answer())
    await server.rest.post("/x", b"{}")
    assert server.times == [0.0, 17.0]
    assert server.waits == [("the service asked for it (429)", 17.0)]


async def test_a_429_that_names_no_time_is_waited_out_all_the_same() -> None:
    server = Server(answer(429), answer(429), answer())
    await server.rest.get("/x")
    assert server.times == [0.0, 1.0, 3.0]


async def test_a_429_again_and_again_is_an_error() -> None:
    server = Server(answer(429, b'{"detail":"rate limit exceeded for the day window"}', Retry_After="5"))
    error = await refusal(server)
    assert len(server.times) == len(PAUSES_S) + 1
    assert (error.status, error.retry_after_s) == (429, 5.0)
    assert "day window" in str(error)


async def test_before_a_window_is_empty_requests_wait() -> None:
    """Contract, Limits 2."""
    server = Server(limited(2, 30), limited(1, 30), limited(59, 60))
    for _ in range(3):
        await server.rest.get("/x")
    assert server.times == [0.0, 0.0, 30.0]
    assert server.waits == [("the minute window of the rate limit is nearly used up", 30.0)]
    assert [window.remaining for window in server.rest.windows] == [59]


@pytest.mark.parametrize("answers", [[limited(0, 3000), answer()], [answer(429, Retry_After="3000"), answer()]])
async def test_a_wait_beyond_our_patience_is_an_error_at_once(answers: list[httpx.Response]) -> None:
    server = Server(*answers)
    with pytest.raises(NotSent, match=r"it takes 3000 s until it is free again; nothing was sent"):
        await _twice(server)
    assert server.times == [0.0]
    server.rest.notify = None


async def test_a_get_is_not_repeated_into_such_a_wait() -> None:
    server = Server(answer(429, Retry_After="5000"))
    with pytest.raises(NotSent, match="nothing was sent"):
        await server.rest.get("/x")
    assert server.clock.now() == server.started_at


async def _twice(server: Server) -> None:
    await server.rest.post("/x", b"{}")
    await server.rest.post("/x", b"{}")


async def test_nobody_has_to_listen_to_the_waits() -> None:
    server = Server(limited(0, 9), answer())
    server.rest.notify = None
    await _twice(server)
    assert server.times == [0.0, 9.0]
