"""Every button of every page leads to its confirmation, stands where one would look for it, and is there for those alone
who may act.
"""

import html
import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from orchestrator.settings.monitoring.dashboard_settings import DashboardSettings
from tests.dashboard.harness import VIEWER, Dashboard, dashboard
from tests.dashboard.nights import nights
from tests.dashboard.pages.a_night import night_ledger
from tests.ledger.ledgers import opened
from tests.simulation.clock import VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time, pytest.mark.slow]

FOUND: Final = 303

OF_EACH: Final = 6
"""So many pages of one kind are looked at."""

BUTTONS: Final[Mapping[str, frozenset[str]]] = {
    "/": frozenset({"/flows/N/continue", "/flows/N/rerun", "/messages/all/resend"}),
    "/runs/N": frozenset(
        f"/runs/N/{verb}" for verb in ("pause", "continue", "limits", "brakes", "priority", "retry", "cancel")
    ),
    "/runs/N/failures": frozenset({"/runs/N/retry"}),  # with `cancel-jobs` while jobs are left: in `test_at_work`
    "/runs/N/jobs": frozenset({"/runs/N/retry", "/runs/N/cancel-jobs"}),
    "/runs/N/jobs/N": frozenset({"/runs/N/retry", "/runs/N/cancel-jobs"}),
    "/endpoints/N": frozenset({"/endpoints/N/limits", "/endpoints/N/reset-limits"}),
    "/pipelines/N": frozenset(
        (
            *(f"/pipelines/N/{verb}" for verb in ("fire", "backfill", "pause", "continue")),
            *("/flows/N/continue", "/flows/N/rerun", "/messages/all/resend"),
        )
    ),
    "/flows/N": frozenset(f"/flows/N/{verb}" for verb in ("pause", "continue", "cancel", "rerun")),
    "/messages": frozenset({"/messages/all/resend", "/messages/pN/resend", "/messages/rN/resend"}),
}
"""What can be asked for on which page. A breaker has to be open for `release`: that stands in `test_now`."""


class Button(NamedTuple):
    """One form of a page."""

    page: str
    action: str
    fields: Mapping[str, str]


def kind_of(path: str) -> str:
    return re.sub(r"\d+", "N", path.partition("?")[0])


async def _crawled(site: Dashboard) -> AsyncIterator[tuple[str, str]]:
    """Pages and their HTML, found by following links from the first one."""
    seen: dict[str, set[str]] = {}
    ahead = ["/"]
    while ahead:
        path = ahead.pop(0)
        page = await site.get(path)
        if page.status == FOUND:
            page = await site.get(path := page.headers["location"])
        assert page.status == 200, (path, page.text)
        if not page.headers["content-type"].startswith("text/html"):
            continue
        yield path, page.html
        for link in map(html.unescape, re.findall(r'<a [^>]*href="(/[^"#]*)"', page.html)):
            of_kind = seen.setdefault(kind_of(link), set())
            if link not in of_kind and len(of_kind) < OF_EACH:
                of_kind.add(link)
                ahead.append(link)


def _buttons(page: str, text: str) -> list[Button]:
    found = []
    for action, inner in re.findall(r'<form method="post" action="([^"]*)"[^>]*>(.*?)</form>', text, re.DOTALL):
        hidden = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', inner)
        fields = {name: html.unescape(value) for name, value in hidden}
        found.append(Button(page=page, action=html.unescape(action), fields=fields))
    return found


async def _buttons_of(site: Dashboard) -> dict[tuple[str, str], Button]:
    """One of each kind of button on each kind of page."""
    found: dict[tuple[str, str], Button] = {}
    async for path, text in _crawled(site):
        for button in _buttons(path, text):
            if button.action != "/logout":
                found.setdefault((kind_of(path), kind_of(button.action)), button)
    return found


async def _of_nights(folder: Path) -> tuple[Path, VirtualClock]:
    """Pipelines and flows in each standing; the schedule of one is paused."""
    path, clock = await nights(folder)
    async with opened(path, clock=clock) as ledger:
        of = await ledger.flows.pipelines.named("captions")
        assert of is not None
        assert await ledger.flows.pipelines.pause(of, now=clock.now(), until=None, note="stocktaking")
    return path, clock


async def _of_a_night(folder: Path) -> tuple[Path, VirtualClock]:
    """A run that is over and a paused one."""
    return await night_ledger(folder), VirtualClock()


WORLDS: Final = (_of_nights, _of_a_night)


async def test_each_action_is_asked_for_where_one_would_look_for_it(tmp_path: Path) -> None:
    found: dict[str, set[str]] = {}
    for world in WORLDS:
        (folder := tmp_path / world.__name__).mkdir()
        path, clock = await world(folder)
        async with dashboard(path, clock=clock) as site:
            for (page, action), button in (await _buttons_of(site)).items():
                found.setdefault(page, set()).add(action)
                asked = await site.post(button.action, button.fields)
                assert asked.status == 200, (button, asked.text)
                assert 'class="card confirm"' in asked.html, button
    assert found == BUTTONS


async def test_who_may_not_act_has_no_button(tmp_path: Path) -> None:
    for world in WORLDS:
        (folder := tmp_path / world.__name__).mkdir()
        path, clock = await world(folder)
        async with dashboard(path, clock=clock, person=VIEWER) as site:
            assert await _buttons_of(site) == {}
        async with dashboard(path, DashboardSettings(read_only=True), clock=clock) as site:
            assert await _buttons_of(site) == {}
