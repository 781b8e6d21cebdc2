"""A service that answers as told, for the typed operations; on virtual time."""

from collections.abc import Mapping
from typing import Any

import httpx

from orchestrator.client import EndpointJobs, Service
from orchestrator.core.limits.rate_pacer import Limit, Operation
from tests.client.replies import Replies
from tests.simulation.clock import VirtualClock

KEY = "sk-very-secret"
URL = "https://api.example.com"
BASE = "/v2/abc"
PLENTY: Mapping[Operation, Limit] = dict.fromkeys(Operation, Limit(1_000_000, 10, 100))


class Script(Replies):
    """Replies to the operations of one endpoint."""

    @property
    def asked(self) -> list[str]:
        """`METHOD /path?query` of each request, without the endpoint's part of the path."""
        return [f"{r.method} {r.url.raw_path.decode().removeprefix(BASE)}" for r in self.requests]

    @property
    def jobs(self) -> EndpointJobs:
        return self.service().endpoint("abc")

    def service(self, **more: Any) -> Service:
        more = {"limits": PLENTY, **more}
        return Service(URL, KEY, VirtualClock(), transport=httpx.MockTransport(self), **more)


def answer(body: bytes | str = b"{}", status: int = 200, **headers: str) -> httpx.Response:
    content = body.encode() if isinstance(body, str) else body
    return httpx.Response(status, content=content, headers={k.replace("_", "-"): v for k, v in headers.items()})


def job(status: str, **more: Any) -> httpx.Response:
    return httpx.Response(200, json={"id": "job-1", "status": status, **more})
