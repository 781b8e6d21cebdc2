"""Who gets in, and how: one link each, once, within five minutes; five wrong ones a minute."""

import re
import shutil
from pathlib import Path

import anyio
import pytest

from orchestrator.dashboard.access.key_file import KeyFolder
from orchestrator.dashboard.access.tokens import Person, Tokens
from tests.dashboard.harness import HOST, OPERATOR, VIEWER, Dashboard
from tests.dashboard.sites import sample_site
from tests.simulation.clock import VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


def link_for(folder: Path, person: Person = OPERATOR) -> str:
    keys = KeyFolder(folder / "ledger.db")
    token = Tokens(keys.key(), VirtualClock()).link(person)
    keys.keep_link(token)
    return token


async def signed_in(site: Dashboard, token: str, **fields: str) -> int:
    return (await site.post("/login", {"link": token, **fields})).status


async def test_a_stranger_learns_nothing(tmp_path: Path) -> None:
    async with sample_site(tmp_path, person=None) as site:
        for path in ("/samples/1", "/samples/9", "/nowhere", "/samples/1?live=figures"):
            page = await site.get(path)
            assert (page.status, "night" in page.html) == (401, False)
            assert not {"at work", "Runs", "ledger.db"} & set(page.text.split()), "not even what there is"
        assert (await site.get("/samples/1", Accept="application/json")).status == 401
        assert (await site.post("/samples/1/pause")).status == 401
        assert (await site.get("/static/style.css")).status == 200, "for the page that asks to sign in"


async def test_a_link_signs_in_once_after_a_question(tmp_path: Path) -> None:
    async with sample_site(tmp_path, person=None) as site:
        token = link_for(tmp_path)
        for _ in range(2):
            asked = await site.get(f"/login?link={token}&next=/samples/1")
            assert (asked.status, "signs you in as ana" in asked.text) == (200, True), "to look at it uses nothing up"
        done = await site.post("/login", {"link": token, "next": "/samples/1"})
        assert (done.status, done.headers["location"]) == (303, "/samples/1")
        assert "NIGHT-2" in (await site.get("/samples/1")).text
        site.client.cookies.clear()
        assert await signed_in(site, token) == 401, "a second time"


async def test_the_cookie_is_for_this_dashboard_and_no_script(tmp_path: Path) -> None:
    async with sample_site(tmp_path, person=None) as site:
        cookie = (await site.post("/login", {"link": link_for(tmp_path)})).headers["set-cookie"]
        assert cookie.startswith("orchestrator-8901=")
        assert {"HttpOnly", "SameSite=lax", "Path=/"} <= set(cookie.split("; "))
        assert "Secure" not in cookie
    async with sample_site(tmp_path, person=None, url="https://x.example/jobs") as site:
        cookie = (await site.post("/login", {"link": link_for(tmp_path)})).headers["set-cookie"]
        assert {"Secure", "Path=/jobs"} <= set(cookie.split("; "))


async def test_a_whole_link_may_be_put_into_the_field(tmp_path: Path) -> None:
    async with sample_site(tmp_path, person=None) as site:
        assert await signed_in(site, f"{HOST}/login?link={link_for(tmp_path)}") == 303


async def test_a_link_is_too_old_after_five_minutes(tmp_path: Path) -> None:
    async with sample_site(tmp_path, person=None) as site:
        early, late = link_for(tmp_path), link_for(tmp_path)
        await anyio.sleep(299)
        assert await signed_in(site, early) == 303
        site.client.cookies.clear()
        await anyio.sleep(2)
        assert await signed_in(site, late) == 401


async def test_nobody_signs_in_with_what_was_not_handed_out_here(tmp_path: Path) -> None:
    async with sample_site(tmp_path, person=None) as site:
        unkept = Tokens(KeyFolder(tmp_path / "ledger.db").key(), VirtualClock()).link(OPERATOR)
        assert await signed_in(site, unkept) == 401
        assert await signed_in(site, Tokens(b"another key", VirtualClock()).link(OPERATOR)) == 401
        site.client.cookies.set("orchestrator-8901", Tokens(b"another key", VirtualClock()).session(OPERATOR))
        assert (await site.get("/samples/1")).status == 401
        site.client.cookies.set("orchestrator-8901", link_for(tmp_path))
        assert (await site.get("/samples/1")).status == 401, "a link is no cookie"
        site.client.cookies.set("orchestrator-8901", "x" * 5_000)
        assert (await site.get("/samples/1")).status == 401


