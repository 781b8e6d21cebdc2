"""The pages of endpoints and of the engine, beside a process at work and once it is dead."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from orchestrator.core.batch_api.posted_batch import PostedState
from orchestrator.core.gates.scaling_override import Bounds, ScalingOverride
from orchestrator.core.limits.rate_pacer import Limit, Operation
from orchestrator.ledger import dispatcher_lock
from orchestrator.ledger.actions.asker import ActionWay, Asker
from orchestrator.ledger.commands.command_types import Action, NewLimits
from orchestrator.ledger.samples.samples import ProcessTotals
from orchestrator.ledger.transactions.transaction import Transaction
from orchestrator.settings.run_settings import RunSettings
from orchestrator.units import HOUR_US
from tests.core.batch_api.test_posted_batch import BATCH
from tests.dashboard.harness import Dashboard, dashboard
from tests.dashboard.nights import HOSTILE, clock_at
from tests.engine.process import Process, process
from tests.engine.rows import empty_ledger
from tests.engine.scripted import Asked, Reply, Scripted, numbered, says
from tests.ledger.ledgers import opened
from tests.simulation.clock import VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

QUICK = 3
HEALTH = Reply(body=b'{"jobs":{"inQueue":0,"inProgress":2},"workers":{"running":2,"idle":1,"throttled":0}}')


def _status(asked: Asked) -> Reply:
    """The first jobs end, the others stay."""
    if int(asked.remote_id.removeprefix("r-")) <= QUICK:
        return says("COMPLETED", asked.remote_id, output=1, delayTime=2_000, executionTime=3_000)
    return says("IN_PROGRESS", asked.remote_id)


@asynccontextmanager
async def at_work(folder: Path, name: str = "night") -> AsyncIterator[tuple[Process, Dashboard]]:
    """A process that has worked for three minutes, and a dashboard beside it."""
    clock, path = VirtualClock(), folder / "l.db"
    settings = RunSettings(price_per_second=0.01, budget_per_day=5.0, priority=2)
    service = Scripted(run=numbered(), status=_status, health=HEALTH)
    empty_ledger(path)
    with dispatcher_lock(path, now=clock.now(), doing="serve"):
        async with process(
            path, service, clock=clock, jobs=5, name=name, settings=settings, sample_every_s=10
        ) as found:
            await found.begin()
            await found.wait(lambda: found.progress.count("succeeded") == QUICK)
            await anyio.sleep(180)
            async with dashboard(path, clock=clock) as site:
                yield found, site


async def test_an_endpoint_has_its_limits_its_runs_and_what_was_spent_today(tmp_path: Path) -> None:
    async with at_work(tmp_path) as (_, site):
        page = await site.json("/endpoints/1")
        shown, listed = await site.get("/endpoints/1"), await site.get("/endpoints")
    line = page["line"]
    operations = {each["operation"]: each for each in line["operations"]}
    assert operations["run"]["base"] == "run=1000/10:200"
    assert (operations["run"]["used"], operations["run"]["throttled"], operations["run"]["set_by"]) == (0, 0, None)
    assert operations["run"]["allowed"] == 1_000
    assert line["runs"] == [{"run": 1, "name": "night", "queued": 0, "at_service": 2, "share": 1.0, "priority": 2}]
    assert page["spent_today"] == pytest.approx(QUICK * 3 * 0.01)
    assert (page["budget_per_day"], page["budget_run"]) == (5.0, "night")
    assert line["safe_until"] is not None
    assert "0.090 of 5.00 a day, by night" in shown.text
    for path in ("/endpoints/1/limits", "/endpoints/1/reset-limits"):
        assert f'action="{path}"' in shown.html
    assert 'href="/endpoints/1"' in listed.html
    assert "night 100 %" in listed.text


async def test_its_charts_come_from_samples(tmp_path: Path) -> None:
    async with at_work(tmp_path) as (_, site):
        page = await site.json("/endpoints/1?span=10m")
        html = (await site.get("/endpoints/1?span=10m")).html
    sent = next(series for series in page["rates"] if series["name"] == "/status")
    assert any(value for _, value in sent["points"])
    assert [series["name"] for series in page["execution"]] == ["half are shorter", "95 % are shorter"]
    assert page["until"] - page["since"] == HOUR_US // 6
    assert "<svg" in html
    assert 'aria-current="true">10m' in html


async def test_a_limit_that_was_set_says_by_whom_and_when(tmp_path: Path) -> None:
    async with at_work(tmp_path) as (found, site):
        set_at, asker = found.ledger.now(), Asker(way=ActionWay.COMMAND, by="root on vm")
        number = await found.ledger.commands.ask(
            Action.LIMITS_SET, endpoint=1, argument=NewLimits({Operation.RUN: Limit(500, 10.0)}), asked=asker
        )
        await found.ledger.commands.change_ledger(await found.ledger.commands.one(number))
        await anyio.sleep(60)
        page = await site.json("/endpoints/1")
        text = (await site.get("/endpoints/1")).text
    run = next(each for each in page["line"]["operations"] if each["operation"] == "run")
    assert (run["limit"], run["base"]) == ("run=500/10", "run=1000/10:200")
    assert run["set_at"] >= set_at
    assert run["set_by"] == "root on vm"
    assert "500/10 root on vm," in text


async def test_bounds_of_workers_that_were_raised_are_told_until_they_are_put_back(tmp_path: Path) -> None:
    async with at_work(tmp_path) as (found, site):
        loan = ScalingOverride(before=Bounds(0, 3), raised=Bounds(2, 9))
        await found.ledger.runs.scaling_overrides.write(1, "http://rest", loan)
        page = await site.json("/endpoints/1")
        text = (await site.get("/endpoints/1")).text
    raised = page["line"]["raised"]
    assert f"raised to {raised['raised']} from {raised['before']}" in text


async def test_unknown_endpoints_and_spans_are_refused_with_what_there_is(tmp_path: Path) -> None:
    async with at_work(tmp_path) as (_, site):
        lost = await site.get("/endpoints/7")
        wrong = await site.get("/endpoints/1?span=<b>")
        engine = await site.get("/engine?span=x")
    assert lost.status == 404
    assert 'href="/endpoints/1"' in lost.html
    assert (wrong.status, engine.status) == (400, 400)
    assert "10m, 1h, 6h" in wrong.text
    assert "<b>" not in wrong.html


async def test_the_engine_says_who_works_and_how_it_stands(tmp_path: Path) -> None:
    async with at_work(tmp_path) as (_, site):
        page = await site.json("/engine?span=10m")
        text = (await site.get("/engine?span=10m")).text
    [process_] = page["at_work"]
    assert page["held_by"] is not None
    assert (process_["is_silent"], page["begins"], page["last_process"]) == (False, 1, None)
    assert page["sampled_at"] is not None
    assert page["cpu_share"] >= 0
    assert page["commit_p99_s"] >= page["commit_p50_s"] >= 0
    assert page["janitor"]["failing"] == []
    assert page["file_bytes"] > 0
    assert page["disk_free_bytes"] > 0
    assert (page["webhooks_received"], page["webhooks_refused"], page["webhook_url"]) == (0, 0, None)
    assert len(page["memory"][0]["points"]) > 10
    assert "works on this ledger" in text
    assert "Count the rows of each table" in text


async def test_the_engine_says_how_the_batch_api_stands_where_there_is_one(tmp_path: Path) -> None:
    async with at_work(tmp_path) as (found, site):
        assert "Batch API" not in (await site.get("/engine?span=6h")).text
        posted = found.ledger.runs.posted
        await posted.files.bound(2_000_000)
        await posted.batches.add(BATCH)
        await posted.batches.add(replace(BATCH, id="batch_2"))
        await posted.batches.finish(BATCH, PostedState.EXPIRED, files=[], completed=40, failed=2)
        page = await site.json("/engine")
        text = (await site.get("/engine")).text
    assert page["batch_api"]["ended"]["expired"] == page["batch_api"]["under_way"]["validating"] == 1
    assert "1 validating" in text
    assert "1 expired" in text
    assert "40 completed, 2 failed" in text


async def test_rows_are_counted_where_that_is_asked_for_alone(tmp_path: Path) -> None:
    async with at_work(tmp_path) as (_, site):
        assert (await site.json("/engine"))["rows"] is None
        counted = await site.json("/engine?count=rows")
    assert (counted["rows"]["jobs"], counted["rows"]["runs"], counted["rows_problem"]) == (5, 1, None)


async def test_a_dead_engine_is_told_with_what_it_said_last_and_no_figures_of_the_present(tmp_path: Path) -> None:
    async with at_work(tmp_path) as (found, _):
        ended_at = found.ledger.now()
    async with dashboard(tmp_path / "l.db", clock=clock_at(ended_at + HOUR_US)) as site:
        page = await site.json("/engine")
        text = (await site.get("/engine")).text
        endpoint = (await site.json("/endpoints/1"))["line"]
    assert (page["held_by"], page["at_work"]) == (None, [])
    assert page["last_process"] is not None
    assert "Nobody works on this ledger since" in text
    assert all(each["used"] is None for each in endpoint["operations"])
    assert endpoint["safe_until"] is None


async def test_a_silent_engine_is_told_from_one_that_works(tmp_path: Path) -> None:
    """It holds the ledger, and has said nothing for minutes: it was stopped, or cannot write."""
    async with at_work(tmp_path) as (found, _):
        later = clock_at(found.ledger.now() + HOUR_US)
        async with dashboard(tmp_path / "l.db", clock=later) as site:
            page = await site.json("/engine")
            text = (await site.get("/engine")).text
    assert [each["is_silent"] for each in page["at_work"]] == [True]
    assert "has said nothing of late" in text


async def test_a_clock_that_was_set_back_is_told(tmp_path: Path) -> None:
    async with at_work(tmp_path) as (found, _):
        now = found.ledger.now()
        async with dashboard(tmp_path / "l.db", clock=clock_at(now - 2 * HOUR_US)) as site:
            page = await site.json("/engine")
            shown = await site.get("/engine")
            assert (await site.get("/endpoints/1")).status == 200
    assert page["clock_ahead_us"] > HOUR_US
    assert "in the future" in shown.text


async def test_an_empty_ledger_has_no_endpoints_and_nobody(tmp_path: Path) -> None:
    async with dashboard(empty_ledger(tmp_path / "l.db")) as site:
        assert "No run has named an endpoint yet." in (await site.get("/endpoints")).text
        assert "Nobody has worked on this ledger yet." in (await site.get("/engine")).text
        assert (await site.json("/engine"))["last_process"] is None


async def test_names_that_are_hostile_are_texts(tmp_path: Path) -> None:
    async with at_work(tmp_path, HOSTILE) as (_, site):
        for path in ("/endpoints", "/endpoints/1", "/"):
            html = (await site.get(path)).html
            assert "<b>bold</b>" not in html
            assert "\u202e" not in html
            assert "&lt;b&gt;bold&lt;/b&gt;" in html


async def test_parts_are_refreshed_by_themselves(tmp_path: Path) -> None:
    async with at_work(tmp_path) as (_, site):
        for address, part in (("/endpoints", "endpoints"), ("/endpoints/1", "charts"), ("/engine", "standing")):
            answer: Any = await site.get(f"{address}?live={part}")
            assert f'<section data-live="{part}">' in answer.html
            assert "<main" not in answer.html


async def test_webhooks_are_told_apart_by_what_became_of_them(tmp_path: Path) -> None:
    clock = VirtualClock()
    async with opened(empty_ledger(tmp_path / "l.db"), clock=clock) as ledger:
        stood = ProcessTotals(webhooks={"received": 70, "hints": 2, "unavailable": 1, "refused": 4})

        async def written(transaction: Transaction) -> None:
            await ledger.samples.processes.write(transaction, 10, clock.now(), {0: stood})

        await ledger.writer.run(written)
    async with dashboard(tmp_path / "l.db", clock=clock) as site:
        page = await site.json("/engine")
        text = (await site.get("/engine")).text
    assert (page["webhooks_received"], page["webhooks_unusable"], page["webhooks_refused"]) == (70, 3, 4)
    assert "70, of which 3 had nothing usable; 4 refused" in text
