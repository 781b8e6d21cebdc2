"""Two tabs, impatient fingers and the back button: whatever people do with a form, it acts once, and on what they saw."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, Page

from tests.dashboard.browser.site import Site
from tests.dashboard.browser.test_in_a_browser import asked, number_of
from tests.dashboard.showcase import Showcase

pytestmark = [pytest.mark.slow, pytest.mark.system]

CONFIRM = "main form button[name=confirmed]"


@pytest.fixture
def tabs(signed_in: BrowserContext) -> Iterator[tuple[Page, Page]]:
    """Two of one person."""
    found = signed_in.new_page(), signed_in.new_page()
    yield found
    for each in found:
        each.close()


def ask(page: Page, address: str, button: str) -> None:
    """Opens the confirmation behind a button, whose label begins so, of the page at that address."""
    page.goto(address)
    with page.expect_navigation():
        page.get_by_role("button", name=re.compile(f"^{button}")).first.click()


def confirm(page: Page) -> None:
    with page.expect_navigation():
        page.locator(CONFIRM).click()


def counted(page: Page) -> int:
    """How many jobs a confirmation says that it concerns."""
    return int(page.locator("input[name=count]").input_value())


def test_a_form_that_another_tab_made_stale_asks_again(tabs: tuple[Page, Page], site: Site, showcase: Showcase) -> None:
    first, second = tabs
    failures = f"{site.origin}/runs/{number_of(showcase, 'night-1')}/failures"
    before = asked(showcase, "retry")
    ask(first, failures, "Retry all")
    ask(second, failures, r"Retry \d")
    meant, less = counted(first), counted(second)
    assert 0 < less < meant
    confirm(second)
    second.locator(".did", has_text="done").wait_for()
    confirm(first)
    told = first.get_by_role("alert").inner_text()
    assert f"It concerns {meant - less} jobs by now, and {meant} were confirmed" in told
    assert asked(showcase, "retry") == before + 1
    assert counted(first) == meant - less
    confirm(first)
    assert asked(showcase, "retry") == before + 2, "what it says now was confirmed"


def test_a_double_click_acts_once(tabs: tuple[Page, Page], site: Site, showcase: Showcase) -> None:
    [page, _] = tabs
    run = f"{site.origin}/runs/{number_of(showcase, 'broken-image')}"
    before = asked(showcase, "pause")
    ask(page, run, "Pause")
    page.locator(CONFIRM).dblclick()
    page.wait_for_url(re.compile(r"\?did=\d+$"))
    page.get_by_role("button", name=re.compile("^Continue")).wait_for()
    assert asked(showcase, "pause") == before + 1


def test_the_back_button_leads_to_a_form_that_has_acted(
    tabs: tuple[Page, Page], site: Site, showcase: Showcase
) -> None:
    [page, _] = tabs
    ask(page, f"{site.origin}/runs/{number_of(showcase, 'broken-image')}", "Priority")
    page.get_by_label("Priority").fill("3")
    form, before = page.locator("input[name=form]").input_value(), asked(showcase, "priority")
    confirm(page)
    did = page.url
    page.go_back()
    assert page.locator("input[name=form]").input_value() == form
    page.get_by_label("Priority").fill("7")
    confirm(page)
    assert page.url == did, "it leads to what the form has done already"
    page.reload()
    assert asked(showcase, "priority") == before + 1