async def test_five_wrong_keys_a_minute_are_looked_at(tmp_path: Path) -> None:
    async with sample_site(tmp_path, person=None) as site:
        good = link_for(tmp_path)
        for _ in range(4):
            assert await signed_in(site, "wrong") == 401
        assert (await site.get("/samples/1", Authorization="Bearer wrong")).status == 401
        assert await signed_in(site, good) == 429, "not even a good one: nobody can go on guessing"
        await anyio.sleep(61)
        assert await signed_in(site, good) == 303


async def test_a_program_has_a_key_of_its_own_with_which_it_looks(tmp_path: Path) -> None:
    async with sample_site(tmp_path, person=None) as site:
        key = Tokens(KeyFolder(tmp_path / "ledger.db").key(), VirtualClock()).program_key()
        found = await site.get("/samples/1", Authorization=f"Bearer {key}", Accept="application/json")
        assert (found.status, found.json["name"]) == (200, "night-2")
        assert (await site.post("/samples/1/pause", Authorization=f"Bearer {key}")).status == 403


async def test_who_removes_the_key_has_everybody_signed_out_at_once(tmp_path: Path) -> None:
    async with sample_site(tmp_path) as site:
        keys = KeyFolder(tmp_path / "ledger.db")
        program = f"Bearer {Tokens(keys.key(), VirtualClock()).program_key()}"
        link, cookies = link_for(tmp_path), dict(site.client.cookies)
        assert (await site.get("/samples/1")).status == 200
        (tmp_path / "ledger.db.dashboard" / "key").unlink()
        assert (await site.get("/samples/1")).status == 401
        site.client.cookies.clear()
        assert (await site.get("/samples/1", Authorization=program)).status == 401
        assert await signed_in(site, link) == 401
        assert await signed_in(site, link_for(tmp_path)) == 303, "one that was made since"
        assert dict(site.client.cookies) != cookies
        program = f"Bearer {Tokens(keys.key(), VirtualClock()).program_key()}"
        site.client.cookies.clear()
        assert (await site.get("/samples/1", Authorization=program)).status == 200


async def test_nobody_gets_in_where_no_key_can_be_kept(tmp_path: Path) -> None:
    async with sample_site(tmp_path) as site:
        shutil.rmtree(tmp_path / "ledger.db.dashboard")
        (tmp_path / "ledger.db.dashboard").write_text("no folder")
        for answer in (await site.get("/samples/1"), await site.post("/samples/1/pause")):
            assert (answer.status, "cannot keep the dashboard's key" in answer.text) == (503, True)
            assert "at work" not in answer.text


async def test_who_signs_out_is_out_and_nobody_is_led_elsewhere(tmp_path: Path) -> None:
    async with sample_site(tmp_path, person=None) as site:
        for place in ("//evil.example", "https://evil.example", "/\\evil.example", "/a\tb"):
            answer = await site.post("/login", {"link": link_for(tmp_path), "next": place})
            assert answer.headers["location"] == "/"
        assert "Sign out" in (await site.get("/samples/1")).text
        assert (await site.post("/logout")).headers["location"] == "/login"
        assert (await site.get("/samples/1")).status == 401


async def test_a_viewer_looks_and_does_nothing_whatever_is_sent(tmp_path: Path) -> None:
    async with sample_site(tmp_path, person=None) as site:
        asked = await site.get(f"/login?link={link_for(tmp_path, VIEWER)}")
        assert "to look on" in asked.text
        assert await signed_in(site, link_for(tmp_path, VIEWER)) == 303
        page = await site.get("/samples/1")
        assert (page.status, "may act" in page.text, "vic, looking on" in page.text) == (200, False, True)
        assert (await site.post("/samples/1/pause", {"confirmed": "yes"})).status == 403


def test_the_key_is_beside_the_ledger_for_its_owner_alone(tmp_path: Path) -> None:
    keys = KeyFolder(tmp_path / "ledger.db")
    key = keys.key()
    assert keys.key() == key
    keys.keep_link("a token")
    folder = tmp_path / "ledger.db.dashboard"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    assert not re.search("token", " ".join(path.name for path in folder.iterdir()))
    assert (keys.use_link("another"), keys.use_link("a token"), keys.use_link("a token")) == (False, True, False)
