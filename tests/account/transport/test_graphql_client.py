"""The GraphQL client: what is sent, what becomes of an answer, and where the key never stands."""

import traceback
from urllib.parse import quote

import httpx
import msgspec
import pytest
from graphql import parse_value, value_from_ast_untyped
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.account.transport.graphql_client import GraphQLError, Value, literal
from orchestrator.client.jobs.refusals import AnswerError
from orchestrator.errors import NotSent, OrchestratorError, Unanswered, UsageError
from tests.account.accounts import Script, client_of, data, everything_logged, refused, scripted
from tests.client.raw_server import answering, closed_port, response, serving
from tests.emulator.accounts import KEY, account
from tests.texts import CHARACTERS, texts

pytestmark = pytest.mark.anyio

NO_SECRETS = data(myself={"secrets": []})
VALUE = 'hunter2 "quoted"\nsecond line'


async def test_one_post_with_one_property_and_the_key_in_the_url() -> None:
    """contract, templates, Endpoints and Authentication 1."""
    script = Script(NO_SECRETS)
    assert await scripted(script).secrets.list() == ()
    (request,) = script.requests
    assert request.method == "POST"
    assert request.url.copy_with(query=None) == "http://emulator/graphql"
    assert dict(request.url.params) == {"api_key": KEY}
    assert request.headers["content-type"] == "application/json"
    assert "authorization" not in request.headers
    assert msgspec.json.decode(request.content).keys() == {"query"}


async def test_by_a_setting_the_key_goes_in_the_bearer_header() -> None:
    """contract, templates, Authentication 2 ("not shown"): a choice, and off by default."""
    script = Script(NO_SECRETS)
    await scripted(script, graphql_key="header").secrets.list()
    (request,) = script.requests
    assert (request.url.query, request.headers["authorization"]) == (b"", f"Bearer {KEY}")


@pytest.mark.parametrize("place", ["query", "header"])
async def test_the_emulator_takes_the_key_in_either_place(place: str) -> None:
    assert await client_of(account(), graphql_key=place).secrets.list() == ()


async def test_errors_in_a_200_answer_are_errors() -> None:
    with pytest.raises(GraphQLError) as caught:
        await scripted(Script(refused("name\x1b[31m is taken", "and more"))).secrets.delete("x")
    error = caught.value
    assert (error.doing, error.status, error.exit_code, error.passing) == ("secrets delete x", 200, 3, False)
    assert str(error) == "secrets delete x: the service refused it (name [31m is taken; and more)"
    assert error.errors == ("name [31m is taken", "and more")


@pytest.mark.parametrize(
    ("reply", "kind", "text"),
    [
        (
            refused("bad", status=400),
            GraphQLError,
            "secrets delete x: the service takes the request for malformed (400 Bad Request; bad)",
        ),
        (httpx.Response(200, json={"errors": [{"message": 7}]}), GraphQLError, "no reason given"),
        (httpx.Response(404, text="not here"), GraphQLError, "404 Not Found"),
        (httpx.Response(429, headers={"retry-after": "7"}), GraphQLError, "the service asks to wait for 7 s"),
        (
            httpx.Response(200, text="<html>"),
            AnswerError,
            "not with GraphQL; whether it happened is unknown, look before you repeat it",
        ),
        (httpx.Response(200, text=""), AnswerError, "not with GraphQL"),
        (httpx.Response(200, text='{"data":'), AnswerError, "not with GraphQL"),
        (httpx.Response(200, text="[" * 100_000), AnswerError, "not with GraphQL"),
        (httpx.Response(200, text="{}"), AnswerError, "lacks what was asked for"),
        (httpx.ConnectError("refused"), NotSent, "no connection to emulator"),
        (httpx.ReadError("cut"), Unanswered, "no complete answer"),
    ],
)
async def test_every_answer_becomes_one_clear_error(
    reply: httpx.Response | Exception, kind: type[OrchestratorError], text: str
) -> None:
    """Contract of templates, Response `data` keyed by the mutation."""
    with pytest.raises(kind) as caught:
        await scripted(Script(reply)).secrets.delete("x")
    assert type(caught.value) is kind
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def _echo(request: httpx.Request) -> httpx.Response:
    """A service that quotes the whole request at whoever asks."""
    query = msgspec.json.decode(request.content)["query"]
    return refused(f"{request.url} {dict(request.headers)} {query}")


def _echo_plainly(request: httpx.Request) -> httpx.Response:
    return httpx.Response(500, json={"detail": f"{request.url} {request.headers}", "errors": [str(request.url)]})


@pytest.mark.parametrize("place", ["query", "header"])
@pytest.mark.parametrize("echo", [_echo, _echo_plainly])
async def test_what_the_service_quotes_holds_neither_key_nor_secret(place: str, echo: object) -> None:
    """Contract of templates, Secret `value`: input only."""
    client = scripted(echo, graphql_key=place)  # type: ignore[arg-type]  # anything callable will do
    with pytest.raises(GraphQLError) as caught:
        await client.secrets.create("n", VALUE)
    text = "".join(traceback.format_exception(caught.value)) + repr(caught.value) + repr(vars(caught.value))
    for secret in (KEY, quote(KEY, safe=""), "hunter2", "second line"):
        assert secret not in text


@pytest.mark.parametrize("place", ["query", "header"])
async def test_the_key_is_in_no_log_and_no_repr(place: str) -> None:
    client = client_of(account(), graphql_key=place)
    with everything_logged() as lines:
        await client.secrets.create("n", VALUE)
        with pytest.raises(GraphQLError):
            await client.secrets.create("n", VALUE)
        await client.templates.list()
    lines += [repr(each) for each in (client, client.secrets, client.templates, client.secrets._forms)]
    assert not [line for line in lines if KEY in line or quote(KEY, safe="") in line or "hunter2" in line]


async def test_over_a_real_socket_the_key_is_in_no_log_and_no_trace() -> None:
    from orchestrator.account import Account
    from orchestrator.client import Service

    async def failing(address: str, kind: type[OrchestratorError]) -> str:
        async with Service(f"http://{address}", KEY) as service:
            client = Account(service, graphql_url=f"http://{address}/graphql")
            with pytest.raises(kind) as caught:
                await client.secrets.delete("x")
        return "".join(traceback.format_exception(caught.value))

    with everything_logged() as lines:
        lines.append(await failing(closed_port(), NotSent))
        async with serving(answering(response(b'{"data":{}}')[:-4])) as address:
            lines.append(await failing(address, Unanswered))
        async with serving(answering(response(b"{}", status="401 Unauthorized"))) as address:
            lines.append(await failing(address, GraphQLError))
    assert not [line for line in lines if KEY in line or quote(KEY, safe="") in line]


async def test_a_short_key_is_left_in_what_the_service_says() -> None:
    with pytest.raises(GraphQLError, match="a secret is a secret"):
        await scripted(Script(refused("a secret is a secret")), key="a").secrets.list()


TEXTS = texts()
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**31), 2**31 - 1) | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.from_regex(r"[_A-Za-z][_0-9A-Za-z]*", fullmatch=True, alphabet=CHARACTERS), inner, max_size=3
        )
    ),
    max_leaves=6,
)


@given(VALUES)
def test_a_literal_is_read_back_as_what_it_was(value: Value) -> None:
    assert value_from_ast_untyped(parse_value(literal(value))) == value


def test_what_no_literal_can_say_is_refused() -> None:
    with pytest.raises(UsageError, match="no Unicode"):
        literal("\udcff")
    with pytest.raises(ValueError, match="no GraphQL name"):
        literal({"a b": 1})
