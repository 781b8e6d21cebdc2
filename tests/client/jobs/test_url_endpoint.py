"""Servers at URLs: where requests go, what they carry, and how a server tells how it is."""

import httpx
import pytest

from orchestrator.client import ServerlessEndpoint, Service
from orchestrator.clock import SystemClock
from orchestrator.core.limits.rate_pacer import Limit, Operation
from orchestrator.core.service.endpoint_headers import EndpointHeaders, read_headers
from orchestrator.core.service.health import Health, health_of, is_of_service
from orchestrator.core.service.http_answers import Answer
from orchestrator.errors import UsageError
from tests.client.replies import Replies

pytestmark = pytest.mark.anyio

KEY = "rpa_the_services_own_key"
SERVICE = "https://api.example.com"
PLENTY = dict.fromkeys(Operation, Limit(1_000_000, 10, 9))


def endpoint_at(
    url: str, script: Replies, *, key: str = KEY, headers: dict[str, EndpointHeaders] | None = None
) -> ServerlessEndpoint:
    transport = httpx.MockTransport(script)
    service = Service(SERVICE, key, SystemClock(), limits=PLENTY, transport=transport)
    service.endpoint_headers = headers or {}
    return service.endpoint(url).api


async def asked(api: ServerlessEndpoint) -> Answer:
    return await api.openai(await api.limiter.permit(Operation.OPENAI), "/v1/chat/completions", b"{}", within_s=9)


@pytest.mark.parametrize(
    ("url", "has_key"),
    [
        ("https://abc.api.example.com/v1", True),
        ("https://api.example.com/lb/abc/v1", True),
        ("https://vllm.example.org/v1", False),
        ("http://abc.api.example.com/v1", False),
        ("http://127.0.0.1:8000", False),
    ],
)
async def test_the_services_key_goes_to_the_service_only(url: str, has_key: bool) -> None:
    script = Replies(httpx.Response(200, content=b"{}"), httpx.Response(200, content=b""))
    api = endpoint_at(url, script)
    await asked(api)
    await api.health(await api.limiter.permit(Operation.HEALTH))
    assert [str(request.url) for request in script.requests] == [
        f"{url.removesuffix('/v1')}/v1/chat/completions", f"{url.removesuffix('/v1')}/ping"
    ]  # fmt: skip
    for request in script.requests:
        assert request.headers.get("authorization") == (f"Bearer {KEY}" if has_key else None)
        assert has_key or KEY not in str(request.headers.raw)


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("https://abc.api.other.org/v1", "rpa_of_the_other"),
        ("https://abc.api.example.com/v1", KEY),
        ("https://vllm.example.org/v1", None),
    ],
)
async def test_a_url_of_a_further_service_gets_the_key_of_that_one(url: str, key: str | None) -> None:
    script = Replies(httpx.Response(401, content=b'{"error":"wrong key: rpa_of_the_other"}'))
    service = Service(SERVICE, KEY, SystemClock(), limits=PLENTY, transport=httpx.MockTransport(script))
    service.further_keys = {"https://api.other.org": "rpa_of_the_other"}
    answer = await asked(service.endpoint(url).api)
    [request] = script.requests
    assert request.headers.get("authorization") == (key and f"Bearer {key}")
    assert (b"rpa_of_the_other" in answer.body) is (key != "rpa_of_the_other")


async def test_own_headers_go_to_their_endpoint_only_and_win() -> None:
    own = read_headers({"authorization": "env:K", "X-Team": "red", "accept": "x/y"}, {"K": "sk-of-vllm"})
    for url in ("https://abc.api.example.com", "https://vllm.example.org/v1"):
        for used in (url, f"{url}/other"):
            script = Replies(httpx.Response(200, content=b"{}"))
            await asked(endpoint_at(used, script, headers={url: own}))
            [request] = script.requests
            assert (request.headers.get("authorization") == "Bearer sk-of-vllm") is (used == url)
            assert request.headers.get("x-team") == ("red" if used == url else None)
            assert (request.headers["accept"] == "x/y") is (used == url)
            assert len(request.headers.get_list("authorization")) <= 1


async def test_a_secret_that_a_refusal_repeats_is_taken_out() -> None:
    own = read_headers({"X-Key": "env:K"}, {"K": "sk-of-vllm"})
    script = Replies(httpx.Response(400, content=b'{"error":"bad sk-of-vllm"}'))
    answer = await asked(endpoint_at("https://h.example", script, headers={"https://h.example": own}))
    assert answer.body == b'{"error":"bad [hidden]"}'


async def test_without_a_key_of_the_service_a_url_is_reached_all_the_same() -> None:
    script = Replies(httpx.Response(200, content=b"{}"))
    assert (await asked(endpoint_at("https://h.example", script, key=""))).status == 200
    with pytest.raises(UsageError, match="the API key is empty"):
        endpoint_at("abc", script, key="")


def test_what_cannot_be_used_is_told_before_anything_is_sent() -> None:
    needs = read_headers({"X-Key": "env:K"}, {})
    with pytest.raises(UsageError, match="need the variable K"):
        endpoint_at("https://h.example", Replies(), headers={"https://h.example": needs})
    with pytest.raises(UsageError, match="no query"):
        endpoint_at("https://h.example/?a", Replies())


@pytest.mark.parametrize(
    ("replies", "paths", "tells", "health", "answers"),
    [
        ((200,), ["/ping"], True, Health(raw=b"{}"), True),
        ((204,), ["/ping"], True, None, False),
        ((404, 200), ["/ping", "/health"], True, Health(raw=b"{}"), True),
        ((405, 503), ["/ping", "/health"], True, None, False),
        ((404, 404), ["/ping", "/health"], False, Health(raw=b"{}"), True),
        ((401,), ["/ping"], True, None, True),
    ],
)
async def test_how_a_server_is_it_tells_by_ping_or_by_health_or_not_at_all(
    replies: tuple[int, ...], paths: list[str], tells: bool, health: Health | None, answers: bool
) -> None:
    script = Replies(*(httpx.Response(status, content=b"") for status in replies))
    api = endpoint_at("https://h.example/v1", script)
    answer = await api.health(await api.limiter.permit(Operation.HEALTH))
    assert [request.url.path for request in script.requests] == paths
    assert api.tells_health is tells
    found = health_of(answer.status, answer.body)
    assert (found is None) is (health is None)
    assert is_of_service(answer.status, answer.body) is answers


async def test_where_it_has_told_it_is_asked_again() -> None:
    script = Replies(*(httpx.Response(status, content=b"ok") for status in (404, 200, 200, 404, 200)))
    api = endpoint_at("https://h.example", script)
    for _ in range(3):
        await api.ask_health()
    assert [request.url.path for request in script.requests] == ["/ping", "/health", "/health", "/health"]
