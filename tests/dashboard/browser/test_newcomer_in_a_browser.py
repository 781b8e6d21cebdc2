"""The same newcomer as in `tests.dashboard.test_newcomer`, with a browser: what they see, press, and see change by
itself.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.benchmarks.processes import clean_environment
from tests.dashboard.browser.chromium import Visit, visiting
from tests.dashboard.browser.site import dashboard_process
from tests.dashboard.showcase import LEDGER
from tests.dashboard.test_newcomer import JOBS, make_folder, told_of, typed

pytestmark = [pytest.mark.slow, pytest.mark.system]

COMMAND = (
    "orchestrator run prompts.jsonl --endpoint local:handler.py:caption --output results.jsonl --max-attempts 1"
    f" --notify me --ledger {LEDGER}"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_folder(tmp_path)


@pytest.fixture
def visit(browser: Browser, folder: Path) -> Iterator[Visit]:
    """Who has followed the link that the dashboard prints."""
    assert typed(folder, COMMAND).returncode == 1
    with dashboard_process(folder, clean_environment()) as site:
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        context.set_default_timeout(15_000)
        with visiting(context, site.origin) as visit:
            visit.page.goto(site.link)
            visit.page.get_by_role("button", name="Sign in").click()
            yield visit
        context.close()


def pressed(page: Page, button: str) -> None:
    """Presses what begins so, and what confirms it."""
    page.get_by_role("button", name=re.compile(f"^{button}")).first.click()
    page.locator("main form button[name=confirmed]").click()


def test_a_newcomer_sees_why_half_a_run_failed_and_tries_it_again_from_the_page(folder: Path, visit: Visit) -> None:
    page, half = visit.page, JOBS // 2
    expect(page.get_by_role("main")).to_contain_text(f"{half} failed")
    assert told_of(folder) == ["run.partial"]
    page.get_by_role("link", name="prompts", exact=True).click()
    expect(page.locator(".verdict")).to_have_text(re.compile(f"Over: {half} of {JOBS} succeeded; {half} failed"))
    page.get_by_role("link", name="Failures", exact=True).click()
    kind = page.get_by_role("article")
    expect(kind).to_contain_text("OSError: cannot open resource: fonts.ttf")
    kind.get_by_role("link", name=re.compile("^row-|^line-|^[0-9]")).first.click()
    expect(page.get_by_role("main")).to_contain_text("raise OSError")
    page.go_back()

    (folder / "fonts.ttf").touch()
    pressed(page, f"Retry {half}")
    did = page.locator(".did")
    expect(did).to_contain_text("next process that works on this ledger")
    command = did.locator("code").first.inner_text()
    assert typed(folder, command).returncode == 0
    expect(page.get_by_role("main")).to_contain_text("No job has failed.")
    expect(did).to_contain_text("done")

    page.get_by_role("link", name="Now", exact=True).click()
    expect(page.get_by_role("main")).to_contain_text("Nothing needs you")
    assert told_of(folder) == ["run.partial", "run.done"]
    assert len((folder / "results.jsonl").read_text().splitlines()) == JOBS
    page.get_by_role("link", name="Messages", exact=True).click()
    expect(page.get_by_role("main").get_by_text("taken", exact=False).first).to_be_visible()
    assert (visit.console, visit.foreign) == ([], [])
