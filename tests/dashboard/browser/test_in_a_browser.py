"""Every page in a browser, in both colour schemes and at two widths: axe finds nothing, the console says nothing, nobody
else is asked for anything, and nothing has to be scrolled sideways. And what people do there: by the keyboard alone,
without script, while the page is refreshed, from a link of another site.
"""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext

from orchestrator.dashboard.pages.all_pages import all_pages
from tests.dashboard.browser.chromium import SCHEMES, WIDTHS, Visit
from tests.dashboard.browser.site import Site
from tests.dashboard.showcase import Showcase

pytestmark = [pytest.mark.slow, pytest.mark.system]

OF_EACH: Final = 2
"""So many pages of one kind are looked at: the first one that is found, and one of another run, flow …"""

NO_PAGES: Final = {"/find", *(f"/runs/N/jobs/N/{part}" for part in ("input", "output", "error", "metadata"))}
"""What leads on to a page that is linked elsewhere too, and what is kept as a file."""


def kind_of(path: str) -> str:
    return re.sub(r"\d+", "N", path)


@pytest.fixture(scope="module")
def found(signed_in: BrowserContext, site: Site) -> dict[str, list[str]]:
    """Pages by their kind, found by following links from the first one."""
    found: dict[str, list[str]] = {"/": ["/"]}
    ahead = ["/"]
    while ahead:
        answer = signed_in.request.get(site.origin + ahead.pop(0), headers={"Accept": "text/html"})
        assert answer.ok, answer.url
        for link in re.findall(r'<a [^>]*href="([^"]*)"', answer.text()):
            address = urlsplit(link.replace("&amp;", "&"))
            if kind_of(address.path) in NO_PAGES:
                continue
            of_kind = found.setdefault(kind_of(address.path), [])
            if (
                not address.netloc
                and address.path.startswith("/")
                and len(of_kind) < OF_EACH
                and address.path not in of_kind
            ):
                of_kind.append(address.path)
                ahead.append(address.path)
    return {kind: paths for kind, paths in found.items() if paths}


def test_all_pages_are_found_by_following_links(found: dict[str, list[str]]) -> None:
    there = {kind_of(re.sub(r"\{[^}]*\}", "1", page.path)) for page in all_pages()}
    assert not there - set(found) - NO_PAGES


def problems_of(visit: Visit, path: str, keepsakes: Path | None) -> Iterator[str]:
    visit.go(path)
    for scheme in SCHEMES:
        visit.page.emulate_media(color_scheme=scheme)
        for width in WIDTHS:
            visit.page.set_viewport_size({"width": width, "height": 900})
            where = f"{path} {scheme} {width}"
            if keepsakes:
                name = f"{path.strip('/').replace('/', '-') or 'now'}-{scheme}-{width}.png"
                visit.page.screenshot(path=keepsakes / name, full_page=True)
            yield from (f"{where}: {problem}" for problem in visit.axe())
            if (pixels := visit.widest()) > 0:
                yield f"{where}: {pixels} px to the side"
    yield from (f"{path}: {said}" for said in visit.console)
    yield from (f"{path}: asked {url}" for url in visit.foreign)


def test_each_page_is_clean(found: dict[str, list[str]], visit: Visit, keepsakes: Path | None) -> None:
    problems: list[str] = []
    for paths in found.values():
        for path in paths:
            problems += problems_of(visit, path, keepsakes)
            visit.console.clear()
            visit.foreign.clear()
    assert not problems, "\n".join(problems)


def test_a_page_is_used_by_the_keyboard_alone(visit: Visit, showcase: Showcase) -> None:
    """From the address of a run to a pause, and to its end, by Tab and Enter."""
    run = number_of(showcase, "night-2")
    visit.go(f"/runs/{run}")
    visit.page.keyboard.press("Tab")
    assert focused(visit) == "To the page"
    visit.page.keyboard.press("Enter")
    enter(visit, "Pause")
    assert visit.page.url.endswith("/pause")
    assert "night-2" in visit.page.inner_text("main")
    enter(visit, "Pause")
    assert urlsplit(visit.page.url).path == f"/runs/{run}"
    assert asked(showcase, "pause") == 1
    enter(visit, "Continue", "Let it go on")
    enter(visit, "Continue", "Let it go on")
    assert asked(showcase, "continue") == 1


def enter(visit: Visit, *beginnings: str) -> None:
    """Goes to what begins so by Tab, and presses Enter, which leads to another page."""
    tab_to(visit, *beginnings)
    with visit.page.expect_navigation():
        visit.page.keyboard.press("Enter")


