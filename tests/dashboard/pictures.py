"""Takes the pictures of pages for the README and the documentation: of real runs, in a real browser.

python -m tests.dashboard.pictures

A run is looked at once it has gone on for a minute, so that its charts have something to show.
"""

import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal, NamedTuple

from playwright.sync_api import Browser, sync_playwright

from tests.dashboard.browser.chromium import browser_path, launched
from tests.dashboard.browser.site import dashboard_process
from tests.dashboard.showcase import at_work

FOLDER: Final = Path(__file__).parents[2] / "docs" / "pictures"
GOES_ON_S: Final = 60.0


class Picture(NamedTuple):
    """One of a page."""

    file: str
    path: str
    scheme: Literal["light", "dark"]
    width: int
    height: int


PICTURES: Final = (
    Picture("now.png", "/", "light", 1100, 760),
    Picture("now-phone.png", "/", "dark", 390, 760),
    Picture("run.png", "/find?run=night-2", "light", 1100, 1400),
    Picture("run-dark.png", "/find?run=night-2", "dark", 1100, 1400),
)


def main() -> int:
    """Takes them all; 1 where there is no browser."""
    with sync_playwright() as playwright, TemporaryDirectory() as name:
        path = browser_path(playwright)
        if path is None:
            print("there is no browser: make browser", file=sys.stderr)
            return 1
        with (
            at_work(Path(name)) as showcase,
            launched(playwright, path) as browser,
            dashboard_process(showcase.folder, showcase.environment, "--no-login") as site,
        ):
            time.sleep(GOES_ON_S)
            for picture in PICTURES:
                _take(browser, site.origin, picture)
    return 0


def _take(browser: Browser, origin: str, picture: Picture) -> None:
    size: Any = {"width": picture.width, "height": picture.height}
    page = browser.new_page(viewport=size, color_scheme=picture.scheme)
    page.goto(origin + picture.path, wait_until="load")
    page.screenshot(path=FOLDER / picture.file)
    page.close()
    print(f"written: {FOLDER / picture.file}")


if __name__ == "__main__":
    sys.exit(main())
