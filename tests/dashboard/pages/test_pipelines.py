"""The pages of pipelines and of flows: each number, each sign, and what can be asked for there."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from orchestrator.core.pipelines.flow_lifecycle import FlowKind
from orchestrator.units import HOUR_US, MINUTE_US, SECOND_US
from tests.dashboard.harness import Dashboard, dashboard
from tests.dashboard.nights import HOSTILE, NIGHT_S, looking, nights, pipelines
from tests.engine.rows import empty_ledger
from tests.ledger.ledgers import opened
from tests.ledger.pipelines import a_pipeline, applied
from tests.simulation.clock import EPOCH_AT, VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def pipeline_of(site: Dashboard, name: str) -> tuple[str, dict[str, Any]]:
    lines = (await site.json("/pipelines"))["pipelines"]
    path = next(f"/pipelines/{line['pipeline']}" for line in lines if line["name"] == name)
    return path, await site.json(path)


async def flow_of(site: Dashboard, name: str, *, at: int = -1, query: str = "") -> tuple[str, dict[str, Any]]:
    """The newest flow of a pipeline, or another one of its results."""
    _, page = await pipeline_of(site, name)
    path = f"/flows/{page['results'][at]['flow']}{query}"
    return path, await site.json(path)


async def test_all_pipelines_have_their_schedules_in_words(tmp_path: Path) -> None:
    async with looking(tmp_path) as site:
        page = await site.get("/pipelines")
    assert page.status == 200
    assert "every 5 min" in page.text
    assert "by hand" in page.text
    assert len(re.findall(r"<li data-key=", page.html)) == 6


async def test_no_pipelines_say_how_to_begin_and_an_unknown_one_names_others(tmp_path: Path) -> None:
    async with dashboard(empty_ledger(tmp_path / "l.db")) as site:
        assert "There is no pipeline yet." in (await site.get("/pipelines")).text
        assert (await site.get("/flows/9")).status == 404
        assert (await site.get("/pipelines/9")).status == 404
    (tmp_path / "other").mkdir()
    async with looking(tmp_path / "other") as site:
        lost = await site.get("/pipelines/99")
    assert lost.status == 404
    assert "captions" in lost.text


async def test_a_pipeline_has_its_schedule_its_fires_and_what_came_of_them(tmp_path: Path) -> None:
    async with looking(tmp_path) as site:
        path, page = await pipeline_of(site, "captions")
        shown = await site.get(path)
    first = EPOCH_AT + 7 * NIGHT_S * SECOND_US
    assert page["next_fires"] == [first + n * NIGHT_S * SECOND_US for n in range(5)]
    assert [fire["state"] for fire in page["line"]["fires"]] == ["succeeded", "succeeded", "missed"]
    assert [(each["state"], each["rows"], each["failed"]) for each in page["results"]] == [("succeeded", 2, 0)] * 2
    assert page["rows"] == [2, 2]
    assert page["took_s"] == [each["took_s"] for each in reversed(page["results"])]
    assert page["spent"] == pytest.approx([0.008, 0.008])
    assert (page["stages"], page["version"]) == (["caption", "embed"], 1)
    assert page["endpoints"]["embed"] == "embedder"
    [gap] = page["gaps"]
    assert (gap["kind"], gap["fires"], gap["first"]) == ("missed", 4, "2026-01-01T00:15:00+00:00")
    for action in ("fire", "backfill", "pause"):
        assert f'action="{path}/{action}"' in shown.html
    assert 'name="from" value="2026-01-01T00:15:00+00:00"' in shown.html
    assert "Rows: 4, at most 2, last 2" in shown.text


async def test_what_needs_somebody_stands_at_the_pipeline_too(tmp_path: Path) -> None:
    async with looking(tmp_path) as site:
        path, page = await pipeline_of(site, "broken")
        text = (await site.get(path)).text
    assert [need["kind"] for need in page["needs"]] == ["failing", "missed", "untold"]
    assert "3 things need you" in text
    async with looking(tmp_path, later_us=2 * HOUR_US) as site:
        _, page = await pipeline_of(site, "captions")
    advice = {need["kind"]: need["advice"] for need in page["needs"]}
    assert advice["unseen"].startswith("orchestrator serve"), "as it is typed"


async def test_a_version_says_what_has_changed_and_not_whom_messages_go_to(tmp_path: Path) -> None:
    path, clock = await nights(tmp_path)
    before = next(each for each in pipelines(tmp_path) if each.name == "broken")
    assert before.notify is not None
    after = msgspec.structs.replace(
        before, input="new.jsonl", notify=msgspec.structs.replace(before.notify, url="https://hooks.example/secret")
    )
    async with opened(path, clock=clock) as ledger:
        await applied(ledger, after, now=clock.now())
    async with dashboard(path, clock=clock) as site:
        address, page = await pipeline_of(site, "broken")
        html = (await site.get(address)).html
    assert [version["version"] for version in page["versions"]] == [2, 1]
    assert {"input: bad-bad.jsonl → new.jsonl", "notify.url changed"} <= set(page["versions"][0]["changes"])
    assert "secret" not in html


async def test_a_schedule_that_is_paused_says_why_and_can_be_continued(tmp_path: Path) -> None:
    path, clock = await nights(tmp_path)
    async with opened(path, clock=clock) as ledger:
        of = await ledger.flows.pipelines.named("captions")
        assert of is not None
        until = clock.now() + MINUTE_US
        assert await ledger.flows.pipelines.pause(of, now=clock.now(), until=until, note="disk <full>")
    async with dashboard(path, clock=clock) as site:
        address, page = await pipeline_of(site, "captions")
        shown = await site.get(address)
    assert (page["line"]["paused_note"], page["line"]["paused_until"], page["next_fires"]) == ("disk <full>", until, [])
    assert "disk &lt;full&gt;" in shown.html
    assert f'action="{address}/continue"' in shown.html
    assert f'action="{address}/pause"' not in shown.html


async def test_a_flow_has_its_stages_in_time_with_their_figures(tmp_path: Path) -> None:
    async with looking(tmp_path) as site:
        path, page = await flow_of(site, "captions")
        shown = await site.get(path)
    caption, embed = page["stages"]
    assert (caption["rows_in"], caption["done"], caption["failed"], caption["waiting"]) == (2, 2, 0, 0)
    assert (embed["stage"], embed["rows_in"], embed["standing"]) == ("embed", 2, "succeeded")
    assert caption["began_at"] < embed["began_at"] <= embed["ended_at"]
    assert [(bar["name"], bar["state"], bar["text"]) for bar in page["bars"]] == [
        ("caption", "succeeded", "2 rows, 2 done"),
        ("embed", "succeeded", "2 rows, 2 done"),
    ]
    assert len(caption["sha256"]) == 64
    assert caption["sha256"][:12] in shown.text
    assert f'href="/runs/{caption["run_number"]}"' in shown.html
    assert f'action="{path}/rerun"' in shown.html
    assert f'action="{path}/cancel"' not in shown.html


async def test_a_flow_that_is_held_says_why_and_what_is_to_come(tmp_path: Path) -> None:
    async with looking(tmp_path) as site:
        path, page = await flow_of(site, "strict")
        shown = await site.get(path)
    assert page["flow"]["state"] == "held"
    assert page["bars"][0]["text"] == "2 rows, 1 done, 1 failed"
    assert "1 of the 2 rows for merge have failed" in shown.text
    assert f'action="{path}/continue"' in shown.html
    assert f'action="{path}/cancel"' in shown.html


async def test_a_flow_that_runs_is_late_and_can_be_paused(tmp_path: Path) -> None:
    async with looking(tmp_path) as site:
        path, page = await flow_of(site, "slow")
        shown = await site.get(path)
    assert (page["flow"]["state"], page["flow"]["late"]) == ("running", True)
    assert page["stages"][0]["outstanding"] == 1
    assert page["bars"][0]["until"] is None
    assert "Late." in shown.text
    assert f'action="{path}/pause"' in shown.html


async def test_a_flow_whose_input_is_not_there_says_which_and_until_when(tmp_path: Path) -> None:
    clock, path = VirtualClock(), tmp_path / "ledger.db"
    pipeline = msgspec.structs.replace(a_pipeline(), folder=str(tmp_path), wait_for_input_us=10 * MINUTE_US)
    async with opened(path, clock=clock) as ledger:
        of = await applied(ledger, pipeline, now=clock.now())
        await ledger.flows.add(of.id, "p", of.definition, [EPOCH_AT], FlowKind.TRIGGERED)
        await ledger.flows.start([1])
    async with dashboard(path, clock=clock) as site:
        page, shown = await site.json("/flows/1"), await site.get("/flows/1")
    awaited, until = page["awaits"], page["flow"]["started_at"] + 10 * MINUTE_US
    assert (awaited["path"], awaited["until"]) == (f"{tmp_path}/in.jsonl", until)
    assert f"It waits for its input, {tmp_path}/in.jsonl , until" in shown.text


async def test_messages_of_a_flow_say_why_nobody_took_them(tmp_path: Path) -> None:
    async with looking(tmp_path) as site:
        path, page = await flow_of(site, "broken")
        text = (await site.get(path)).text
    assert [message["news"] for message in page["messages"]] == ["failed"]
    assert "hooks.example answered 500" in text


async def test_the_way_of_a_row_goes_through_all_stages(tmp_path: Path) -> None:
    async with looking(tmp_path) as site:
        path, page = await flow_of(site, "captions", query="?row=row-1")
        shown = await site.get(path)
        path, unknown = await flow_of(site, "captions", query="?row=nothing")
        missing = await site.get(path)
    assert [(row["stage"], row["custom_id"], row["state"]) for row in page["kin"]] == [
        ("caption", "row-1", "succeeded"),
        ("embed", "row-1", "succeeded"),
    ]
    assert [row["made_of"] for row in page["kin"]] == [[], ["row-1"]]
    assert page["kin"][0]["became"] == 1
    run = page["stages"][0]["run_number"]
    assert f'href="/runs/{run}/jobs?where=id%3D%22row-1%22"' in shown.html
    assert unknown["row_problem"].endswith("has no row nothing")
    assert "has no row nothing" in missing.text
    assert missing.status == 200


async def test_names_that_are_hostile_are_texts_on_each_page(tmp_path: Path) -> None:
    async with looking(tmp_path) as site:
        path, _ = await pipeline_of(site, HOSTILE)
        flow_path, _ = await flow_of(site, HOSTILE)
        pages = [await site.get(each) for each in ("/pipelines", path, flow_path, f"{flow_path}?row=<i>%E2%80%AE")]
    for page in pages:
        assert page.status == 200
        assert "<b>bold</b>" not in page.html
        assert "<i>" not in page.html
        assert "\u202e" not in page.html


async def test_parts_of_pipelines_and_flows_are_refreshed_by_themselves(tmp_path: Path) -> None:
    async with looking(tmp_path) as site:
        path, _ = await pipeline_of(site, "captions")
        flow_path, _ = await flow_of(site, "captions")
        for address, part in (("/pipelines", "pipelines"), (path, "fires"), (path, "standing"), (flow_path, "stages")):
            answer = await site.get(f"{address}?live={part}")
            assert f'<section data-live="{part}">' in answer.html
