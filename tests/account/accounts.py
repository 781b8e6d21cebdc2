"""An `Account` that is the emulator's, or a script; with everything that was sent and logged kept."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import msgspec

from orchestrator.account import Account, EnvironmentVariable
from orchestrator.client import Service
from orchestrator.client.jobs.retries import Sleep
from orchestrator.clock import Clock, SystemClock
from orchestrator.core.service.account_interfaces import Interface
from tests.client.replies import Replies
from tests.emulator.accounts import GRAPHQL_URL, KEY, carrier
from tests.emulator.accounts import EmulatedAccount as Emulated

URL = "http://emulator"
ALL = {"base_url": URL, "rest_url": URL, "graphql_url": GRAPHQL_URL}
URLS = {"rest_url": "http://emulator", "graphql_url": GRAPHQL_URL}

TEMPLATE: Mapping[str, Any] = {
    "name": "t",
    "image_name": "me/worker:1",
    "container_disk_in_gb": 7,
    "volume_in_gb": 0,
    "is_serverless": True,
    "docker_args": "python -u h.py",
    "env": (EnvironmentVariable(key="A", value="1"), EnvironmentVariable(key="B", value="{{ RUNPOD_SECRET_hf }}")),
    "ports": "8888/http,22/tcp",
}
"""What each interface has the words for."""


def client_of(account: Emulated, clock: Clock | None = None, *, key: str = KEY, **settings: Any) -> Account:
    service = Service("http://emulator", key, clock or SystemClock(), transport=carrier(account))
    return Account(service, **{**URLS, **settings})


def met_by(subject: Emulated, clock: Clock, interface: str = "auto", **urls: str) -> Account:
    """A client that has met no interface yet, as each command has."""
    service = Service(URL, KEY, clock, transport=carrier(subject))
    return Account(service, interface=Interface(interface), **{**ALL, **urls})  # type: ignore[arg-type]


class Script(Replies):
    """Replies to GraphQL documents."""

    @property
    def query(self) -> str:
        """The GraphQL document of the last request."""
        query: str = msgspec.json.decode(self.requests[-1].content)["query"]
        return query


class Waits:
    """Remembers how long somebody would have waited."""

    def __init__(self) -> None:
        self.waited_s: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.waited_s.append(seconds)
        await anyio.lowlevel.checkpoint()


def scripted(
    script: Script, *, key: str = KEY, clock: Clock | None = None, sleep: Sleep = anyio.sleep, **settings: Any
) -> Account:
    carrier = httpx.MockTransport(script)
    service = Service("https://api.example", key, clock or SystemClock(), transport=carrier, sleep=sleep)
    return Account(service, **{**URLS, **settings})


def data(**members: object) -> httpx.Response:
    return httpx.Response(200, json={"data": members})


def refused(*messages: str, status: int = 200) -> httpx.Response:
    return httpx.Response(status, json={"errors": [{"message": message} for message in messages], "data": None})


class _Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.name} {record.getMessage()} {record.args!r}")


@contextmanager
def everything_logged() -> Iterator[list[str]]:
    """Every line that any library logs meanwhile, at any level."""
    root, kept = logging.getLogger(), _Kept()
    level = root.level
    root.addHandler(kept)
    root.setLevel(logging.DEBUG)
    try:
        yield kept.lines
    finally:
        root.setLevel(level)
        root.removeHandler(kept)
