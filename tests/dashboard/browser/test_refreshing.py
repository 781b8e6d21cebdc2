"""What the script does with the time that passes, and with answers that are late, old or none: on the browser's clock,
which the test moves on.
"""

from collections.abc import Callable, Iterator
from typing import Final

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.benchmarks.processes import clean_environment
from tests.dashboard.browser.site import Site, dashboard_process
from tests.dashboard.showcase import LEDGER
from tests.dashboard.test_newcomer import make_folder, typed

pytestmark = [pytest.mark.slow, pytest.mark.system]

LIVE: Final = "**/*live=*"
HIDE: Final = """hidden => {
  Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


@pytest.fixture(scope="module")
def small(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The dashboard of one small run."""
    folder = make_folder(tmp_path_factory.mktemp("small"))
    words = f"run prompts.jsonl --endpoint local:handler.py:caption --max-attempts 1 --ledger {LEDGER}"
    assert typed(folder, f"orchestrator {words}").returncode == 1
    with dashboard_process(folder, clean_environment(), "--no-login") as site:
        yield site


@pytest.fixture
def page(browser: Browser, small: Site) -> Iterator[Page]:
    """The list of runs, whose clock stands still from then on."""
    page = browser.new_page()
    page.clock.install()
    page.goto(f"{small.origin}/runs")
    yield page
    page.close()


def answered(page: Page, answer: Callable[[Route], None]) -> list[str]:
    """Has all further questions answered so; returns those that come."""
    asked: list[str] = []

    def handle(route: Route) -> None:
        asked.append(route.request.url)
        answer(route)

    page.route(LIVE, handle)
    return asked


def pass_by(page: Page, seconds: int) -> None:
    """So much time passes, in steps in which answers can arrive."""
    for _ in range(2 * seconds):
        page.clock.run_for(500)
        page.wait_for_timeout(5)


def test_who_is_seen_asks_each_two_seconds_and_less_often_where_nothing_changes(page: Page) -> None:
    changing = answered(page, lambda route: route.fulfill(body="", content_type="text/html"))
    pass_by(page, 20)
    assert 8 <= len(changing) <= 10
    page.unroute(LIVE)
    same = answered(page, lambda route: route.fulfill(status=304))
    pass_by(page, 60)
    assert 6 <= len(same) <= 10, "after 2, 3, 4.5 and 6.75 s, and then each ten"


def test_a_tab_that_nobody_sees_asks_nothing_and_at_once_when_it_is_looked_at(page: Page) -> None:
    asked = answered(page, lambda route: route.continue_())
    page.evaluate(HIDE, True)
    pass_by(page, 60)
    assert asked == []
    page.evaluate(HIDE, False)
    page.wait_for_timeout(50)
    assert len(asked) == 1


def test_what_is_older_than_fifteen_seconds_says_so_until_there_is_an_answer_again(page: Page) -> None:
    stale = page.locator("#stale")
    answered(page, lambda route: route.abort())
    pass_by(page, 12)
    expect(stale).to_be_hidden()
    pass_by(page, 8)
    expect(stale).to_contain_text("s old: the dashboard does not answer")
    page.unroute(LIVE)
    pass_by(page, 12)
    expect(stale).to_be_hidden()
    page.get_by_role("button", name="Stop refreshing").click()
    pass_by(page, 17)
    expect(stale).to_contain_text("s old: refreshing is stopped")


def test_who_was_signed_out_is_told_and_asks_no_more(page: Page) -> None:
    asked = answered(page, lambda route: route.fulfill(status=401))
    pass_by(page, 30)
    expect(page.locator("#stale")).to_contain_text("You are signed out")
    assert len(asked) == 1


def test_a_list_does_not_move_by_itself_and_says_how_many_are_new(page: Page) -> None:
    def with_another(route: Route) -> None:
        html = route.fetch().text()
        begin = html.index("<li data-key=")
        first = html[begin : html.index("</li>", begin) + 5]
        other = first.replace("run 1", "run 2").replace("prompts", "another")
        route.fulfill(body=html[:begin] + other + html[begin:], content_type="text/html")

    rows = page.locator("main .list > li")
    answered(page, with_another)
    pass_by(page, 5)
    assert rows.count() == 1
    page.get_by_role("button", name="1 new: show").click()
    assert rows.count() == 2
    expect(rows.first).to_contain_text("another")
    assert page.evaluate("document.activeElement.closest('li') !== null"), "the focus goes on from there"
