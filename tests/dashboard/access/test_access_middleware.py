"""What is refused before it is looked at, and what each answer tells the browser."""

import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.service.addresses import Address
from orchestrator.dashboard.access.response_headers import CONTENT_SECURITY_POLICY
from orchestrator.errors import UsageError
from orchestrator.settings.monitoring.dashboard_settings import PayloadChoice
from orchestrator.web.host_and_origin import is_our_host
from tests.dashboard.harness import HOST, OPERATOR, VIEWER
from tests.dashboard.samples import SamplePages
from tests.dashboard.sites import sample_site

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


@pytest.mark.parametrize(
    ("host", "is_ours"),
    [
        ("127.0.0.1:8901", True),
        ("[::1]:8901", True),
        ("10.1.2.3", True),
        ("localhost:8901", True),
        ("jobs.example.org", True),
        ("evil.example:8901", False),
        ("127.0.0.1.evil.example", False),
        ("localhost@evil.example", False),
        ("", False),
        ("[::1", False),
    ],
)
def test_a_host_is_a_number_localhost_or_that_of_our_url(host: str, is_ours: bool) -> None:
    assert is_our_host(host, "https://jobs.example.org") is is_ours


async def test_a_name_that_somebody_else_led_here_gets_nothing(tmp_path: Path) -> None:
    async with sample_site(tmp_path) as site:
        rebound = await site.get("/samples/1", Host="evil.example")
        assert (rebound.status, "NIGHT" in rebound.text) == (421, False)
        assert (await site.post("/samples/1/pause", Host="evil.example", Origin="http://evil.example")).status == 421


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "null"}, 200),
        ({"Sec-Fetch-Site": "same-site", "Origin": HOST}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Origin": HOST}, 403),
        ({"Sec-Fetch-Site": "none"}, 403),
        ({"Origin": HOST}, 200),
        ({"Origin": "http://127.0.0.1:9999"}, 403),
        ({"Origin": "null"}, 403),
        ({}, 403),
    ],
)
async def test_only_a_page_of_ours_can_have_anything_done(tmp_path: Path, headers: dict[str, str], status: int) -> None:
    samples = SamplePages()
    async with sample_site(tmp_path, samples) as site:
        answer = await site.client.post("/samples/1/pause", data={"a": "b"}, headers=headers)
        assert (answer.status_code, len(samples.forms_sent)) == (status, int(status == 200))


async def test_behind_a_proxy_the_origin_is_that_of_the_url(tmp_path: Path) -> None:
    async with sample_site(tmp_path, url="https://x.example/jobs") as site:
        for origin, status in (("https://x.example", 200), ("http://x.example", 403), ("https://x.example.evil", 403)):
            answer = await site.client.post("/samples/1/pause", headers={"Origin": origin})
            assert answer.status_code == status


async def test_every_answer_forbids_what_we_do_not_use(tmp_path: Path) -> None:
    async with sample_site(tmp_path) as site:
        for path in ("/samples/1", "/nowhere", "/static/style.css", "/login", "/samples/1?file=1"):
            headers = (await site.get(path)).headers
            assert headers["content-security-policy"] == CONTENT_SECURITY_POLICY
            assert (headers["x-content-type-options"], headers["referrer-policy"]) == ("nosniff", "same-origin")
    for needed in ("default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"):
        assert needed in CONTENT_SECURITY_POLICY
    assert "unsafe" not in CONTENT_SECURITY_POLICY


@pytest.mark.parametrize(
    ("host", "url", "is_said"),
    [
        ("127.0.0.1:8901", None, True),
        ("[::1]:8901", None, True),
        ("10.0.0.7:8901", None, False),
        ("x.example", "https://x.example", True),
        ("x.example", "http://x.example", False),
        ("127.0.0.1", "http://x.example", True),
    ],
)
async def test_who_opened_a_page_is_kept_from_it_where_browsers_obey_that(
    tmp_path: Path, host: str, url: str | None, is_said: bool
) -> None:
    """Elsewhere they would complain of it on each page."""
    async with sample_site(tmp_path, url=url) as site:
        page = await site.get("/samples/1", Host=host)
    assert (page.status, "cross-origin-opener-policy" in page.headers) == (200, is_said)


async def test_no_page_has_what_the_policy_forbids(tmp_path: Path) -> None:
    async with sample_site(tmp_path) as site:
        for path in ("/samples/1", "/nowhere", "/login"):
            html = (await site.get(path)).html
            assert " style=" not in html
            assert " onclick=" not in html
            assert "<script>" not in html


async def test_a_body_is_64_kib_at_most_whether_it_says_so_or_not(tmp_path: Path) -> None:
    samples = SamplePages()
    async with sample_site(tmp_path, samples) as site:
        assert (await site.post("/samples/1/pause", {"a": "x" * 65_000})).status == 200
        assert (await site.post("/samples/1/pause", {"a": "x" * 66_000})).status == 413

        async def chunks() -> AsyncIterator[bytes]:
            for _ in range(70):
                yield b"a=" + b"x" * 1_000

        headers = {"Sec-Fetch-Site": "same-origin", "Content-Type": "application/x-www-form-urlencoded"}
        unsaid = await site.client.post("/samples/1/pause", content=chunks(), headers=headers)
        assert unsaid.status_code == 413
        odd = await site.post("/samples/1/pause", {"a": "b"}, **{"Content-Length": "-1"})
        assert odd.status == 413
    assert len(samples.forms_sent) == 1


