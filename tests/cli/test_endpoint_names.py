"""Names of endpoints in the place of their ids: who is asked, what is found, and what the program gets."""

from typing import Any

import httpx
import pytest
import typer

from orchestrator.account import Account
from orchestrator.cli.access import Access
from orchestrator.cli.endpoint_names import with_endpoint_id
from orchestrator.client import Service
from tests.cli.fake_api import FakeApp, invoke
from tests.cli.service import ok, refusal, service
from tests.cli.test_config import write

KEY = {"ORCHESTRATOR_API_KEY": "rpa_secret"}
LISTED = [{"id": "abc123", "name": "captions"}, {"id": "def456", "name": "My upscaler"}, {"id": "two1", "name": "twin"},
          {"id": "two2", "name": "twin"}]  # fmt: skip


class Asked:
    """An account with these endpoints, and the job API of one that is everybody's; what was asked of them."""

    def __init__(self, listing: int = 200, **environment: str) -> None:
        self.paths: list[str] = []
        self.listing = listing
        self.environment = {**KEY, "ORCHESTRATOR_REST_URL": "http://rest", **environment}

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.paths.append(request.url.path)
        if request.url.path == "/v1/endpoints":
            return httpx.Response(self.listing, json=LISTED)
        if request.url.path == "/v2/public-flux/health":
            return httpx.Response(200, json={"jobs": {}, "workers": {}})
        return httpx.Response(404)

    def connect(self, access: Access) -> Account:
        assert access.key == "rpa_secret"
        service = Service("http://jobs", access.key, transport=httpx.MockTransport(self.answer))
        return Account(service, rest_url="http://rest")

    def __call__(self, monkeypatch: pytest.MonkeyPatch, given: str) -> str:
        for name, value in self.environment.items():
            monkeypatch.setenv(name, value)
        found: str = with_endpoint_id({"endpoint": given}, self.connect)["endpoint"]
        return found


@pytest.mark.parametrize("given", ["abc123", "0op1aez3bgxmkx", "local:f.py:f"])
def test_an_id_needs_no_key_and_no_request(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    asked = Asked(ORCHESTRATOR_API_KEY="")
    assert (asked(monkeypatch, given), asked.paths) == (given, [])


@pytest.mark.parametrize(
    ("given", "found", "requests"),
    [("captions", "abc123", 1), ("My upscaler", "def456", 1), ("public-flux", "public-flux", 2)],
)
def test_a_name_is_looked_up_once(monkeypatch: pytest.MonkeyPatch, given: str, found: str, requests: int) -> None:
    """What is in no list may still be an id, as of an endpoint that is everybody's; the job API knows."""
    asked = Asked()
    assert (asked(monkeypatch, given), len(asked.paths)) == (found, requests)


@pytest.mark.parametrize(
    ("given", "listing", "code", "said"),
    [
        ("twin", 200, 2, "2 endpoints are called twin: two1, two2; say which, by its id"),
        ("caption", 200, 2, "there is no endpoint caption; did you mean captions?"),
        ("captions", 403, 3, "the API key has no permission for this (403 Forbidden"),
    ],
)
def test_a_name_that_leads_nowhere_ends_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], given: str, listing: int, code: int, said: str
) -> None:
    with pytest.raises(typer.Exit) as ended:
        Asked(listing)(monkeypatch, given)
    assert ended.value.exit_code == code
    assert said in capsys.readouterr().err


def test_another_service_whose_account_nobody_named_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(ORCHESTRATOR_REST_URL="", ORCHESTRATOR_SERVERLESS_URL="http://127.0.0.1:8900")
    assert (asked(monkeypatch, "captions"), asked.paths) == ("captions", [])


COMMANDS = [
    ("run", "in.jsonl", "--endpoint", "captions"),
    ("plan", "in.jsonl", "--endpoint", "captions"),
    ("resume", "in", "--endpoint", "captions"),
    ("doctor", "--endpoint", "captions"),
]


def test_each_command_gets_the_id_and_so_does_the_ledger() -> None:
    with service(ok('[{"id": "abc123", "name": "captions"}]')) as there:
        for words in COMMANDS:
            app = FakeApp()
            invoke(app, *words, "--rest-url", there.url, **KEY) if words[0] != "doctor" else invoke(
                app, *words, ORCHESTRATOR_REST_URL=there.url, **KEY
            )
            request: Any = app.requests[0] if app.requests else app.asked[0][0]
            assert getattr(request, "run", request).endpoint == "abc123", words
        write('endpoint = "captions"')
        resumed = FakeApp()
        invoke(resumed, "resume", "in", ORCHESTRATOR_REST_URL=there.url, **KEY)
        assert resumed.requests[0].endpoint is None, "it stays where its run is"
        assert there.asked == ["GET /v1/endpoints"] * len(COMMANDS)


def test_the_raw_operations_take_a_name_too() -> None:
    health = ok('{"jobs": {"inQueue": 3}, "workers": {}}')
    with service(ok('[{"id": "abc123", "name": "captions"}]'), health) as there:
        shown = there.api("health", "captions", "--json", ORCHESTRATOR_REST_URL=there.url)
        assert (shown.exit_code, there.asked) == (0, ["GET /v1/endpoints", "GET /v2/abc123/health"]), shown.stderr
    with service(ok('[{"id": "abc123", "name": "captions"}]'), refusal("404 Not Found")) as there:
        refused = there.api("health", "caption", ORCHESTRATOR_REST_URL=there.url)
        assert (refused.exit_code, refused.stderr) == (
            2,
            "error: there is no endpoint caption; did you mean captions?\n",
        )
