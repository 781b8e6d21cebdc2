"""Whatever goes wrong, in whichever area: one clear line, exit code 3, and no secret anywhere.

What each answer means: `tests/client/jobs/test_jobs.py` and `tests/account/test_refusals.py`. Here each is met once, and
each area once.

Each area is asked for a change, the worst case: its request holds a secret, its effect matters, and its answer has a
body. The service quotes the whole request at whoever asks.
"""

import json
import re
import traceback
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import httpx
import pytest

from orchestrator.account import Account
from orchestrator.cli.framework.service_access import Access
from orchestrator.client import Service
from tests.cli.command_line import Result, call

KEY = "the-key/of+the=account"
SECRET = 'hunter2 "and" more\nof it'
POD = {"id": "p1", "name": "n", "status": "RUNNING", "env": {"TOKEN": SECRET}}

SAVE = (
    *("templates", "save", "t", "--image", "me/w:1", "--container-disk", "5", "--serverless"),
    *("--env", "TOKEN=env:THE_SECRET"),
)
SECRET_FROM = ("secrets", "create", "n", "--value", "env:THE_SECRET")
ENDPOINT = ("endpoints", "create", "--template", "t1", "--name", "e")
COMMANDS = {
    "api": ("api", "run", "abc1", "--input", '{"input":{"n":1},"s3Config":{"accessSecret":"env:THE_SECRET"}}'),
    "endpoints v1": (*ENDPOINT, "--interface", "v1"),
    "endpoints v2": (*ENDPOINT, "--gpu", "AMPERE_24", "--interface", "v2"),
    "pods": ("pods", "stop", "p1"),
    "templates v2": (*SAVE, "--interface", "v2"),
    "templates graphql": (*SAVE, "--interface", "graphql"),
    "secrets v2": (*SECRET_FROM, "--interface", "v2"),
    "secrets graphql": (*SECRET_FROM, "--interface", "graphql"),
}
DOING = {
    "api": "run",
    "endpoints": "endpoints create",
    "pods": "pods stop p1",
    "templates": "templates save t",
    "secrets": "secrets create n",
}


def noun(area: str) -> str:
    """An area without the interface that is spoken."""
    return area.partition(" ")[0]


def doing(area: str) -> str:
    return DOING[noun(area)]


STATUSES = {
    "wrong key": (401, "the service refused the API key"),
    "missing scope": (403, "the API key has no permission for this"),
    "unknown id": (404, "the service does not know it|there is no GraphQL at this address"),
    "invalid transition": (409, "state"),
    "invalid body": (422, "the service cannot work with the request"),
    "malformed body": (400, "the service takes the request for malformed"),
    "throttled": (429, "the service asks to wait for 3600 s"),
    "failed": (500, "the service failed"),
}
"""What the service answers, and what the user is told."""


