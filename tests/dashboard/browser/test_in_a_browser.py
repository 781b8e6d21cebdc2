"""Every page in a browser, in both colour schemes and at two widths: axe finds nothing, the console says nothing, nobody
else is asked for anything, and nothing has to be scrolled sideways.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import BrowserContext

from orchestrator.dashboard.pages.all_pages import all_pages
from tests.dashboard.browser.chromium import SCHEMES, WIDTHS, Visit
from tests.dashboard.browser.site import Site

pytestmark = [pytest.mark.slow, pytest.mark.system]

OF_EACH = 2
"""So many pages of one kind are looked at: the first one that is found, and one of another run, flow …"""


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
            of_kind = found.setdefault(kind_of(address.path), [])
            if (
                not address.netloc
                and address.path.startswith("/")
                and len(of_kind) < OF_EACH
                and address.path not in of_kind
            ):
                if signed_in.request.head(site.origin + address.path).headers.get("content-disposition"):
                    continue
                of_kind.append(address.path)
                ahead.append(address.path)
    return {kind: paths for kind, paths in found.items() if paths}


def test_all_pages_are_found_by_following_links(found: dict[str, list[str]]) -> None:
    there = {kind_of(re.sub(r"\{[^}]*\}", "1", page.path)) for page in all_pages()}
    assert there - set(found) <= {"/find", "/runs/N/jobs/N/next-failed"}


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
