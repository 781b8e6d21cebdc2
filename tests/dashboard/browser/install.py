"""Makes sure that there is a browser for the tests, where that can be done: Debian's, as root, or Playwright's own.

python -m tests.dashboard.browser.install

Where there is one already nothing is done. Where none is to be had it says so, and the tests are skipped.
"""

import os
import shutil
import subprocess
import sys
from typing import Final

from playwright.sync_api import sync_playwright

from tests.dashboard.browser.chromium import VARIABLE, browser_path

PACKAGE: Final = "chromium-headless-shell"
SECONDS_MAX: Final = 300.0


def main() -> None:
    """Installs one where there is none, and says which there is."""
    if _found() is None:
        _by_apt()
    if _found() is None:
        _by_playwright()
    print(f"browser for the tests: {_found() or f'none; tests in one are skipped ({VARIABLE} names one)'}")


def _found() -> str | None:
    with sync_playwright() as playwright:
        return browser_path(playwright)


def _by_apt() -> None:
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        return
    install = ["apt-get", "install", "--quiet", "--yes", "--no-install-recommends", PACKAGE, "fonts-dejavu-core"]
    if not _done(install):
        _done(["apt-get", "update", "--quiet"])
        _done(install)


def _by_playwright() -> None:
    _done([sys.executable, "-m", "playwright", "install", "--only-shell", "chromium"])


def _done(command: list[str]) -> bool:
    """Whether it was done; what it says is shown where it was not."""
    try:
        ended = subprocess.run(
            command,
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired:
        print(f"{' '.join(command)}: not done after {SECONDS_MAX:.0f} s", file=sys.stderr)
        return False
    if ended.returncode:
        print(f"{' '.join(command)}: {ended.stderr.strip()[-300:]}", file=sys.stderr)
    return not ended.returncode


if __name__ == "__main__":
    main()
