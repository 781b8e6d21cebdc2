"""A view is computed once for all who look, and anew once it may be another."""

import sqlite3
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from tests.dashboard.harness import VIEWER
from tests.dashboard.samples import SamplePages
from tests.dashboard.sites import sample_site

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


def change(folder: Path, number: int) -> None:
    with closing(sqlite3.connect(folder / "ledger.db")) as connection, connection:
        connection.execute(f"PRAGMA user_version = {number}")


async def test_tabs_that_ask_at_once_share_what_is_computed(tmp_path: Path) -> None:
    samples = SamplePages()
    async with sample_site(tmp_path, samples) as site, anyio.create_task_group() as group:
        for _ in range(6):
            group.start_soon(site.get, "/samples/1?live=figures")
        group.start_soon(site.get, "/samples/1?live=more,figures")
        group.start_soon(site.get, "/samples/1")
        group.start_soon(site.json, "/samples/1")
    assert len(samples.asked) == 1


async def test_what_is_asked_otherwise_is_another_view(tmp_path: Path) -> None:
    samples = SamplePages()
    async with sample_site(tmp_path, samples) as site:
        for path in ("/samples/1", "/samples/2", "/samples/1?a=1", "/samples/1?a=2"):
            await site.get(path)
    assert len(samples.asked) == 4


async def test_it_is_computed_anew_after_two_seconds_where_the_ledger_has_changed(tmp_path: Path) -> None:
    samples = SamplePages()
    async with sample_site(tmp_path, samples) as site:
        await site.get("/samples/1")
        change(tmp_path, 1)
        await anyio.sleep(1.9)
        await site.get("/samples/1")
        assert len(samples.asked) == 1
        await anyio.sleep(0.2)
        await site.get("/samples/1")
        assert len(samples.asked) == 2


async def test_and_seldom_where_nothing_has(tmp_path: Path) -> None:
    samples = SamplePages()
    async with sample_site(tmp_path, samples) as site:
        await site.get("/samples/1")
        await anyio.sleep(9)
        await site.get("/samples/1")
        assert len(samples.asked) == 1
        await anyio.sleep(2)
        await site.get("/samples/1")
        assert len(samples.asked) == 2, "times that it shows go on"


async def test_who_has_acted_sees_what_came_of_it(tmp_path: Path) -> None:
    samples = SamplePages()
    async with sample_site(tmp_path, samples) as site:
        await site.get("/samples/1")
        await site.post("/samples/1/pause", {"confirmed": "1"})
        await site.get("/samples/1")
    assert len(samples.asked) == 2


async def test_nothing_is_sent_again_to_who_has_it(tmp_path: Path) -> None:
    async with sample_site(tmp_path) as site:
        tag = (await site.get("/samples/1?live=figures")).headers["etag"]
        again = await site.get("/samples/1?live=figures", **{"If-None-Match": tag})
        assert (again.status, again.html, again.headers["etag"]) == (304, "", tag)
        assert (await site.get("/samples/1?live=more", **{"If-None-Match": tag})).status == 200
        weak = await site.get("/samples/1?live=figures", **{"If-None-Match": f'"x", W/{tag}'})
        assert weak.status == 304


async def test_a_page_that_somebody_may_not_see_is_not_that_of_somebody_else(tmp_path: Path) -> None:
    async with sample_site(tmp_path) as site:
        assert "may act" in (await site.get("/samples/1?live=more")).html
        async with sample_site(tmp_path, person=VIEWER) as other:
            site.client.cookies = other.client.cookies
        assert "may act" not in (await site.get("/samples/1?live=more")).html


async def test_a_file_is_not_kept(tmp_path: Path) -> None:
    samples = SamplePages()
    async with sample_site(tmp_path, samples) as site:
        await site.get("/samples/1?file=1")
        await site.get("/samples/1?file=1")
    assert len(samples.asked) == 2
