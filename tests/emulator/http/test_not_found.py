"""What no route takes: one form of errors for each interface, for unknown paths, wrong methods and wrong keys."""

import logging
from collections.abc import MutableMapping
from typing import Any

import httpx
import pytest

from orchestrator.emulator.http.not_found import NOT_SERVED
from tests.emulator.emulators import emulator

pytestmark = pytest.mark.anyio

PROBLEM = "application/problem+json"


def sentence(answer: httpx.Response, form: str) -> str:
    """What an error says, which must have the form of its interface and nothing besides."""
    body = answer.json()
    match form:
        case "jobs":
            assert body.keys() == {"error"}
            return str(body["error"])
        case "v1":
            assert body == {"error": body["error"], "status": answer.status_code}
            return str(body["error"])
        case "v2":
            assert (answer.headers["content-type"], body["status"]) == (PROBLEM, answer.status_code)
            assert body.keys() <= {"title", "status", "detail", "errors"}
            return str(body["detail"])
        case _:
            assert body == {"errors": [{"message": body["errors"][0]["message"]}]}
            return str(body["errors"][0]["message"])


@pytest.mark.parametrize(
    ("form", "method", "path", "allow"),
    [
        ("jobs", "GET", "/v2/ep/nothing", None),
        ("jobs", "GET", "/nothing", None),
        ("jobs", "GET", "/v2/ep/run", "POST"),
        ("jobs", "DELETE", "/v2/ep/status/j", "GET, HEAD, POST"),
        ("v1", "GET", "/v1/nothing", None),
        ("v1", "DELETE", "/v1/endpoints", "GET, HEAD, POST"),
        ("v1", "PUT", "/v1/endpoints/e", "DELETE, GET, HEAD, PATCH"),
        ("v2", "GET", "/v2/catalog/nothing", None),
        ("v2", "GET", "/v2/pods/p/nothing", None),
        ("v2", "PUT", "/v2/pods", "GET, POST"),
        ("graphql", "POST", "/graphql/nothing", None),
        ("graphql", "GET", "/graphql", "POST"),
    ],
)
async def test_each_interface_has_one_form_of_errors(form: str, method: str, path: str, allow: str | None) -> None:
    app = emulator(keys=("right",)).app
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://emulator") as http:
        answer = await http.request(method, path, headers={"authorization": "Bearer right"})
        assert answer.headers.get("allow") == allow
        assert (answer.status_code, sentence(answer, form)) == (
            (404, "not found") if allow is None else (405, "method not allowed")
        )
        for headers in ({"authorization": "Bearer wrong"}, {"authorization": "Bearer "}, {}):
            refused = await http.request(method, path, headers=headers)
            assert (refused.status_code, sentence(refused, form)) == (401, sentence(refused, form)), headers


async def test_each_call_that_is_not_served_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(emulator().app), base_url="http://emulator") as http:
        for path in ("/v2/catalog/x", "/v2/catalog/x?api_key=hidden", "/v1/%1b[2Jbilling", "/v2/ep/run"):
            await http.get(path, headers={"authorization": "Bearer key"})
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert told == [
        "the emulator does not serve GET /v2/catalog/x",
        "the emulator does not serve GET /v1/?[2Jbilling",
    ]


async def test_a_server_may_ask_for_more_than_requests() -> None:
    """As those do that serve the application of an emulator themselves."""
    asked, told = iter(["lifespan.startup", "lifespan.shutdown"]), list[str]()

    async def receive() -> dict[str, str]:
        return {"type": next(asked)}

    async def send(message: MutableMapping[str, Any]) -> None:
        told.append(message["type"])

    await emulator().app({"type": "lifespan", "app": None, "state": {}}, receive, send)
    assert told == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


@pytest.mark.parametrize(
    "path", ["clusters", "billing/pods", "account/ssh-keys/k", "catalog/templates", "openapi.json"]
)
async def test_what_the_service_has_and_the_emulator_has_not_is_named(path: str) -> None:
    app = emulator(keys=("right",)).app
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://emulator") as http:
        answer = await http.get(f"/v2/{path}", headers={"authorization": "Bearer right"})
        named = next(name for name in NOT_SERVED if path.startswith(name))
        assert (answer.status_code, answer.json()["detail"]) == (
            404,
            f"not found: the emulator does not serve /v2/{named}",
        )
