"""What every refusal has in common, whichever interface it comes from; and secrets in what a service says."""

import re
from collections.abc import Awaitable, Callable, Mapping
from urllib.parse import quote

import anyio
import httpx
import pytest
from hypothesis import given

from orchestrator.account import Account, GraphQLError, ProblemError
from orchestrator.account.graphql import literal
from orchestrator.client import JobRefusedError, RefusedError, Service
from orchestrator.client.redaction import HIDDEN, Hiding
from orchestrator.core.responses import Answer
from tests.simulation.clock import VirtualClock
from tests.texts import texts

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

KEY = "a-very-secret-key"

AREAS: Mapping[str, tuple[type[RefusedError], str, Callable[[Account], Awaitable[object]]]] = {
    "jobs": (JobRefusedError, "cancel job-1", lambda account: account.service.endpoint("e").cancel("job-1")),
    "pods": (ProblemError, "pods delete p1", lambda account: account.pods.delete("p1")),
    "endpoints": (ProblemError, "endpoints delete e1", lambda account: account.endpoints.delete("e1")),
    "templates": (GraphQLError, "templates delete t", lambda account: account.templates.delete("t", wait_s=0)),
    "secrets": (GraphQLError, "secrets delete s", lambda account: account.secrets.delete("s")),
}


async def refusal(area: str, answer: httpx.Response) -> RefusedError:
    kind, _, call = AREAS[area]
    transport = httpx.MockTransport(lambda _: httpx.Response(answer.status_code, content=answer.content))
    service = Service("http://h", KEY, VirtualClock(), transport=transport)
    with pytest.raises(RefusedError) as caught:
        await call(Account(service))
    assert type(caught.value) is kind
    return caught.value


@pytest.mark.parametrize("area", AREAS)
async def test_whichever_interface_refuses_a_catcher_finds_the_same(area: str) -> None:
    """Contract of pods, Errors: the members of a problem document."""
    document = {"title": "Forbidden", "status": 403, "detail": f"not with {KEY}", "errors": ["a", "b"]}
    error = await refusal(area, httpx.Response(403, json=document))
    assert (error.doing, error.status, error.title) == (AREAS[area][1], 403, "Forbidden")
    assert (error.detail, error.errors) == ("not with [hidden]", ("a", "b"))
    assert (error.retry_after_s, error.passing, error.exit_code) == (None, False, 3)
    assert error.advice == "use a key that has"
    text = "(403 Forbidden: not with [hidden]; a; b); use a key that has"
    assert str(error).startswith(f"{error.doing}: the API key has no permission for this")
    assert str(error).endswith(text)


@pytest.mark.parametrize("area", AREAS)
@pytest.mark.parametrize(("status", "passing"), [(400, False), (404, False), (500, True), (501, False), (503, True)])
async def test_a_catcher_is_told_whether_waiting_may_help(area: str, status: int, passing: bool) -> None:
    error = await refusal(area, httpx.Response(status))
    assert (error.status, error.passing) == (status, passing)


@pytest.mark.parametrize("area", ["pods", "endpoints", "templates", "secrets"])
async def test_a_change_that_met_a_server_error_may_have_happened(area: str) -> None:
    assert "whether it happened is unknown" in str(await refusal(area, httpx.Response(500)))
    assert "whether it happened is unknown" not in str(await refusal(area, httpx.Response(400)))


# --- questions

QUESTIONS: Mapping[str, Callable[[Account], Awaitable[object]]] = {
    "jobs": lambda account: account.service.endpoint("e").requests(),
    "pods": lambda account: account.pods.list(),
    "endpoints": lambda account: account.endpoints.list(),
    "templates": lambda account: account.templates.list(),
    "secrets": lambda account: account.secrets.list(),
}
ANSWERS = {
    "jobs": {},
    "pods": {"pods": []},
    "endpoints": [],
    "templates": {"data": {"myself": {"podTemplates": []}}},
    "secrets": {"data": {"myself": {"secrets": []}}},
}


@pytest.mark.parametrize("area", QUESTIONS)
async def test_a_question_is_asked_again_while_the_connection_or_the_service_fails(area: str) -> None:
    replies: list[httpx.Response | Exception] = [
        httpx.ConnectError("no"),
        httpx.Response(429, headers={"retry-after": "9"}),
        httpx.ReadError("cut"),
        httpx.Response(200, json=ANSWERS[area]),
    ]

    def answer(_: httpx.Request) -> httpx.Response:
        reply = replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    service = Service("http://h", KEY, VirtualClock(), transport=httpx.MockTransport(answer))
    began = anyio.current_time()
    await QUESTIONS[area](Account(service))
    assert replies == []
    assert anyio.current_time() - began >= 9, "a Retry-After is obeyed"


# --- secrets


def test_every_spelling_of_a_secret_is_hidden() -> None:
    secret = 'p+ss/w "rd"\nline two'
    forms = [secret, quote(secret, safe=""), literal(secret), literal(literal(secret)[1:-1]), "line two"]
    forms += [" ".join(secret.split()), literal(secret).replace("/", "\\/")]
    hidden = Hiding(secrets=[secret]).text(" ".join(forms))
    assert re.fullmatch(r'(\[hidden\] ?|"\[hidden\]" ?)+', hidden), hidden


@given(texts(min_size=4), texts(), texts())
def test_no_secret_survives_whatever_it_is_and_wherever_it_stands(secret: str, before: str, after: str) -> None:
    body = (before + secret + after).encode("utf-8", "replace")
    hiding = Hiding(secrets=[secret])
    answer = hiding.answer(Answer(status=400, body=body, sent_at=0, answered_at=0))
    for text in (hiding.text(before + secret + after), answer.body.decode()):
        assert secret not in text.replace(HIDDEN, "") or secret in before + after


def test_what_could_be_any_word_stays() -> None:
    assert Hiding("key", secrets=["abc"]).text("the key abc") == "the key abc"
    assert Hiding("long-key").also(["word"]).text("a long-key and a word") == "a [hidden] and a [hidden]"
    assert repr(Hiding("long-key")) == "Hiding()"


def test_an_answer_without_a_secret_is_left_alone() -> None:
    answer = Answer(status=400, body=b"no", sent_at=0, answered_at=0)
    assert Hiding("a-secret").answer(answer) is answer
