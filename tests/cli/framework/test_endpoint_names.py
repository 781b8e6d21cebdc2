"""Names of endpoints in the place of their ids: who is asked, what is found, and what the program gets."""

from pathlib import Path
from typing import Any

import httpx
import pytest
import typer

from orchestrator.account import Account
from orchestrator.cli.framework.endpoint_names import with_endpoint_id
from orchestrator.cli.framework.flags import Flags
from orchestrator.cli.framework.service_access import Access
from orchestrator.client import Service
from orchestrator.settings import run_settings
from orchestrator.settings.sources import choose
from tests.cli.command_line import give
from tests.cli.service_double import ok, refusal, service
from tests.cli.small_ledger import a_ledger
from tests.cli.test_config import write
from tests.ledger.ledgers import dump

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
        found: str = self.flags(monkeypatch, endpoint=given)["endpoint"]
        return found

    def flags(self, monkeypatch: pytest.MonkeyPatch, **flags: Any) -> Flags:
        for name, value in self.environment.items():
            monkeypatch.setenv(name, value)
        return with_endpoint_id(flags, self.connect)


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
    ("run", "in.jsonl", "--endpoint", "captions", "--dry-run", "--json"),
    ("plan", "in.jsonl", "--endpoint", "captions", "--json"),
    ("doctor", "--endpoint", "captions", "--json"),
]


@pytest.mark.parametrize("words", COMMANDS)
def test_each_command_gets_the_id(words: tuple[str, ...]) -> None:
    Path("in.jsonl").write_text('{"input":{"n":1}}\n')
    with service(ok('[{"id": "abc123", "name": "captions"}]')) as there:
        told = give(*words, ORCHESTRATOR_REST_URL=there.url, ORCHESTRATOR_SERVERLESS_URL=there.url, **KEY)
        assert "abc123" in told.stdout
        assert there.asked[0] == "GET /v1/endpoints"


def test_a_resume_gets_the_id_where_one_is_named_and_else_stays_where_its_run_is() -> None:
    with service(ok('[{"id": "abc123", "name": "captions"}]')) as there:
        a_ledger(service_url=there.url, endpoint="abc123", succeeded=1)
        urls = {"ORCHESTRATOR_REST_URL": there.url, "ORCHESTRATOR_SERVERLESS_URL": there.url}
        resumed = give("resume", "captions", "--endpoint", "captions", **urls, **KEY)
        assert resumed.exit_code == 0, resumed.stderr
        assert there.asked[0] == "GET /v1/endpoints"
        there.requests.clear()
        write('endpoint = "captions"')
        assert give("resume", "captions", **urls, **KEY).exit_code == 0
        assert "GET /v1/endpoints" not in there.asked, "not for the sake of the file"


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


def test_rules_lead_to_names_too(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked()
    rules = ["timed_out: endpoint captions, then endpoint xyz789", "failed: give-up"]
    flags = asked.flags(monkeypatch, endpoint="def456", escalate=rules)
    assert flags["escalate"] == ["timed_out: endpoint abc123, then endpoint xyz789", "failed: give-up"]
    assert asked.paths == ["/v1/endpoints"]
    assert "escalate" not in asked.flags(monkeypatch, endpoint="captions"), "what a command does not take stays out"


@pytest.mark.parametrize("given", ["abc123", "captions"])
def test_the_file_may_speak_of_an_endpoint_by_its_name(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    """Whichever way the command names it: what a budget is of is not left to how somebody types."""
    write("[endpoints.captions]\nprice-per-second = 0.5\nbudget-per-day = 5\n[endpoints.abc123]\nbudget-per-day = 7")
    asked = Asked()
    flags = asked.flags(monkeypatch, endpoint=given, price_per_second=None, budget_per_day=None)
    assert asked.paths == ["/v1/endpoints"]
    choices = choose(flags, asked.environment)
    found = (choices[run_settings.PRICE_PER_SECOND], choices[run_settings.BUDGET_PER_DAY])
    assert found == (0.5, 7.0), "what stands for its id wins"
    assert flags["endpoint"] == "abc123"


def test_where_no_name_stands_in_the_file_an_id_needs_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    write("[endpoints.abc123]\nprice-per-second = 0.5")
    asked = Asked(ORCHESTRATOR_API_KEY="")
    assert asked.flags(monkeypatch, endpoint="abc123", price_per_second=None)["endpoint"] == "abc123"
    write("[endpoints.captions]\nprice-per-second = 0.5")
    refused = Asked(listing=403)
    with pytest.raises(typer.Exit):
        refused.flags(monkeypatch, endpoint="abc123", price_per_second=None)


PROFILES = """
[profile.work]
key = "env:WORK_KEY"
rest-url = "{url}"
serverless-url = "https://work.example"
[profile.home]
key = "env:HOME_KEY"
rest-url = "http://127.0.0.1:1"
serverless-url = "https://home.example"
"""


@pytest.mark.parametrize(
    "words",
    [
        ("limits", "set", "captions", "run=5/1"),
        ("limits", "reset", "captions"),
        ("retry", "captions", "--yes"),
    ],
)
def test_what_is_asked_of_a_run_asks_the_account_of_the_run(words: tuple[str, ...]) -> None:
    ledger = a_ledger(service_url="https://work.example#work", endpoint="abc123", failed=1)
    keys = {"WORK_KEY": "key-of-work", "HOME_KEY": "key-of-home", "ORCHESTRATOR_PROFILE": "home"}
    with service(ok('[{"id": "big1", "name": "big"}]')) as there:
        write(PROFILES.format(url=there.url))
        told = give(*words, "--endpoint", "big", **keys, **KEY)
        assert there.asked == ["GET /v1/endpoints"]
        assert b"Bearer key-of-work" in there.requests[0]
        assert "the endpoint big1; it is at abc123" in told.stderr or "big1" in str(dump(ledger)), told.stderr
        known = give(*words, "--endpoint", "abc123", **keys)
        assert (known.exit_code, len(there.asked)) == (0, 1)


def test_an_endpoint_is_made_of_a_template_by_its_name() -> None:
    made = ok('{"id": "e1", "name": "x", "templateId": "t1"}')
    templates = ok('[{"id": "t1", "name": "captions", "imageName": "me/x:1"}]')
    with service(templates, made) as there:
        words = ("endpoints", "create", "--template", "captions", "--gpu", "NVIDIA L4")
        told = give(*words, "--rest-url", there.url, "--serverless-url", there.url, **KEY)
        assert told.exit_code == 0, told.stderr
        assert there.asked == ["GET /v1/templates", "POST /v1/endpoints"]
        assert b'"templateId":"t1"' in there.body(1)
