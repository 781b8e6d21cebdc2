"""The first page: what needs a person, how pipelines stand, and what is not finished."""

import re
from pathlib import Path
from typing import Any

import anyio
import pytest

from orchestrator.core.gates.failure_breaker import BreakerRules
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.pipelines.flow_lifecycle import FlowKind
from orchestrator.ledger import dispatcher_lock
from orchestrator.settings.run_settings import RunSettings
from orchestrator.units import HOUR_US, MINUTE_US, SECOND_US
from tests.dashboard.actions.forms import confirmed, failed_run
from tests.dashboard.harness import dashboard
from tests.dashboard.nights import HOSTILE, NIGHT_S, clock_at, looking, nights
from tests.engine.process import process
from tests.engine.rows import empty_ledger
from tests.engine.scripted import Scripted, numbered, says
from tests.ledger.ledgers import brought_to, opened
from tests.simulation.clock import EPOCH_AT, VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


@pytest.mark.slow
async def test_each_thing_that_needs_somebody_has_its_cause_its_time_its_link_and_its_cure(tmp_path: Path) -> None:
    async with looking(tmp_path) as site:
        found = {need["kind"]: need for need in (await site.json("/"))["needs"]}
        page = await site.get("/")
    assert list(found) == ["nobody", "held", "late", "failing", "missed", "untold"]
    nobody = found["nobody"]
    assert (nobody["name"], nobody["cure_path"]) == ("slow@20260101T000500Z/caption", None)
    assert nobody["path"] == f"/runs/{nobody['number']}"
    held, failing, missed = found["held"], found["failing"], found["missed"]
    assert held["cause"] == "1 of the 2 rows for merge have failed, more than needs allows"
    assert held["cure_path"] == f"{held['path']}/continue"
    assert (failing["name"], failing["cure_path"]) == ("broken@20260101T001000Z", f"{failing['path']}/rerun")
    assert failing["since"] > EPOCH_AT + 2 * NIGHT_S * SECOND_US
    assert (missed["cause"], missed["more"]) == ("20 fires missed: nobody looked at the schedule in time", 4)
    assert (missed["path"], missed["cure_path"]) == ("/pipelines", None)
    assert found["late"]["since"] == EPOCH_AT + NIGHT_S * SECOND_US + MINUTE_US
    assert found["untold"]["cause"] == "3 messages could not be sent: hooks.example answered 500"
    assert "6 things need you" in page.text
    for need in found.values():
        assert f'href="{need["path"]}"' in page.html
        assert need["cure_path"] is None or f'action="{need["cure_path"]}"' in page.html


async def test_pipelines_stand_the_worst_first_with_their_fires_as_signs(tmp_path: Path) -> None:
    async with looking(tmp_path) as site:
        lines = (await site.json("/"))["pipelines"]
        page = await site.get("/")
    stands = {line["name"]: line for line in lines}
    assert [line["standing"] for line in lines] == ["failed", "held", "missed", "missed", "missed", "succeeded"]
    assert [fire["state"] for fire in stands["captions"]["fires"]] == ["succeeded", "succeeded", "missed"]
    assert [fire["state"] for fire in stands["strict"]["fires"]] == ["held", "waiting", "missed"]
    assert [fire["state"] for fire in stands["slow"]["fires"]] == ["running", "waiting", "missed"]
    assert stands["captions"]["fires"][-1]["fires"] == 4
    last = stands[HOSTILE]["last"]
    assert (last["state"], last["rows"], last["failed"]) == ("partial", 3, 1)
    assert last["spent"]["amount"] == pytest.approx(0.001 * (4 + 2 + 4))
    assert last["why"] == "1 job of 3 without a result"
    assert (stands["slow"]["running"], stands["slow"]["waiting"], stands["slow"]["is_late"]) == (1, 1, True)
    assert stands["captions"]["next_at"] == EPOCH_AT + 7 * NIGHT_S * SECOND_US
    assert (stands["by-hand"]["is_scheduled"], stands["by-hand"]["next_at"]) == (False, None)
    assert re.findall(r'<li data-key="\d+" class="healthy">', page.html) == ['<li data-key="6" class="healthy">']
    assert "4 fires missed" in page.text


