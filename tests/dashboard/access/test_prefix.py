"""The whole dashboard behind a proxy, below a path that the proxy strips or keeps: people get to every page, every file,
every form and back, by the addresses that pages name.
"""

import html
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from orchestrator.core.jobs.lifecycle import State
from orchestrator.dashboard.access.key_file import KeyFolder
from orchestrator.dashboard.access.tokens import Tokens
from orchestrator.dashboard.application import open_dashboard
from orchestrator.settings.monitoring.dashboard_settings import DashboardSettings
from tests.dashboard.actions.forms import failed_run, fields_of
from tests.dashboard.harness import OPERATOR, Answer
from tests.ledger.ledgers import brought_to, opened
from tests.simulation.clock import VirtualClock
from tests.simulation.database import async_creator

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

ORIGIN: Final = "https://x.example"
PREFIX: Final = "/team/jobs"


@asynccontextmanager
async def behind_a_proxy(ledger: Path, clock: VirtualClock, *, strips: bool) -> AsyncIterator[httpx.AsyncClient]:
    """A browser at the proxy's address; the proxy has only what is below the prefix."""
    settings = DashboardSettings(url=ORIGIN + PREFIX)
    async with open_dashboard(ledger, settings, clock=clock, zone=UTC, connect=async_creator(ledger)) as app:

        async def proxied(scope: Any, receive: Any, send: Any) -> None:
            path = scope["path"]
            assert path.startswith(f"{PREFIX}/"), f"{path} is somebody else's"
            path = path.removeprefix(PREFIX) if strips else path
            await app({**scope, "path": path, "raw_path": path.encode()}, receive, send)

        transport = httpx.ASGITransport(app=proxied)
        async with httpx.AsyncClient(transport=transport, base_url=ORIGIN, follow_redirects=False) as client:
            client.headers.update({"Accept": "text/html", "Origin": ORIGIN, "Sec-Fetch-Site": "same-origin"})
            yield client


def addresses_in(page: str) -> set[str]:
    """What it links to, loads, and sends forms to."""
    found = re.findall(r' (?:href|src|action)="([^"]*)"', page)
    return {html.unescape(each) for each in found if not each.startswith("#")}


def kind_of(address: str) -> str:
    return re.sub(r"\d+", "N", address.partition("?")[0])


@pytest.mark.slow
@pytest.mark.parametrize("strips", [True, False], ids=["stripped", "kept"])
async def test_people_sign_in_look_at_everything_and_act_below_the_prefix(tmp_path: Path, strips: bool) -> None:
    path, clock = tmp_path / "l.db", VirtualClock()
    async with opened(path, clock=clock) as ledger:
        run = await failed_run(ledger)
        await brought_to(ledger, State.SUCCEEDED, ledger.now(), job=4)
        keys = KeyFolder(path)
        keys.keep_link(token := Tokens(keys.key(), clock).link(OPERATOR))
    clock.jump(10_000_000)
    async with behind_a_proxy(path, clock, strips=strips) as client:
        stranger = await client.get(f"{PREFIX}/runs/{run.id}")
        assert stranger.status_code == 401
        assert f'action="{PREFIX}/login"' in stranger.text
        asked = await client.post(f"{PREFIX}/login", data={"link": token, "next": f"/runs/{run.id}"})
        assert (asked.status_code, asked.headers["location"]) == (303, f"{PREFIX}/runs/{run.id}")
        cookie = asked.headers["set-cookie"].split("; ")
        assert {f"Path={PREFIX}", "Secure", "HttpOnly"} <= set(cookie), "no page beside ours gets it"

        seen: set[str] = set()
        ahead = {f"{PREFIX}/"}
        while ahead:
            address = ahead.pop()
            seen.add(address)
            got = await client.get(address)
            if got.status_code == 405:  # the address of a form
                continue
            while got.status_code == 303:
                got = await client.get(got.headers["location"])
            assert got.status_code == 200, address
            if got.headers["content-type"].startswith("text/html"):
                known = set(map(kind_of, seen | ahead))
                ahead |= {each for each in addresses_in(got.text) if kind_of(each) not in known}
        assert {f"{PREFIX}/runs/N/jobs/N", f"{PREFIX}/messages", f"{PREFIX}/engine"} <= set(map(kind_of, seen))
        assert any(address.startswith(f"{PREFIX}/static/refresh.js?") for address in seen)

        page = await client.get(f"{PREFIX}/runs/{run.id}?live=figures,verdict")
        again = await client.get(page.url, headers={"If-None-Match": page.headers["etag"]})
        assert (page.text.count("data-live="), again.status_code) == (2, 304)
        assert (await client.get(page.url.path, headers={"Accept": "application/json"})).json()["status"][
            "run"
        ] == "night"

        back = f"/runs/{run.id}/failures"
        shown = await client.post(f"{PREFIX}/runs/{run.id}/retry", data={"back": back})
        assert f'href="{PREFIX}{back}"' in shown.text, "to leave it"
        done = await client.post(f"{PREFIX}/runs/{run.id}/retry", data=fields_of(Answer(shown)))
        assert (done.status_code, done.headers["location"]) == (303, f"{PREFIX}{back}?did=1")
        assert f'href="{PREFIX}/actions/1"' in (await client.get(done.headers["location"])).text
        lost = await client.get(f"{PREFIX}/runs/99")
        assert (lost.status_code, f'href="{PREFIX}/runs"' in lost.text) == (404, True)
        left = await client.post(f"{PREFIX}/logout")
        assert left.headers["location"] == f"{PREFIX}/login"
        assert (await client.get(f"{PREFIX}/")).status_code == 401
