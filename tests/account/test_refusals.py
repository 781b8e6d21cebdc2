"""What every refusal has in common, whichever interface it comes from."""

from collections.abc import Awaitable, Callable, Mapping

import anyio
import httpx
import pytest

from orchestrator.account import Account, GraphQLError, ProblemError
from orchestrator.client import RefusedError, Service
from orchestrator.core.service.account_interfaces import Interface
from tests.simulation.clock import VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

KEY = "a-very-secret-key"

AREAS: Mapping[str, tuple[type[RefusedError], str, Callable[[Account], Awaitable[object]]]] = {
    "pods": (ProblemError, "pods delete p1", lambda account: account.pods.delete("p1")),
    "endpoints v1": (ProblemError, "endpoints delete e1", lambda account: account.endpoints.delete("e1")),
    "endpoints v2": (ProblemError, "endpoints delete e1", lambda account: account.endpoints.delete("e1")),
    "templates graphql": (GraphQLError, "templates delete t", lambda account: account.templates.delete("t", wait_s=0)),
    "secrets graphql": (GraphQLError, "secrets delete s", lambda account: account.secrets.delete("s")),
    "secrets v2": (ProblemError, "secrets delete s", lambda account: account.secrets.delete("s")),
}
"""What is asked for, and by which interface where there are several."""


def account_of(service: Service, area: str) -> Account:
    _, _, interface = area.partition(" ")
    return Account(service, interface=Interface(interface or "auto"))


async def refusal(area: str, answer: httpx.Response) -> RefusedError:
    kind, _, call = AREAS[area]
    transport = httpx.MockTransport(lambda _: httpx.Response(answer.status_code, content=answer.content))
    service = Service("http://h", KEY, VirtualClock(), transport=transport)
    with pytest.raises(RefusedError) as caught:
        await call(account_of(service, area))
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
async def test_a_catcher_is_told_whether_waiting_may_help_and_what_may_have_happened(
    area: str, status: int, passing: bool
) -> None:
    error = await refusal(area, httpx.Response(status))
    assert (error.status, error.passing) == (status, passing)
    assert ("whether it happened is unknown" in str(error)) is (status >= 500)


# --- questions

QUESTIONS: Mapping[str, Callable[[Account], Awaitable[object]]] = {
    "pods": lambda account: account.pods.list(),
    "endpoints v1": lambda account: account.endpoints.list(),
    "endpoints v2": lambda account: account.endpoints.list(),
    "templates graphql": lambda account: account.templates.list(),
    "secrets graphql": lambda account: account.secrets.list(),
}
ANSWERS = {
    "pods": {"pods": []},
    "endpoints v1": [],
    "endpoints v2": {"endpoints": [], "pagination": {"hasNextPage": False, "nextCursor": None}},
    "templates graphql": {"data": {"myself": {"podTemplates": []}}},
    "secrets graphql": {"data": {"myself": {"secrets": []}}},
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
    await QUESTIONS[area](account_of(service, area))
    assert replies == []
    assert anyio.current_time() - began >= 9, "a Retry-After is obeyed"
