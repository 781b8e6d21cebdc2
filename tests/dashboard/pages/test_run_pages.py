"""The pages of runs: every figure and item of them, on a ledger that the engine has made."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import msgspec
import pytest

from orchestrator.core.filters.filter import EVERY
from orchestrator.dashboard.page import KeptFile, NotFoundError, PageRequest
from orchestrator.dashboard.pages import failures, job, jobs, run, runs
from orchestrator.dashboard.payload_redaction import Payloads
from orchestrator.ledger import read_ledger
from orchestrator.ledger.reports.ended_jobs import FROM_LATEST
from orchestrator.ledger.reports.selected_jobs import SelectedJob
from orchestrator.views.json_values import as_printed
from tests.dashboard.harness import Dashboard, dashboard
from tests.dashboard.pages.a_night import HOSTILE, JOBS, NIGHT, SECRET, TRAINING, a_night, night_ledger
from tests.ledger.ledgers import a_run, opened
from tests.simulation.clock import VirtualClock
from tests.simulation.database import async_creator

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

OUT_OF_MEMORY = 3
"""The number of a job that failed so, twice."""


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Dashboard]:
    async with a_night(tmp_path) as night:
        yield night


# --- all runs


async def test_each_run_is_a_line_with_its_state_and_figures(site: Dashboard) -> None:
    page = await site.get("/runs")
    assert page.status == 200
    assert page.text.index("training") < page.text.index("night-2"), "the newest first"
    assert "training ‖ paused 0 % of 3 none failed" in page.text
    assert "night-2 ◐ partial 100 % of 80 16 failed" in page.text
    assert "spent" in page.text
    assert "took 49 s" in page.text
    assert f'href="/runs/{NIGHT}"' in page.html
    assert "2 runs in all" in page.text
    found = await site.json("/runs")
    assert [(line["name"], line["failed"], line["total"]) for line in found["lines"]] == [
        ("training", 0, 3),
        ("night-2", 16, JOBS),
    ]


async def test_runs_are_chosen_by_state_and_name(site: Dashboard) -> None:
    async def names(path: str) -> list[str]:
        return [line["name"] for line in (await site.json(path))["lines"]]

    assert await names("/runs?show=open") == ["training"]
    assert await names("/runs?show=ended") == ["night-2"]
    assert await names("/runs?show=troubled&name=NIGHT") == ["night-2"]
    assert await names("/runs?name=x") == []
    assert await names(f"/runs?after={TRAINING}") == ["night-2"]
    assert "None of the 2 runs of this ledger is meant by that." in (await site.get("/runs?name=x")).text
    for bad in ("show=best", "after=-1", "after=1e3", "after=" + "9" * 30, "after=%D9%A3", f"name={'x' * 300}"):
        assert (await site.get(f"/runs?{bad}")).status == 400, bad


# --- one run


async def test_the_figures_of_a_run(site: Dashboard) -> None:
    page = await site.get(f"/runs/{NIGHT}")
    assert page.status == 200
    for said in (
        "◐ Over: 64 of 80 succeeded; 16 failed.",
        "succeeded 64 80 % failed 16 20 %",
        "done 100 % 80 of 80",
        "took 49 s",
        "1.6/s in the mean",
        "budget 5.00",
        "failed 16 20.0 % of those done",
        "failed attempts 40 24 tried again",
        "least margin 29 min 99 % had 29 min or more",
        "uncertain so far 5 0 found again, 5 sent again",
        "8 50.0 % failed MemoryError: CUDA out of memory: 3 MiB",
        "8 50.0 % failed ValueError: <i>the seed</i> of 5 is \\u202eodd",
        "8 more attempts failed so and were tried again",
        "0 – failed ConnectionError: no answer from 10.0.0.7",
        "max-attempts 2",
        "price-per-second 0.01",
        "the breaker is off",
        "orchestrator status night-2 --ledger",
    ):
        assert said in page.text, said
    assert "notify https://hooks.example/…" in page.text
    assert "secret" not in page.html
    found = await site.json(f"/runs/{NIGHT}")
    assert found["status"]["verdict"]["standing"] == "partial"
    assert found["spent"]["amount"] > 1
    assert found["failed_share"] == 0.2
    assert found["status"]["paid_twice"] == 0


async def test_charts_of_a_run_with_gaps(site: Dashboard) -> None:
    page = await site.get(f"/runs/{NIGHT}")
    for title in (
        "Jobs a second", "Jobs by state", "Jobs at the service", "Execution", "Waiting in the service's queue",
        "Failed attempts", "Spent", "Time left when results were collected",
    ):  # fmt: skip
        assert f"<figcaption>{title}".replace("'", "&#39;") in page.html, title
    assert "the limit of run went from 1,000 to 500 requests" in page.text
    charts = (await site.json(f"/runs/{NIGHT}?window=all"))["charts"]
    rates = {line["name"]: [value for _, value in line["points"]] for line in charts["charts"][0]["series"]}
    assert rates["sent"] == [0.5, 0.5, 0.5, 0.5, 0.5, None, 0.5], "a gap stays one"
    assert rates["finished"] == [0.4, 0.4, 0.4, 0.4, 0.4, None, 0.4]
    assert set(rates["allowed"]) == {100.0, None, 50.0}
    assert sum(bucket["count"] for bucket in charts["margins"]) == 64
    assert charts["window"] == "all"
    assert (await site.json(f"/runs/{NIGHT}?window=10m"))["charts"]["window"] == "10m"
    assert (await site.get(f"/runs/{NIGHT}?window=2y")).status == 400
    [median, most] = charts["charts"][3]["series"]
    assert median["points"][-1][1] < most["points"][-1][1]


async def test_pauses_and_limits_that_changed_are_bands(site: Dashboard) -> None:
    bands = (await site.json(f"/runs/{NIGHT}?window=all"))["charts"]["bands"]
    [pause, limit] = bands
    assert (pause["kind"], pause["text"], pause["until"] - pause["since"]) == ("pause", "paused by ann", 30_000_000)
    assert (limit["kind"], limit["since"]) == ("limit", limit["until"])


async def test_how_far_resumable_jobs_are_and_what_can_be_done_with_a_run_that_is_paused(site: Dashboard) -> None:
    page = await site.get(f"/runs/{TRAINING}")
    assert "‖ Paused: nothing is sent. 3 of 3 to go, 3 at the service; nobody works on it; collect" in page.text
    assert "job-1 ▶ at the service 28.5 % 1140 s of 4000" in page.text
    assert "safe offline" in page.text
    for label in ("Continue …", "Limits …", "Brakes …", "Priority …", "Cancel …"):
        assert label in page.text
    assert "Pause …" not in page.text
    assert "at the service: lowest" in page.text, "the engine has written that down"
    progress = (await site.json(f"/runs/{TRAINING}"))["progress"]
    assert progress[0]["share"] == pytest.approx(0.285)
    assert progress[0]["checkpoint_at"] is not None


async def test_parts_of_a_run_are_given_alone(site: Dashboard) -> None:
    page = await site.get(f"/runs/{NIGHT}?live=figures,failures")
    assert page.html.count("<section") == 2
    assert "<h1>" not in page.html
    assert "CUDA out of memory" in page.text


# --- failures


async def test_the_kinds_of_failures_with_what_can_be_done(site: Dashboard) -> None:
    page = await site.get(f"/runs/{NIGHT}/failures")
    for said in (
        "16 of 80 jobs have failed or were cancelled, in 2 kinds. 24 more attempts failed, and were tried again.",
        "Retry all 16 …",
        "1. 8 jobs 50.0 % of them · failed",
        "some of them n-003",
        "tried again 8 attempts",
        "Retry 8 …",
        "3. failed, each tried again ConnectionError: no answer from 10.0.0.7",
        "orchestrator failures night-2 --ledger",
    ):
        assert said in page.text, said
    found = await site.json(f"/runs/{NIGHT}/failures")
    assert [(kind["kind"]["count"], sum(kind["last_hour"])) for kind in found["kinds"]] == [(8, 8), (8, 8), (0, 0)]
    assert page.text.count("of late") == 2, "none of that kind has failed for good"
    assert page.text.count("List those tried again") == 3
    assert "Cancel those" not in page.text, "all jobs have ended"
    again = await site.json(f"/runs/{NIGHT}/jobs?where={found['kinds'][2]['where_retried']}")
    assert {job["state"] for job in again["jobs"]} == {"succeeded"}
    assert found["kinds"][0]["command"].startswith("orchestrator retry night-2 --cluster ")
    [first, *_] = found["kinds"]
    listed = await site.json(f"/runs/{NIGHT}/jobs?where={first['where']}")
    assert (listed["count"], listed["is_exact"], len(listed["jobs"])) == (8, True, 8)


async def test_a_run_without_failures_says_so(site: Dashboard) -> None:
    assert "Nothing has failed" in (await site.get(f"/runs/{TRAINING}/failures")).text


# --- jobs


async def test_jobs_stand_in_the_order_of_the_input_a_page_at_a_time(site: Dashboard) -> None:
    first = await site.json(f"/runs/{NIGHT}/jobs")
    assert (len(first["jobs"]), first["count"], first["is_exact"], first["looked_at"]) == (50, JOBS, True, None)
    rest = await site.json(f"/runs/{NIGHT}/jobs?after={first['after']}")
    assert [each["line"] for each in (*first["jobs"], *rest["jobs"])] == list(range(1, JOBS + 1))
    assert rest["after"] is None
    page = await site.get(f"/runs/{NIGHT}/jobs")
    assert "n-003 ✕ failed MemoryError: CUDA out of memory: 3 MiB 2 " in page.text
    assert "Next 50" in page.text


async def test_jobs_that_ended_last_stand_first(site: Dashboard) -> None:
    found: list[dict[str, int]] = []
    after: str | None = ""
    pages = 0
    while after is not None:
        page = await site.json(f"/runs/{NIGHT}/jobs?order=ended" + (f"&after={after}" if after else ""))
        found += page["jobs"]
        after, pages = page["after"], pages + 1
    ends = [(each["ended_at"], each["job"]) for each in found]
    assert ends == sorted(ends, reverse=True)
    assert sorted(each["job"] for each in found) == list(range(1, JOBS + 1))
    assert pages == 2
    failed = await site.json(f"/runs/{NIGHT}/jobs?order=ended&where=state=failed input.n>50")
    assert [each["state"] for each in failed["jobs"]] == ["failed"] * 6


async def test_jobs_that_ended_at_one_moment_are_on_one_page_each_and_none_is_missing(tmp_path: Path) -> None:
    path, clock = await night_ledger(tmp_path), VirtualClock()
    async with read_ledger(path, clock=clock, connect=async_creator(path)) as ledger:
        place = FROM_LATEST
        found: list[SelectedJob] = []
        while True:
            page = await ledger.reports.ended_jobs.page(NIGHT, EVERY, after=place, most=1)
            found += page.jobs
            place = page.after
            if page.is_last:
                break
        assert len({each.ended_at for each in found}) < JOBS, "some did"
        assert sorted(each.job for each in found) == list(range(1, JOBS + 1))


async def test_jobs_are_chosen_by_a_filter_and_counted_where_that_is_known_or_asked(site: Dashboard) -> None:
    async def of(where: str, **more: str) -> dict[str, object]:
        asked = "".join(f"&{name}={value}" for name, value in more.items())
        found: dict[str, object] = await site.json(f"/runs/{NIGHT}/jobs?where={where}{asked}")
        return found

    assert (await of("state=failed"))["count"] == 16
    assert (await of("error~memory"))["count"] is None
    assert (await of("error~memory", count="1"))["count"] == 8
    assert (await of('input.prompt~"of Bob"', count="1"))["count"] == JOBS
    assert (await of("state=failed"))["can_retry"] is True
    assert (await of("state=failed"))["can_cancel"] is False
    assert (await of("state=succeeded"))["can_retry"] is False
    page = await site.get(f"/runs/{NIGHT}/jobs?where=error~memory")
    assert "Count them" in page.text
    assert "Retry these …" in page.text
    assert "No job is meant by that filter." in (await site.get(f"/runs/{NIGHT}/jobs?where=id=nobody")).text


async def test_a_filter_that_is_none_is_told_at_its_position_and_kept_to_be_mended(site: Dashboard) -> None:
    page = await site.get(f"/runs/{NIGHT}/jobs?where=state=failed sate=x")
    assert page.status == 400
    assert 'at character 14: there is no field "sate"; did you mean state?' in page.text
    assert "state=failed sate=x\n               ^" in page.html
    assert 'value="state=failed sate=x"' in page.html
    assert 'aria-invalid="true"' in page.html
    assert "Count them" not in page.text
    told = await site.get(f"/runs/{NIGHT}/jobs?where=state=failed sate=x", Accept="application/json")
    assert (told.status, told.headers["content-type"]) == (400, "application/problem+json")
    assert told.json["detail"].startswith('at character 14: there is no field "sate"')


@pytest.mark.parametrize(
    "query",
    [
        "after=x", "after=1-2", "after=-3", "after=99999999999999999999", "order=ended&after=7", "order=best",
        "order=ended&after=1-2-3", "order=ended&after=9223372036854775808-1", "after=%D9%A3",
    ],
)  # fmt: skip
async def test_places_and_orders_that_no_page_has_said_are_refused(site: Dashboard, query: str) -> None:
    assert (await site.get(f"/runs/{NIGHT}/jobs?{query}")).status == 400


# --- one job


async def test_all_that_happened_to_a_job(site: Dashboard) -> None:
    page = await site.get(f"/runs/{NIGHT}/jobs/{OUT_OF_MEMORY}")
    for said in (
        "n-003 line 3 of night-2",
        "✕ failed at 00:00:09 ; 2 executions may have been paid at most.",
        "Retry …",
        "Next of this kind",
        "Next failed",
        "priority 0",
        "execution timeout 10 min",
        "Error MemoryError: CUDA out of memory: 3 MiB",
        'Traceback Traceback (most recent call last): File "/app/h.py", line 17, in run load() MemoryError: CUDA',
        "Attempt 1 from 00:00:00 , failed 00:00:04",
        "execution 4 s",
        "Attempt 2 from 00:00:04 , failed 00:00:09",
        "abandoned, failed out of attempts (2)",
        f'Input {{ "n": 3, "prompt": "{SECRET}" }}',
        "Keep as a file",
        "orchestrator jobs show night-2 n-003 --ledger",
    ):
        assert said in page.text, said
    assert 'File "/app/h.py", line 17, in run\n    load()'.replace('"', "&#34;") in page.html, "its lines are lines"
    found = await site.json(f"/runs/{NIGHT}/jobs/{OUT_OF_MEMORY}")
    assert (found["next_failed"], found["next_of_kind"]) == (5, 13)
    assert [attempt["attempt"] for attempt in found["attempts"]] == [1, 2]
    assert [attempt["error"][:32] for attempt in found["attempts"]] == ["MemoryError: CUDA out of memory:", ""]
    kinds = [[part["kind"] for part in attempt["stretches"]] for attempt in found["attempts"]]
    assert kinds == [["waiting", "queue", "execution"], ["waiting", "queue", "execution", "collecting"]]
    took_s = sum(part["seconds"] for part in found["attempts"][1]["stretches"])
    assert took_s == pytest.approx((found["attempts"][1]["ended_at"] - found["attempts"][1]["began_at"]) / 1e6)


async def test_a_job_that_is_under_way_has_its_deadlines_its_segments_and_checkpoints(site: Dashboard) -> None:
    page = await site.get(f"/runs/{TRAINING}/jobs/{JOBS + 1}")
    assert "▶ at the service" in page.text
    assert "the service forgets it 2026-01-08" in page.text
    assert "execution timeout 7 d" in page.text
    assert "under way" in page.text
    assert "Segments" in page.text
    assert "checkpoint" in page.text
    assert "Cancel …" in page.text
    assert "Retry …" not in page.text


async def test_payloads_can_be_kept_as_files_and_are_never_shown_as_pages(site: Dashboard) -> None:
    for part, ending in (("input", "json"), ("output", "json"), ("error", "txt")):
        job_number = OUT_OF_MEMORY if part == "error" else 1
        kept = await site.get(f"/runs/{NIGHT}/jobs/{job_number}/{part}")
        assert kept.status == 200
        assert kept.headers["content-disposition"].startswith("attachment;")
        assert f"job-{job_number}-{part}.{ending}" in kept.headers["content-disposition"]
        assert "html" not in kept.headers["content-type"]
    assert json.loads((await site.get(f"/runs/{NIGHT}/jobs/1/input")).html)["prompt"] == SECRET
    assert (await site.get(f"/runs/{NIGHT}/jobs/1/error")).status == 404
    assert (await site.get(f"/runs/{NIGHT}/jobs/1/metadata")).status == 404


@pytest.mark.parametrize(
    "path",
    [
        "/runs/99", "/runs/99/failures", "/runs/99/jobs", "/runs/99/jobs/1", "/runs/99/jobs/1/input",
        f"/runs/{NIGHT}/jobs/{JOBS + 1}", f"/runs/{NIGHT}/jobs/0", f"/runs/{TRAINING}/jobs/1/input",
        f"/runs/{10**30}", f"/runs/{NIGHT}/jobs/{10**30}", f"/runs/{NIGHT}/jobs/{10**30}/input",
    ],
)  # fmt: skip
async def test_what_is_not_there_is_not_found(site: Dashboard, path: str) -> None:
    page = await site.get(path)
    assert page.status == 404
    assert "Runs" in page.text or "its jobs" in page.text


# --- from names to pages


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("run=night-2", f"/runs/{NIGHT}"),
        ("run=train", f"/runs/{TRAINING}"),
        ("run=night-2&job=n-003", f"/runs/{NIGHT}/jobs/3"),
        ("run=night-2&job=%3Cscript%3Ealert(1)%3C%2Fscript%3E", f"/runs/{NIGHT}/jobs/11"),
        ("run=night-2&job=quote%22%20and%20%5C%20back", f"/runs/{NIGHT}/jobs/15"),
    ],
)
async def test_a_name_leads_to_its_page(site: Dashboard, query: str, path: str) -> None:
    answer = await site.get(f"/find?{query}")
    assert (answer.status, answer.headers["location"]) == (303, path)


async def test_a_name_that_nothing_has_leads_to_what_was_perhaps_meant(site: Dashboard) -> None:
    page = await site.get("/find?run=nihgt-2")
    assert page.status == 404
    assert f'<a href="/runs/{NIGHT}">night-2</a>' in page.html
    assert (await site.get("/find?run=night-2&job=nobody")).status == 404
    assert (await site.get("/find?flow=nothing")).status == 404
    assert (await site.get("/find")).status == 400


# --- hostile names and texts, hidden payloads


async def test_nothing_of_names_and_texts_is_obeyed_by_a_browser(site: Dashboard) -> None:
    paths = [
        "/runs",
        f"/runs/{NIGHT}",
        f"/runs/{NIGHT}/failures",
        f"/runs/{NIGHT}/jobs",
        f"/runs/{NIGHT}/jobs?order=ended",
    ]
    paths += [f"/runs/{NIGHT}/jobs/{number}" for number in (*HOSTILE, 5)]
    for path in paths:
        page = await site.get(path)
        assert page.status == 200, path
        assert "<script>alert" not in page.html, path
        assert "<i>the seed" not in page.html, path
        assert "\u202e" not in page.html, path
        assert "\x00" not in page.html, path
    assert "id=&#34;quote\\&#34; and \\\\ back&#34;" in (await site.get(f"/runs/{NIGHT}/jobs/15")).html


async def composed(folder: Path, shows: Payloads) -> AsyncIterator[tuple[str, str]]:
    """Everything that the pages of the night say to somebody who may see so much, as JSON and as files."""
    path, clock = await night_ledger(folder), VirtualClock()
    async with read_ledger(path, clock=clock, connect=async_creator(path)) as ledger:

        async def of(page: object, query: dict[str, str], **numbers: int) -> str:
            request = PageRequest(
                ledger=ledger, now=clock.now(), holder=None, numbers=numbers, query=query, shows=shows
            )
            try:
                view = await page.compose(request)  # type: ignore[attr-defined]
            except NotFoundError as error:
                return str(error)
            return view.body.decode() if isinstance(view, KeptFile) else msgspec.json.encode(as_printed(view)).decode()

        yield "runs", await of(runs.PAGE, {})
        yield "run", await of(run.PAGE, {}, run=NIGHT)
        yield "failures", await of(failures.PAGE, {}, run=NIGHT)
        yield "jobs", await of(jobs.PAGE, {}, run=NIGHT)
        for number in (1, 5):
            for each in job.PAGES:
                yield f"{each.path} {number}", await of(each, {}, run=NIGHT, job=number)


async def test_where_payloads_are_hidden_no_page_no_json_and_no_file_has_any_of_them(tmp_path: Path) -> None:
    shown = [text async for _, text in composed(tmp_path, Payloads())]
    assert sum(SECRET in text for text in shown) >= 6
    async for where, text in composed(tmp_path, Payloads(are_hidden=True)):
        assert SECRET not in text, where
        assert "the seed" not in text, where


async def test_what_is_redacted_stands_nowhere_and_the_rest_does(tmp_path: Path) -> None:
    pages = dict([each async for each in composed(tmp_path, Payloads(redacted=("input.prompt",)))])
    job_1 = pages["/runs/{run:number}/jobs/{job:number} 1"]
    assert SECRET not in json.loads(job_1)["input"]["text"]
    assert SECRET in json.loads(job_1)["output"]["text"], "that is not redacted"
    assert "[redacted]" in pages["/runs/{run:number}/jobs/{job:number}/input 1"]
    assert "of 5 is" not in pages["failures"], "of what workers said nothing that differs from job to job"


@pytest.mark.parametrize(
    ("shows", "where", "may"),
    [
        (Payloads(are_hidden=True), "input.n=3", False),
        (Payloads(are_hidden=True), "meta.shop=3", False),
        (Payloads(are_hidden=True), "error~Bob", False),
        (Payloads(are_hidden=True), "not (line<3 or error~Bob)", False),
        (Payloads(are_hidden=True), "state=failed id^=n-", True),
        (Payloads(redacted=("input.prompt",)), "input.prompt~Bob", False),
        (Payloads(redacted=("input.prompt",)), "error~Bob", False),
        (Payloads(redacted=("input.prompt",)), "input.n=3", True),
    ],
)
async def test_jobs_cannot_be_looked_for_by_what_is_hidden(
    tmp_path: Path, shows: Payloads, where: str, may: bool
) -> None:
    from orchestrator.errors import UsageError

    path, clock = await night_ledger(tmp_path), VirtualClock()
    async with read_ledger(path, clock=clock, connect=async_creator(path)) as ledger:
        request = PageRequest(
            ledger=ledger, now=clock.now(), holder=None, numbers={"run": NIGHT}, query={"where": where}, shows=shows
        )
        if may:
            await jobs.PAGE.compose(request)
        else:
            with pytest.raises(UsageError, match="hidden here"):
                await jobs.PAGE.compose(request)


# --- little to show


async def test_a_run_without_jobs_and_a_ledger_without_runs(tmp_path: Path) -> None:
    path, clock = tmp_path / "ledger.db", VirtualClock()
    async with opened(path, clock=clock) as ledger:
        async with dashboard(path, clock=clock) as site:
            assert "This ledger has no runs yet." in (await site.get("/runs")).text
        await a_run(ledger, 0, name="nothing")
        async with dashboard(path, clock=clock) as site:
            assert "It has no jobs." in (await site.get("/runs/1")).text
            assert "Nothing has failed: it has no jobs." in (await site.get("/runs/1/failures")).text
            assert "No job is here." in (await site.get("/runs/1/jobs")).text
            assert "nothing" in (await site.get("/runs")).text


async def test_a_run_that_was_deleted_is_not_found_any_more(tmp_path: Path) -> None:
    path, clock = tmp_path / "ledger.db", VirtualClock()
    async with opened(path, clock=clock) as ledger:
        gone = await a_run(ledger, 2, name="gone")
        async with dashboard(path, clock=clock) as site:
            assert (await site.get("/runs/1")).status == 200
            assert await ledger.runs.take_back(gone.id)
            await anyio.sleep(60)  # what was shown of late may be shown again
            for path_of in ("/runs/1", "/runs/1/jobs", "/runs/1/jobs/1", "/find?run=gone"):
                assert (await site.get(path_of)).status == 404, path_of