def focused(visit: Visit) -> str:
    """The text of what has the focus."""
    return str(visit.page.evaluate("(document.activeElement.innerText || document.activeElement.value || '').trim()"))


def tab_to(visit: Visit, *beginnings: str) -> None:
    """Presses Tab until something has the focus whose text begins so, and can be seen to have it."""
    seen = []
    for _ in range(80):
        visit.page.keyboard.press("Tab")
        seen.append(focused(visit))
        if seen[-1].startswith(beginnings):
            assert visit.page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
            return
    raise AssertionError(f"{beginnings}: not among {seen}")


def number_of(showcase: Showcase, run: str) -> int:
    return int(ask(showcase, "SELECT id FROM runs WHERE name = ?", run))


def asked(showcase: Showcase, action: str) -> int:
    """How often somebody has asked for that."""
    return int(ask(showcase, "SELECT count(*) FROM commands WHERE action = ?", action))


def ask(showcase: Showcase, query: str, *values: str) -> Any:
    with closing(sqlite3.connect(f"file:{showcase.ledger}?mode=ro", uri=True)) as connection:
        return connection.execute(query, values).fetchone()[0]


def test_all_works_without_script(browser: Browser, signed_in: BrowserContext, site: Site, showcase: Showcase) -> None:
    context = browser.new_context(java_script_enabled=False, storage_state=signed_in.storage_state())
    page = context.new_page()
    run = number_of(showcase, "night-1")
    page.goto(f"{site.origin}/")
    page.get_by_role("link", name="Runs", exact=True).click()
    page.get_by_label("name").fill("night-1")
    page.get_by_role("button", name="Show").click()
    page.get_by_role("link", name="night-1", exact=True).click()
    assert page.url == f"{site.origin}/runs/{run}"
    page.goto(f"{site.origin}/runs/{run}/failures")
    page.get_by_role("button", name=re.compile("^Retry 15")).first.click()
    assert "15" in page.inner_text("main")
    page.locator("main form button[name=confirmed]").click()
    assert page.url.startswith(f"{site.origin}/runs/{run}"), page.inner_text("main")
    assert asked(showcase, "retry") == 1
    context.close()


def test_focus_scroll_and_open_details_stay_over_refreshes(visit: Visit, showcase: Showcase) -> None:
    visit.page.set_viewport_size({"width": 390, "height": 600})
    visit.go(f"/runs/{number_of(showcase, 'night-2')}")
    page = visit.page
    details = page.locator("main details").first
    details.locator("summary").focus()
    page.keyboard.press("Enter")
    page.evaluate("window.scrollTo(0, 400)")
    before = page.evaluate("[window.scrollY, document.activeElement.tagName]")
    figures = page.locator("section[data-live=figures]").inner_text()
    with page.expect_response(lambda answer: "live=" in answer.url and answer.status == 200):
        pass
    page.wait_for_function(
        "text => document.querySelector('section[data-live=figures]').innerText !== text", arg=figures
    )
    assert page.evaluate("[window.scrollY, document.activeElement.tagName]") == before
    assert details.get_attribute("open") is not None
    assert not visit.console


def test_the_stop_button_stops_the_refreshing(visit: Visit, showcase: Showcase) -> None:
    visit.go(f"/runs/{number_of(showcase, 'night-2')}")
    visit.page.get_by_role("button", name="Stop refreshing").click()
    asked_for: list[str] = []
    visit.page.on("request", lambda request: asked_for.append(request.url))
    visit.page.wait_for_timeout(3_000)
    assert asked_for == []
    with visit.page.expect_response(lambda answer: "live=" in answer.url):
        visit.page.get_by_role("button", name="Refresh again").click()


def test_a_link_in_a_chat_message_arrives_with_the_cookie(
    signed_in: BrowserContext, site: Site, showcase: Showcase
) -> None:
    """From a page of another site: with a strict cookie its reader would have to sign in again."""
    page = signed_in.new_page()
    chat = "http://chat.example/"
    page.route(chat, lambda route: route.fulfill(
        content_type="text/html", body=f'<a href="{site.origin}/find?run=night-1">night-1 has failed</a>'
    ))  # fmt: skip
    page.goto(chat)
    page.get_by_role("link").click()
    page.wait_for_url(f"{site.origin}/runs/{number_of(showcase, 'night-1')}")
    page.close()