class Cut(httpx.AsyncByteStream):
    """Half a body, and then the connection is gone."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b'{"id":"'
        raise httpx.ReadError(f"cut {KEY}")


BROKEN: Mapping[str, tuple[httpx.Response | httpx.AsyncByteStream | Exception, tuple[str, ...]]] = {
    "not JSON": (httpx.Response(200, text="<html>hello</html>"), ("not JSON", "cannot be read", "not with GraphQL")),
    "empty": (httpx.Response(200, content=b""), ("empty", "cannot be read", "not with GraphQL")),
    "cut JSON": (httpx.Response(200, content=b'{"id":"'), ("not JSON", "cannot be read", "not with GraphQL")),
    "cut in the middle": (Cut(), ("no complete answer",)),
    "cut before the answer": (httpx.ReadError(f"cut {KEY}"), ("no complete answer",)),
    "nobody there": (httpx.ConnectError(f"no {KEY}"), ("no connection to service.example",)),
}


class Told:
    """Answers every change as told, and looks at a pod with a pod."""

    def __init__(self, reply: int | httpx.Response | httpx.AsyncByteStream | Exception) -> None:
        self.reply = reply
        self.changes = 0

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.method == "GET" or b'"query":"query' in request.content:
            return httpx.Response(200, json={"pods": [POD]} if request.url.path == "/v2/pods" else POD)
        self.changes += 1
        match self.reply:
            case int() as status:
                quoted = f"{request.url} {dict(request.headers)} {request.content.decode()}"
                headers = {"retry-after": "3600"} if status == 429 else {}
                return httpx.Response(status, json={"detail": quoted, "errors": [quoted]}, headers=headers)
            case httpx.AsyncByteStream() as stream:
                return httpx.Response(200, stream=stream)
            case httpx.Response() as reply:
                return httpx.Response(reply.status_code, content=reply.content)
            case error:
                raise error

    def connect(self, access: Access) -> Account:
        host = "http://service.example"
        service = Service(host, access.key, transport=httpx.MockTransport(self))
        return Account(service, base_url=host, rest_url=host, graphql_url=f"{host}/graphql", interface=access.interface)


def asked(service: Told, area: str, *more: str) -> Result:
    environment: Mapping[str, str] = {"ORCHESTRATOR_API_KEY": KEY, "THE_SECRET": SECRET}
    return call([*COMMANDS[area], *more], environment=environment, connect=service.connect)


def told(result: Result) -> str:
    """The one line that says what went wrong. Nothing that the process shows or leaves behind holds a secret."""
    left = [path.read_text() for path in Path().iterdir()]
    everything = result.stdout + result.stderr + "".join(left)
    if result.exception is not None:
        everything += "".join(traceback.format_exception(result.exception))
    for secret in (KEY, "the-key", "hunter2", "of it", json.dumps(SECRET)[1:-1]):
        assert secret not in everything
    assert left == []
    assert (result.exit_code, result.stdout) == (3, "")
    (line,) = result.stderr.splitlines()
    return line


@pytest.mark.parametrize(
    ("area", "trouble"), [*((area, "failed") for area in COMMANDS), *(("pods", trouble) for trouble in STATUSES)]
)
def test_each_trouble_is_one_clear_line_in_each_area(area: str, trouble: str) -> None:
    """Contracts, Errors: the rows of their tables, for jobs, endpoints, pods, templates and secrets."""
    status, words = STATUSES[trouble]
    service = Told(status)
    line = told(asked(service, area))
    assert line.startswith(f"error: {doing(area)}: ")
    assert re.search(words, line)
    assert f"({status} " in line
    assert "[hidden]" in line
    assert service.changes == 1, "what may have taken effect is not repeated"
    assert bool(re.search("whether it (happened|took effect) is unknown", line)) == (status == 500)


@pytest.mark.parametrize("area", ["pods", "secrets graphql"])
@pytest.mark.parametrize("trouble", BROKEN)
def test_each_broken_answer_is_one_clear_line_in_each_area(area: str, trouble: str) -> None:
    """Contracts, Errors: bodies are not shown, so any must do."""
    reply, words = BROKEN[trouble]
    service = Told(reply)
    line = told(asked(service, area, "--json"))
    assert line.startswith(f"error: {doing(area)}: ")
    assert any(word in line for word in words)
    assert service.changes == 1, "what may have taken effect is not repeated"
    unsure = any(word in line for word in ("unknown", "may exist all the same", "probably happened"))
    assert unsure == (trouble != "nobody there")


@pytest.mark.parametrize("area", ["templates graphql", "secrets graphql"])
def test_a_refusal_of_graphql_is_one_clear_line_whatever_its_status(area: str) -> None:
    """Contract of templates, Errors: shape and messages are not shown."""
    message = f"no {KEY} and no {SECRET}"
    line = told(asked(Told(httpx.Response(200, json={"errors": [{"message": message}], "data": None})), area))
    assert line == f"error: {doing(area)}: the service refused it (no [hidden] and no [hidden])"


def test_an_action_that_the_pod_does_not_allow_is_not_even_sent() -> None:
    """Contract of pods, 409: an invalid transition is refused with the actions that are valid."""
    service = Told(409)
    result = call(["pods", "start", "p1"], environment={"ORCHESTRATOR_API_KEY": KEY}, connect=service.connect)
    assert (result.exit_code, service.changes) == (2, 0)
    assert "it allows: stop, restart, terminate; nothing was sent" in result.stderr
