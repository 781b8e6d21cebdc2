"""Somebody who looks at a dashboard that runs as a process of its own."""

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, Final

import httpx

from tests.system.processes import Desk, Program

SECONDS_MAX: Final = 300.0


class Visitor:
    """Who is signed in by the link that a dashboard has printed."""

    def __init__(self, link: str) -> None:
        origin, _, token = link.partition("/login?link=")
        self.link_token = token
        self.client = httpx.Client(base_url=origin, headers={"Origin": origin}, trust_env=False, timeout=30)
        answer = self.client.post("/login", data={"link": token})
        assert answer.status_code == 303, answer.text

    @property
    def cookie(self) -> str:
        """What signs this one in."""
        [value] = self.client.cookies.values()
        return str(value)

    def html(self, path: str) -> httpx.Response:
        """The page at that path."""
        return self.client.get(path, headers={"Accept": "text/html"})

    def json(self, path: str) -> Any:
        """What the page shows."""
        answer = self.client.get(path, headers={"Accept": "application/json"})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def counters(self) -> dict[str, float]:
        """What only grows of the metrics, by its name and labels."""
        text = self.client.get("/metrics").text
        lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
        return {name: float(value) for name, _, value in lines if re.match(r"\w+_(total|bucket|count|sum)\b", name)}


@contextmanager
def signed_in(link: str) -> Iterator[Visitor]:
    """Whom that link signs in."""
    visitor = Visitor(link)
    with closing(visitor.client):
        yield visitor


@contextmanager
def looking_at(dashboard: Program) -> Iterator[Visitor]:
    """Somebody who is signed in there, once it has said how."""
    with signed_in(dashboard.until_said("sign in").split()[-1]) as visitor:
        yield visitor


def dashboard_of(desk: Desk, *words: str, **environ: str) -> Program:
    """A dashboard of the ledger in `desk`, at a free port."""
    return desk.start("dashboard", "--listen", "127.0.0.1:0", *words, environ=environ, within_s=SECONDS_MAX)
