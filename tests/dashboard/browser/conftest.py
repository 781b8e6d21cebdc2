"""One browser, one showcase and one dashboard for all tests here: they only look, or act where nobody else looks."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, sync_playwright

from tests.dashboard.browser.chromium import VARIABLE, Visit, browser_path, launched, visiting
from tests.dashboard.browser.site import Site, dashboard_process
from tests.dashboard.showcase import Showcase, at_work


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        path = browser_path(playwright)
        if path is None:
            why = f"there is no browser: install chromium-headless-shell, or name one in {VARIABLE}"
            if os.environ.get("CI") == "true":
                pytest.fail(why)
            pytest.skip(why)
        with launched(playwright, path) as browser:
            yield browser


@pytest.fixture(scope="session")
def showcase(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Showcase]:
    with at_work(tmp_path_factory.mktemp("showcase")) as showcase:
        yield showcase


@pytest.fixture(scope="session")
def site(showcase: Showcase) -> Iterator[Site]:
    with dashboard_process(showcase.folder, showcase.environment) as site:
        yield site


@pytest.fixture(scope="session")
def signed_in(browser: Browser, site: Site) -> Iterator[BrowserContext]:
    """A browser's profile whose person has followed the link."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(15_000)
    page = context.new_page()
    page.goto(site.link)
    if page.locator("main form button").count():
        page.locator("main form button").first.click()
    page.wait_for_url(f"{site.origin}/")
    page.close()
    yield context
    context.close()


@pytest.fixture
def visit(signed_in: BrowserContext, site: Site) -> Iterator[Visit]:
    with visiting(signed_in, site.origin) as visit:
        yield visit


@pytest.fixture(scope="session")
def keepsakes() -> Path | None:
    """Where pictures of what went wrong are put; None: nowhere."""
    folder = os.environ.get("ORCHESTRATOR_TEST_PICTURES")
    return Path(folder) if folder else None
