"""Runs with pods, killed while these are asked for, start, work and end: `runs tidy` leaves none that is paid, and the same
command ends with each row done and no pod left.
"""

import json
import re
import signal
import threading
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final

import pytest

from tests.system.processes import KEY, Desk, Process, Program, looks

pytestmark = [pytest.mark.system, pytest.mark.slow]

PATIENCE_S: Final = 300.0
JOBS: Final = 40
COMPUTING: Final = frozenset({"PROVISIONING", "STARTING", "RUNNING"})
TEMPLATE: Final = {"name": "vllm-l4", "image": "me/vllm:1", "disk": 20, "ports": ["8000/http"]}
FILE: Final = """
serverless-url = "{url}"
rest-url = "{url}"

[pod-templates.vllm]
template = "vllm-l4"
port = 8000
gpu = "NVIDIA L4"
url = "{url}/proxy/{{pod}}-{{port}}"
"""
SERVER: Final = """
import asyncio, json

async def app(scope, receive, send):
    body = b""
    while scope["type"] == "http" and (message := await receive()).get("more_body", False) is not None:
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    if scope["path"] == "/work":
        await asyncio.sleep(0.2)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": json.dumps({"got": (body or b"{}").decode()}).encode()})
"""
RUN: Final = (
    *("run", "prompts.jsonl", "--pods", "2", "--pod-template", "vllm", "--via", "http", "--path", "/work"),
    *("--output", "results.jsonl", "--uncertain-after", "300ms", "--limit", "http=20/1:4", "--json"),
)


QUOTAS: Final = tuple(f"--quota={window}=9000000" for window in ("minute", "hour", "day"))
"""The test asks without a pause."""


class Account:
    """The emulated account at `url`."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, path: str, body: object = None) -> dict[str, object]:
        """What it answers."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
        with urllib.request.urlopen(urllib.request.Request(f"{self.url}{path}", data, headers)) as answer:
            found: dict[str, object] = json.loads(answer.read())
            return found

    @property
    def paid(self) -> list[str]:
        """The states of the pods that are paid."""
        pods = self.ask("/v2/pods")["pods"]
        assert isinstance(pods, list)
        return [pod["status"] for pod in pods if pod["status"] in COMPUTING]

    def until(self, holds: Callable[[list[str]], bool]) -> None:
        """Returns once that holds of the pods that are paid."""
        assert any(holds(self.paid) for _ in looks())


@contextmanager
def account_of(desk: Desk) -> Iterator[Account]:
    """An emulated account, and templates for what is at `desk`."""
    server = desk.write("server.py", SERVER)
    program = desk.start(
        "emulate", "--port", "0", "--pod-server", f"8000={server}:app", "--key", KEY, *QUOTAS, within_s=PATIENCE_S
    )
    said = program.until_said("serving")
    found = re.search(r"http://[0-9.:]+", said)
    assert found is not None, said
    account = Account(found[0])
    account.ask("/v2/templates", TEMPLATE)
    desk.write("orchestrator.toml", FILE.format(url=found[0]))
    yield account
    program.kill()


def asked(_program: Program, account: Account, _desk: Desk) -> None:
    account.until(lambda paid: len(paid) == 2)  # of one whose request died with the process, nobody knows for minutes


def starting(_program: Program, account: Account, _desk: Desk) -> None:
    account.until(lambda paid: len(paid) == 2 and "STARTING" in paid)


def working(_program: Program, account: Account, desk: Desk) -> None:
    account.until(bool)
    desk.until_state("succeeded", 8)


def ending(program: Program, account: Account, desk: Desk) -> None:
    account.until(bool)
    desk.until_state("succeeded", 8)
    program.signal(signal.SIGINT)
    account.until(lambda paid: len(paid) < 2)


MOMENTS: Final = (asked, starting, working, ending)


def killed_and_tidied(desk: Desk, moment: Callable[[Program, Account, Desk], None]) -> None:
    with account_of(desk) as account:
        desk.inputs(JOBS)
        program = desk.start(*RUN, within_s=PATIENCE_S)
        moment(program, account, desk)
        program.kill()
        assert account.paid or moment is ending
        told = desk.call("runs", "tidy", "--json")
        assert (told.exit_code, account.paid) == (0, []), told
        assert desk.call("runs", "tidy").exit_code == 0
        ended = desk.start(*RUN, within_s=PATIENCE_S).ended()
        assert ended.exit_code == 0, ended
        assert sorted(desk.ids()) == sorted(f"row-{n}" for n in range(JOBS))
        assert (desk.folder / "results.jsonl").is_file()
        assert account.paid == []


def test_a_run_that_is_killed_leaves_no_pod_once_somebody_tidies(desk: Desk) -> None:
    """At each moment, beside one another: what takes half a minute is the time that pods take to start."""
    turn = threading.Lock()

    def launch(*arguments: Any, **around: Any) -> Process:
        with turn:
            return desk.launch(*arguments, **around)

    with ThreadPoolExecutor(len(MOMENTS)) as threads:
        begun = []
        for moment in MOMENTS:
            folder = desk.folder / moment.__name__
            folder.mkdir()
            begun.append(threads.submit(killed_and_tidied, Desk(folder, launch), moment))
        for each in begun:
            each.result()