async def test_links_have_the_prefix_whether_the_proxy_strips_it_or_not(tmp_path: Path) -> None:
    async with sample_site(tmp_path, url="http://x.example/jobs/") as site:
        for path in ("/samples/1", "/jobs/samples/1"):
            page = await site.get(path, Host="x.example")
            assert page.status == 200
            links = [each.split('"')[0] for each in page.html.replace("src=", "href=").split('href="')[1:]]
            assert all(link.startswith("/jobs/") or link == "#main" for link in links), links
        assert (await site.get("/jobs/static/style.css")).status == 200
        assert (await site.get("/jobsamples/1")).status == 404
        assert (await site.post("/jobs/samples/1/pause", {"confirmed": "1"})).headers["location"] == "/jobs/samples/1"


async def test_read_only_has_no_way_to_act(tmp_path: Path) -> None:
    samples = SamplePages()
    async with sample_site(tmp_path, samples, read_only=True) as site:
        assert "may act" not in (await site.get("/samples/1")).text
        assert (await site.post("/samples/1/pause", {"confirmed": "1"})).status == 403
    assert samples.forms_sent == []


async def test_payloads_are_for_those_who_may_act_unless_hidden_for_all(tmp_path: Path) -> None:
    async def shown(person: object, **settings: object) -> tuple[bool, tuple[str, ...]]:
        samples = SamplePages()
        async with sample_site(tmp_path, samples, person=person, **settings) as site:  # type: ignore[arg-type]
            await site.get("/samples/1")
        return samples.asked[0].shows.are_hidden, samples.asked[0].shows.redacted

    assert await shown(OPERATOR) == (False, ())
    assert await shown(VIEWER) == (True, ())
    assert await shown(OPERATOR, payloads=PayloadChoice.HIDE) == (True, ())
    assert await shown(OPERATOR, redact=("input.email",)) == (False, ("input.email",))


@pytest.mark.parametrize(("where", "status"), [("input.email=a@b", 400), ("input.n=1", 200), ("input.email=(", 200)])
async def test_what_is_hidden_cannot_be_found_out_by_acting_on_it(tmp_path: Path, where: str, status: int) -> None:
    """A confirmation says how many jobs a filter means. One that is none is for the form to refuse."""
    async with sample_site(tmp_path, redact=("input.email",)) as site:
        assert (await site.post("/samples/1/pause", {"where": where})).status == status


async def test_what_an_operator_was_shown_is_not_kept_for_a_viewer(tmp_path: Path) -> None:
    samples = SamplePages()
    async with sample_site(tmp_path, samples) as site:
        operator = dict(site.client.cookies)
        await site.get("/samples/1")
        async with sample_site(tmp_path, person=VIEWER) as other:
            site.client.cookies = other.client.cookies
        await site.get("/samples/1")
        assert [each.shows.are_hidden for each in samples.asked] == [False, True]
        assert operator


async def test_the_proxy_names_people_and_nobody_else_can(tmp_path: Path) -> None:
    proxied: dict[str, Any] = {"user_header": "X-Remote-User", "proxies": ("10.0.0.9",), "operators": ("ana",)}
    async with sample_site(tmp_path, person=None, options={"peer": "10.0.0.9"}, **proxied) as site:
        assert "ana" in (await site.get("/samples/1", **{"X-Remote-User": "ana"})).text
        assert (await site.post("/samples/1/pause", None, **{"X-Remote-User": "ana"})).status == 200
        assert (await site.post("/samples/1/pause", None, **{"X-Remote-User": "bob"})).status == 403
        assert (await site.get("/samples/1")).status == 401, "whom it does not name has to sign in"
    async with sample_site(tmp_path, person=None, options={"peer": "10.0.0.8"}, **proxied) as site:
        assert (await site.get("/samples/1", **{"X-Remote-User": "ana"})).status == 401


async def test_without_login_whoever_is_here_acts(tmp_path: Path) -> None:
    samples = SamplePages()
    async with sample_site(tmp_path, samples, person=None, no_login=True) as site:
        assert (await site.post("/samples/1/pause")).status == 200
        assert samples.forms_sent[0].person, "who started it is who asks"
        assert "Sign out" not in (await site.get("/samples/1")).text
    assert not (tmp_path / "ledger.db.dashboard").exists()


@pytest.mark.parametrize(
    "settings",
    [
        {"no_login": True, "listen": Address("0.0.0.0", 8901)},
        {"no_login": True, "listen": Address("example.org", 8901)},
        {"no_login": True, "url": "https://x.example"},
        {"user_header": "X-Remote-User"},
        {"proxies": ("10.0.0.9",)},
        {"operators": ("ana",)},
    ],
)
async def test_settings_that_would_let_anybody_in_are_refused(tmp_path: Path, settings: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        async with sample_site(tmp_path, person=None, **settings):
            pass


async def test_each_access_is_logged_by_its_page_but_for_health_checks(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "orchestrator.dashboard")
    async with sample_site(tmp_path) as site:
        await site.get("/samples/1?where=secret")
        await site.get("/static/style.css")
        await site.get("/healthz")
        await site.get("/nowhere%0A")
    assert [record.getMessage() for record in caplog.records] == [
        "GET /samples/1 by 'ana': 200 in 0 ms",
        "GET '/nowhere\\n' by 'ana': 404 in 0 ms",
    ]


async def test_a_page_that_fails_says_nothing_of_why(tmp_path: Path) -> None:
    async with sample_site(tmp_path, options={"raises": False}) as site:
        page = await site.get("/samples/1?broken=1")
        assert (page.status, "a secret" in page.html) == (500, False)