async def test_what_is_not_finished_is_one_line_a_flow(tmp_path: Path) -> None:
    async with looking(tmp_path) as site:
        page = await site.json("/")
    names = {line["name"].partition("@")[0]: line for line in page["runs"]}
    assert set(names) == {"slow", "strict"}
    assert (names["slow"]["run"], names["slow"]["standing"], names["slow"]["total"]) == (None, "running", 1)
    assert names["slow"]["safe_offline_s"] > 0
    assert names["strict"]["standing"] == "held"
    assert (page["backfills"], page["more_runs"], page["ended"]) == ([], 0, [])


async def test_a_backfill_is_one_line_however_many_flows_it_made(tmp_path: Path) -> None:
    path, clock = await nights(tmp_path)
    async with opened(path, clock=clock) as ledger:
        of = await ledger.flows.pipelines.named("captions")
        assert of is not None
        fires = [EPOCH_AT - n * HOUR_US for n in range(1, 31)]
        made = await ledger.flows.add(of.id, of.name, of.definition, fires, FlowKind.BACKFILL)
        first = await ledger.flows.named(made[0])
        assert first is not None
        await ledger.flows.start([first.id])
    async with dashboard(path, clock=clock) as site:
        page = await site.json("/")
        text = (await site.get("/")).text
    [line] = page["backfills"]
    assert (line["name"], line["flows"], line["ended"], line["running"], line["waiting"]) == ("captions", 30, 0, 1, 29)
    assert not any(run["name"].startswith("captions") for run in page["runs"])
    assert "backfill of captions" in text
    assert "0 of 30 flows" in text


async def test_a_flow_that_waits_for_its_input_is_there_too(tmp_path: Path) -> None:
    path, clock = await nights(tmp_path)
    async with opened(path, clock=clock) as ledger:
        of = await ledger.flows.pipelines.named("by-hand")
        assert of is not None
        [name] = await ledger.flows.add(of.id, of.name, of.definition, [EPOCH_AT + SECOND_US], FlowKind.TRIGGERED)
        flow = await ledger.flows.named(name)
        assert flow is not None
        await ledger.flows.start([flow.id])
    async with dashboard(path, clock=clock) as site:
        [line] = [run for run in (await site.json("/"))["runs"] if run["flow"] == flow.id]
    assert (line["standing"], line["total"], line["run"]) == ("running", 0, None)


async def test_names_with_markup_slashes_and_marks_that_turn_directions_are_texts(tmp_path: Path) -> None:
    async with looking(tmp_path) as site:
        page = await site.get("/")
    assert "<b>bold</b>" not in page.html
    assert "\u202e" not in page.html
    assert "a/b @ &lt;b&gt;bold&lt;/b&gt; \\u202egpj.exe" in page.html


async def test_an_empty_ledger_needs_nothing_and_says_how_to_begin(tmp_path: Path) -> None:
    async with dashboard(empty_ledger(tmp_path / "l.db")) as site:
        page = await site.get("/")
        assert (await site.json("/"))["needs"] == []
    assert page.status == 200
    assert "Nothing needs you." in page.text
    assert "There is no run yet." in page.text
    assert "Pipelines" not in re.sub(r"(?s)<nav.*?</nav>", "", page.html).replace('aria-label="Pipelines"', "")


async def test_a_dead_engine_is_told_with_who_was_heard_last(tmp_path: Path) -> None:
    async with looking(tmp_path, later_us=2 * HOUR_US) as site:
        page = await site.get("/")
        kinds = [need["kind"] for need in (await site.json("/"))["needs"]]
    assert "Nobody works on this ledger." in page.text
    assert re.search(r"was heard last (2 h|120 min).* ago", page.text)
    assert kinds[0] == "expiring"
    assert kinds.count("unseen") == 1, "five pipelines have one cause"


async def test_a_clock_that_was_set_back_is_told_and_breaks_nothing(tmp_path: Path) -> None:
    path, clock = await nights(tmp_path)
    async with dashboard(path, clock=clock_at(clock.now() - 3 * HOUR_US)) as site:
        needs: list[dict[str, Any]] = (await site.json("/"))["needs"]
        assert (await site.get("/")).status == 200
    assert any("the clock is over an hour behind" in need["cause"] for need in needs)


