"""Pages by their paths, as HTML and as JSON, in whole and in parts, and what is answered where there is none."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from orchestrator.dashboard.actions.all_actions import ROUTES
from orchestrator.dashboard.pages.all_pages import all_pages
from tests.dashboard.harness import Dashboard, dashboard
from tests.dashboard.samples import SEARCHED, SamplePages
from tests.engine.rows import empty_ledger

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


@pytest.fixture
def samples() -> SamplePages:
    return SamplePages()


@pytest.fixture
async def site(tmp_path: Path, samples: SamplePages) -> AsyncIterator[Dashboard]:
    ledger = empty_ledger(tmp_path / "ledger.db")
    async with dashboard(ledger, pages=[samples.page], forms=[samples.form], templates=SEARCHED) as site:
        yield site


async def test_a_page_is_html_also_for_who_says_nothing_of_what_is_accepted(site: Dashboard) -> None:
    page = await site.get("/samples/1")
    assert page.status == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "NIGHT-2 12,345" in page.text
    assert 'href="/samples/2?where=a+b"' in page.html, "what is None is no part of a query"
    del site.client.headers["accept"]
    silent = await site.client.get("/samples/1")
    assert silent.headers["content-type"] == "text/html; charset=utf-8"


async def test_json_is_what_the_page_shows_with_times_beside(site: Dashboard) -> None:
    assert await site.json("/samples/1") == {
        "name": "night-2",
        "jobs": 12_345,
        "seen_at": 1,
        "seen_at_iso": "1970-01-01T00:00:00.000001Z",
    }


async def test_parts_come_alone_with_what_the_template_imports(site: Dashboard) -> None:
    parts = await site.get("/samples/1?live=figures,nothing")
    assert parts.html.strip() == ('<section data-live="figures"><p title="night-2"><b>NIGHT-2</b> 12,345</p></section>')


async def test_the_query_reaches_the_page_without_what_is_ours(site: Dashboard, samples: SamplePages) -> None:
    await site.get("/samples/1?where=state%3Dfailed&live=more")
    assert (samples.asked[0].numbers, samples.asked[0].query) == ({"sample": 1}, {"where": "state=failed"})


async def test_what_is_not_there_says_what_was_perhaps_meant(site: Dashboard) -> None:
    page = await site.get("/samples/9")
    assert (page.status, "There is no sample 9." in page.text) == (404, True)
    assert '<a href="/samples/1">sample 1</a>' in page.html
    assert (await site.get("/nowhere")).status == 404


async def test_what_goes_wrong_is_a_problem_document_for_who_wants_json(site: Dashboard) -> None:
    found = await site.get("/samples/9", Accept="application/json")
    assert found.headers["content-type"] == "application/problem+json"
    assert found.json == {
        "status": 404,
        "title": "Not Found",
        "detail": "There is no sample 9.",
        "nearest": {"sample 1": "/samples/1"},
    }
    bad = await site.get("/samples/1?bad=1", Accept="application/json")
    assert (bad.status, bad.json["detail"]) == (400, "bad is no filter; name one with --where")


async def test_a_slash_at_the_end_says_nothing(site: Dashboard) -> None:
    assert (await site.get("/samples/1/")).status == 200
    assert (await site.get("/static")).status == 404
    elsewhere = await site.get("/healthz/", Host="evil.example")
    assert (elsewhere.status, "location" in elsewhere.headers) == (200, False)


@pytest.mark.parametrize("digits", [18, 19, 5_000])
async def test_a_number_that_nothing_has_is_no_page_whichever_page_it_is_of(tmp_path: Path, digits: int) -> None:
    pages = [page.path for page in all_pages() if "{" in page.path]
    forms = [form.path for form in ROUTES if ":number}" in form.path]
    async with dashboard(empty_ledger(tmp_path / "ledger.db")) as real:
        for path in pages:
            answer = await real.get(re.sub(r"{.*?}", "9" * digits, path))
            assert answer.status == 404, path
        for path in forms:
            answer = await real.post(re.sub(r"{.*?}", "9" * digits, path))
            assert answer.status == 404, path
    assert len(pages) > 8
    assert len(forms) > 15


async def test_texts_of_people_obey_nothing(site: Dashboard, samples: SamplePages) -> None:
    samples.name = '<script>x</script>"\x1b[31m \u202egpj.exe'
    html = (await site.get("/samples/1")).html
    assert "<script>x" not in html
    assert "\x1b" not in html
    assert "\u202e" not in html, "nor is it turned around"
    assert "&lt;script&gt;x&lt;/script&gt;&#34;\\x1b[31m \\u202egpj.exe" in html


async def test_a_form_asks_first_and_then_leads_on(site: Dashboard, samples: SamplePages) -> None:
    asked = await site.post("/samples/1/pause", {"where": "state=failed"})
    assert (asked.status, samples.forms_sent[0].fields) == (200, {"where": "state=failed"})
    done = await site.post("/samples/1/pause", {"confirmed": "yes"})
    assert (done.status, done.headers["location"]) == (303, "/samples/1")
    assert (await site.get("/samples/1/pause")).status == 405


async def test_files_of_ours_are_there_and_may_be_kept(site: Dashboard) -> None:
    page = await site.get("/samples/1")
    assert "/static/style.css?v=" in page.html
    for name in ("style.css", "refresh.js", "icon.svg"):
        assert (await site.get(f"/static/{name}")).status == 200


async def test_a_page_may_lead_to_another_one_or_be_a_file_to_keep(site: Dashboard) -> None:
    led = await site.get("/samples/2?named=night-2")
    assert (led.status, led.headers["location"]) == (303, "/samples/1")
    file = await site.get("/samples/1?file=1")
    assert (file.status, file.html) == (200, "<script>")
    assert file.headers["content-disposition"] == "attachment; filename*=UTF-8''a%22b%2F%C3%BC.html"
