"""The dashboard over a ledger, without a socket: what tests ask for pages with.

    async with dashboard(path) as site:
        page = await site.get("/runs/1")
        assert "night-2" in page.html

The ledger is any that is there (of a `tests.engine.process`, or `empty_ledger`); everything is on virtual time.
"""

import html
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC
from pathlib import Path
from typing import Any, Final

import httpx

from orchestrator.clock import Clock
from orchestrator.dashboard.access.key_file import KeyFolder
from orchestrator.dashboard.access.tokens import Person, Tokens
from orchestrator.dashboard.application import open_dashboard
from orchestrator.settings.monitoring.dashboard_settings import DashboardSettings
from tests.simulation.clock import VirtualClock
from tests.simulation.database import async_creator

HOST: Final = "http://127.0.0.1:8901"


class Answer:
    """What came back."""

    def __init__(self, response: httpx.Response) -> None:
        self.status = response.status_code
        self.headers = response.headers
        self.html = response.text
        """As it was sent."""

        self._response = response

    @property
    def text(self) -> str:
        """What a person reads: without tags, one space between words."""
        body = re.sub(r"<(script|style|head)\b.*?</\1>", " ", self.html, flags=re.DOTALL)
        return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", body)).split())

    @property
    def json(self) -> Any:
        return self._response.json()


class Dashboard:
    """A browser that is signed in, at one dashboard."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client

    async def get(self, path: str, **headers: str) -> Answer:
        return Answer(await self.client.get(path, headers={"Accept": "text/html", **headers}))

    async def json(self, path: str) -> Any:
        """The JSON at that path; only where there is a page."""
        answer = Answer(await self.client.get(path, headers={"Accept": "application/json"}))
        assert answer.status == 200, answer.html
        return answer.json

    async def post(self, path: str, fields: Mapping[str, str] | None = None, **headers: str) -> Answer:
        """Sends a form as a browser does; redirects are not followed."""
        sent = {"Sec-Fetch-Site": "same-origin", "Origin": HOST, **headers}
        return Answer(await self.client.post(path, data=dict(fields or {}), headers=sent))


OPERATOR: Final = Person(name="ana", may_act=True)
VIEWER: Final = Person(name="vic", may_act=False)


@asynccontextmanager
async def dashboard(
    ledger: Path,
    settings: DashboardSettings = DashboardSettings(),  # noqa: B008  it is frozen
    *,
    person: Person | None = OPERATOR,
    peer: str = "127.0.0.1",
    clock: Clock | None = None,
    raises: bool = True,
    **options: Any,
) -> AsyncIterator[Dashboard]:
    """A dashboard of the ledger at that path, which `person` asks (None: a stranger), from the address `peer`.

    What a page raises by mistake is raised where it was asked for, unless it `raises` not; `options` are those of
    `open_dashboard`.
    """
    clock = clock or VirtualClock()
    options = {"zone": UTC, "connect": async_creator(ledger), **options}
    async with open_dashboard(ledger, settings, clock=clock, **options) as app:
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=raises, client=(peer, 5_000))
        async with httpx.AsyncClient(transport=transport, base_url=HOST) as client:
            if person is not None:
                cookie = Tokens(KeyFolder(ledger).key(), clock).session(person)
                client.cookies.set(f"orchestrator-{settings.listen.port}", cookie)
            yield Dashboard(client)