async def test_parts_are_refreshed_by_themselves(tmp_path: Path) -> None:
    async with looking(tmp_path) as site:
        for part, word in (("needs", "things need you"), ("pipelines", "captions"), ("runs", "Not finished")):
            answer = await site.get(f"/?live={part}")
            assert f'<section data-live="{part}">' in answer.html
            assert word in answer.text
            assert "<main" not in answer.html


async def test_a_run_at_work_is_a_line_with_its_figures(tmp_path: Path) -> None:
    clock = VirtualClock()
    at_work = process(tmp_path / "l.db", Scripted(run=numbered()), clock=clock, jobs=5, name="night")
    async with at_work as found:
        await found.begin()
        await found.wait(lambda: found.progress.count("outstanding") == 5)
        async with dashboard(tmp_path / "l.db", clock=clock) as site:
            page = await site.json("/")
            text = (await site.get("/")).text
    [line] = page["runs"]
    assert (line["name"], line["run"], line["total"], line["done"]) == ("night", 1, 5, 0)
    assert "0 % of 5" in text


async def test_a_run_whose_breaker_has_tripped_needs_somebody_with_since_when(tmp_path: Path) -> None:
    clock, path = VirtualClock(), empty_ledger(tmp_path / "l.db")
    failing = Scripted(run=numbered(), status=lambda asked: says("FAILED", asked.remote_id, error="boom"))
    settings = RunSettings(max_attempts=1)
    with dispatcher_lock(path, now=clock.now(), doing="serve"):
        at_work = process(
            path, failing, clock=clock, jobs=80, settings=settings, breaker=BreakerRules(), sample_every_s=10
        )
        async with at_work as found:
            await found.begin()
            await found.wait(lambda: found.progress.count("failed") >= 20)
            await anyio.sleep(120)
            async with dashboard(path, clock=clock) as site:
                [need] = (await site.json("/"))["needs"]
                shown = await site.get("/")
                assert 'action="/runs/1/release"' in (await site.get("/runs/1")).html
    assert (need["kind"], need["name"], need["path"]) == ("breaker", "run", "/runs/1")
    assert "boom" in need["cause"]
    assert need["since"] is not None
    assert need["since"] < clock.now()
    assert "1 thing needs you" in shown.text


async def test_what_a_budget_holds_is_cured_by_another_budget_and_not_by_going_on(tmp_path: Path) -> None:
    clock, path = VirtualClock(), empty_ledger(tmp_path / "l.db")
    paid = Scripted(run=numbered(), status=lambda asked: says("COMPLETED", asked.remote_id, executionTime=3_000))
    settings = RunSettings(price_per_second=0.01, budget=0.05)
    with dispatcher_lock(path, now=clock.now(), doing="serve"):
        async with process(path, paid, clock=clock, jobs=80, settings=settings) as found:
            await found.begin()
            await found.wait(lambda: found.progress.count("succeeded") >= 2)
            await anyio.sleep(60)
            async with dashboard(path, clock=clock) as site:
                [need] = (await site.json("/"))["needs"]
                page = await site.get("/runs/1")
    assert (need["kind"], need["cure_path"]) == ("held", "/runs/1/brakes")
    assert "budget" in need["cause"]
    assert 'action="/runs/1/brakes"' in page.html
    assert 'action="/runs/1/release"' not in page.html


async def test_what_is_asked_of_a_run_that_is_over_needs_somebody_who_works(tmp_path: Path) -> None:
    """All of its jobs have ended: without the command nothing would be left to do."""
    path, clock = tmp_path / "l.db", VirtualClock()
    async with opened(path, clock=clock) as ledger:
        run = await failed_run(ledger)
        await brought_to(ledger, State.SUCCEEDED, ledger.now(), job=4)
    await anyio.sleep(10)
    async with dashboard(path, clock=clock) as site:
        assert (await site.json("/"))["needs"] == []
        done = await confirmed(site, f"/runs/{run.id}/retry", {"back": "/"})
        [need] = (await site.json("/"))["needs"]
        page = await site.get(done.headers["location"])
    assert (need["kind"], need["name"], need["path"]) == ("nobody", "night", f"/runs/{run.id}")
    command = f"orchestrator resume --ledger {path} night"
    assert need["advice"].startswith("orchestrator resume night")
    told = "retry, run night: waiting : it is carried out by the next process that works on this ledger: "
    assert told + command in page.text
