"""Whatever goes wrong, in whichever area: one clear line, exit code 3, and no secret anywhere.

What each answer means: `tests/client/jobs/test_jobs.py` and `tests/account/transport/`. Here each area is met once.

Each area is asked for a change, the worst case: its request holds a secret, its effect matters, and its answer has a
body. The service quotes the whole request at whoever asks.
"""

import json
import re
import traceback
from collections.abc import Mapping
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


class Told:
    """Answers every change as told, and looks at a pod with a pod."""

    def __init__(self, status: int) -> None:
        self.status = status
        self.changes = 0

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.method == "GET" or b'"query":"query' in request.content:
            return httpx.Response(200, json={"pods": [POD]} if request.url.path == "/v2/pods" else POD)
        self.changes += 1
        quoted = f"{request.url} {dict(request.headers)} {request.content.decode()}"
        return httpx.Response(self.status, json={"detail": quoted, "errors": [quoted]})

    def connect(self, access: Access) -> Account:
        host = "http://service.example"
        service = Service(host, access.key, transport=httpx.MockTransport(self))
        return Account(service, base_url=host, rest_url=host, graphql_url=f"{host}/graphql", interface=access.interface)


def asked(service: Told, area: str) -> Result:
    environment: Mapping[str, str] = {"ORCHESTRATOR_API_KEY": KEY, "THE_SECRET": SECRET}
    return call(COMMANDS[area], environment=environment, connect=service.connect)


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
    ("area", "status"),
    [*((area, 500) for area in COMMANDS), *(("pods", 422), ("api", 401), ("templates graphql", 200))],
)
def test_each_trouble_is_one_clear_line_in_each_area(area: str, status: int) -> None:
    """Contracts, Errors: one for jobs, endpoints, pods, templates and secrets each."""
    service = Told(status)
    line = told(asked(service, area))
    assert line.startswith(f"error: {doing(area)}: ")
    assert (f"({status} " in line) is (status != 200)
    assert "[hidden]" in line
    assert service.changes == 1, "what may have taken effect is not repeated"
    assert bool(re.search("whether it (happened|took effect) is unknown", line)) == (status == 500)
