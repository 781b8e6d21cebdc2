"""The browser of the tests: where it is, how it is started, and what is written down of what it says and asks for."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import axe_playwright_python
from playwright.sync_api import Browser, BrowserContext, Page, Playwright

VARIABLE: Final = "ORCHESTRATOR_TEST_BROWSER"
"""Holds the path of a browser that is like Chromium, where another than the first one found is meant."""

NAMES: Final = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")

FLAGS: Final = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
"""Without a sandbox, since CI is root; and it asks nobody for anything that a page has not asked it for."""

AXE: Final = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
RULES: Final = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")

SCHEMES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")
WIDTHS: Final = (1280, 390)


def browser_path(playwright: Playwright) -> str | None:
    """Of the variable, of the PATH, or Playwright's own where that was installed; None: there is no browser."""
    if chosen := os.environ.get(VARIABLE):
        return chosen
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None and Path(playwright.chromium.executable_path).exists():
        return playwright.chromium.executable_path
    return found


@contextmanager
def launched(playwright: Playwright, path: str) -> Iterator[Browser]:
    """The browser until the block ends."""
    browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
    try:
        yield browser
    finally:
        browser.close()


@dataclass(eq=False)
class Visit:
    """A page, and what nobody who looks at it would see: what its console said, and what it asked others for."""

    page: Page
    origin: str
    console: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("console", lambda message: self.console.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.console.append(f"raised: {error}"))
        self.page.on("request", self._asked)

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((f"{self.origin}/", "data:", "blob:")):
            self.foreign.append(request.url)

    def go(self, path: str) -> None:
        """Opens the page at that path."""
        self.page.goto(self.origin + path, wait_until="load")

    def widest(self) -> int:
        """By how many pixels the page can be scrolled sideways."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))

    def axe(self) -> list[str]:
        """What axe finds: the rule, the place and the words of each."""
        found = self.page.evaluate(
            "axe.run(document, {runOnly: {type: 'tag', values: " + str(list(RULES)) + "}, resultTypes: ['violations']})"
        )
        return [
            f"{each['id']}: {node['target']}: {node['failureSummary'].splitlines()[-1].strip()}"
            for each in found["violations"]
            for node in each["nodes"]
        ]


@contextmanager
def visiting(context: BrowserContext, origin: str) -> Iterator[Visit]:
    """A tab, with axe in each of its pages: put there by the protocol, past what the page's policy would refuse."""
    page = context.new_page()
    page.add_init_script(AXE)
    try:
        yield Visit(page=page, origin=origin)
    finally:
        page.close()
