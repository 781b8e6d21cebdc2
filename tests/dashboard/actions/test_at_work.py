"""Actions from their page to what comes of them, while an engine works on the ledger, or once one does."""

import json
from pathlib import Path

import anyio
import pytest

from orchestrator.api.python.pipeline import Pipeline, Schedule, Stage
from orchestrator.emulator.jobs.jobs import WorkerResult as Answer
from orchestrator.ledger.actions.asker import ActionWay
from tests.api.desk import desk, numbers
from tests.dashboard.actions.forms import actions_in, confirmed, fields_of
from tests.dashboard.harness import dashboard
from tests.simulation.world import ENDPOINT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def test_a_kind_is_tried_again_from_its_page_and_what_came_of_it_is_told(tmp_path: Path) -> None:
    is_mended = False

    def work(raw: bytes, _number: int) -> Answer:
        return Answer(output=raw) if is_mended or json.loads(raw)["n"] > 2 else Answer(error="CUDA out of memory")

    async with desk(tmp_path, work=work) as d, d.orchestrator() as orc, dashboard(d.ledger, clock=d.clock) as site:
        run = await orc.submit(numbers(5), endpoint=ENDPOINT, name="night", max_attempts=1)
        await run.wait()
        is_mended = True
        await anyio.sleep(10)
        page = await site.post("/runs/1/retry", {"cluster": "1", "back": "/actions"})
        assert "3 jobs" in page.text
        assert "CUDA out of memory" in page.text
        assert "Nobody works" not in page.text
        done = await site.post("/runs/1/retry", fields_of(page) | {"max-attempts": "2", "execution-timeout": "30m"})
        assert done.headers["location"] == "/actions?did=1"
        await run.wait()
        assert run.counts["succeeded"] == 5
        action = await site.json("/actions/1")
        assert (action["state"], action["asked"], action["done"], action["left"]) == ("done", 3, 3, 0)
        assert action["options"] == {"execution timeout": "1800 s", "max attempts": "2"}
        assert "3 failed jobs are queued again" in (await site.get("/actions?did=1")).text
        await run.pause()
        await anyio.sleep(3)
        assert (await site.json("/actions"))["actions"][0]["way"] == "python"


@pytest.mark.slow
async def test_a_kind_is_given_up_from_its_page_once_however_often_it_is_confirmed(tmp_path: Path) -> None:
    def work(raw: bytes, _number: int) -> Answer:
        return Answer(error="CUDA out of memory" if json.loads(raw)["n"] <= 2 else "no such file")

    async with (
        desk(tmp_path, work=work, workers=9) as d,
        d.orchestrator() as orc,
        dashboard(d.ledger, clock=d.clock) as site,
    ):
        run = await orc.submit(numbers(5), endpoint=ENDPOINT, name="night", max_attempts=99, breaker="off")
        await anyio.sleep(20)
        kinds = {each["kind"]["sample"]: each for each in (await site.json("/runs/1/failures"))["kinds"]}
        kind = kinds["CUDA out of memory"]
        assert kind["cancel_command"].startswith("orchestrator jobs cancel night --where ")
        assert kind["where_retried"] in kind["cancel_command"]
        assert "Cancel those not finished …" in (await site.get("/runs/1/failures")).text

        page = await site.post("/runs/1/cancel-jobs", {"where": kind["where_retried"], "back": "/runs"})
        assert "Cancel 3 jobs" in page.text
        assert "Of each an execution failed in the same way" in page.text
        assert "What a worker has done by then is paid." in page.text
        for _ in range(2):
            done = await site.post("/runs/1/cancel-jobs", fields_of(page))
            assert done.headers["location"] == "/runs?did=1"
        await anyio.sleep(60)
        assert (run.counts["cancelled"], run.counts["failed"]) == (3, 0)
        [action] = (await site.json("/actions"))["actions"]
        assert (action["state"], action["asked"], action["done"]) == ("done", 3, 3)
        await run.cancel()


@pytest.mark.slow
async def test_a_run_is_paused_changed_and_cancelled_while_it_goes_on(tmp_path: Path) -> None:
    async with (
        desk(tmp_path, seconds=lambda _: 30.0, workers=2) as d,
        d.orchestrator() as orc,
        dashboard(d.ledger, clock=d.clock) as site,
    ):
        run = await orc.submit(numbers(40), endpoint=ENDPOINT, name="night", max_attempts=1)
        await anyio.sleep(20)
        for path, given in (
            ("/runs/1/pause", {}),
            ("/runs/1/priority", {"priority": "5"}),
            ("/runs/1/brakes", {"max-failures": "7"}),
            ("/runs/1/limits", {"run": "50/10"}),
            ("/endpoints/1/reset-limits", {}),
            ("/runs/1/release", {}),
            ("/runs/1/continue", {}),
            ("/runs/1/cancel-jobs", {"where": "line>30"}),
            ("/runs/1/cancel", {"typed": "night"}),
        ):
            asked = {"where": given["where"]} if "where" in given else {}
            page = await site.post(path, asked)
            assert page.status == 200, page.text
            done = await site.post(path, fields_of(page) | given)
            assert done.status == 303, (path, done.text)
            await anyio.sleep(2)
        await run.wait()
        actions = (await site.json("/actions"))["actions"][::-1]
        told = [(each["verb"], each["state"]) for each in actions]
        assert told == [
            ("pause", "done"),
            ("priority", "done"),
            ("brakes", "done"),
            ("limits-set", "done"),
            ("limits-reset", "done"),
            ("continue", "done"),
            ("continue", "done"),
            ("cancel-jobs", "done"),
            ("cancel", "done"),
        ]
        assert (actions[7]["where"], actions[7]["asked"], actions[7]["done"]) == ("line>30", 10, 10)
        assert {each["asked_by"] for each in actions} == {"ana"}
        assert (actions[1]["options"], actions[2]["options"]) == ({"priority": "5"}, {"max-failures": "7"})
        assert run.counts["cancelled"] > 10


async def test_what_nobody_does_now_is_done_once_by_whoever_works_next(tmp_path: Path) -> None:
    is_mended = False

    def work(raw: bytes, _number: int) -> Answer:
        return Answer(output=raw) if is_mended else Answer(error="bad")

    async with desk(tmp_path, work=work) as d:
        async with d.orchestrator() as orc:
            await (await orc.submit(numbers(2), endpoint=ENDPOINT, name="night", max_attempts=1)).wait()
        await anyio.sleep(10)
        async with dashboard(d.ledger, clock=d.clock) as site:
            page = await site.post("/runs/1/retry")
            assert "It is kept, and done by the next process that does: orchestrator resume" in page.text
            done = [await site.post("/runs/1/retry", fields_of(page)) for _ in range(2)]
            assert [each.headers["location"] for each in done] == ["/runs/1?did=1"] * 2
            assert (await site.json("/actions/1"))["state"] == "waiting"
            is_mended = True
            async with d.orchestrator() as orc:
                run = await orc.run("night")
                await run.wait()
                assert (run.counts["succeeded"], run.counts["failed"]) == (2, 0)
            await anyio.sleep(3)
            assert (await site.json("/actions/1"))["outcome"].startswith("2 failed jobs are queued again")


@pytest.mark.slow
async def test_flows_and_schedules_are_asked_from_their_pages(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"input": {"n": 1}}\n{"input": {"n": 2}}\n')
    is_mended = False

    def work(raw: bytes, _number: int) -> Answer:
        return Answer(output=raw) if is_mended or json.loads(raw)["n"] > 1 else Answer(error="bad")

    stage = Stage("caption", endpoint=ENDPOINT, max_attempts=1)
    pipeline = Pipeline("p", folder=tmp_path, input="in.jsonl", schedule=Schedule(every="1h"), stages=[stage])
    async with desk(tmp_path, work=work) as d, d.orchestrator() as orc, dashboard(d.ledger, clock=d.clock) as site:
        await orc.apply(pipeline)
        assert (await confirmed(site, "/pipelines/1/fire", at="2026-01-01T00:00:00")).status == 303
        flow = await orc.flow("p@20260101T000000Z")
        with anyio.fail_after(600):
            assert await flow.wait() == "partial"
        page = await site.post("/flows/1/rerun")
        assert "1 row without a result, counted now" in page.text
        assert fields_of(page)["rows"] == "failed", "nobody pays again for what has succeeded by not looking"
        other = fields_of(page) | {"rows": "all"}
        assert (await site.post("/flows/1/rerun", other)).status == 409, "all of its rows are another matter"
        is_mended = True
        assert (await site.post("/flows/1/rerun", fields_of(page))).status == 303
        again = await orc.flow("p@20260101T000000Z")
        assert await again.wait() == "succeeded"
        late = await confirmed(site, "/flows/1/pause")
        assert "it had ended, and is succeeded" in (await site.get(late.headers["location"])).text

        shown = await site.post("/pipelines/1/backfill", {"from": "2025-12-31T00:00", "to": "2025-12-31T03:00"})
        assert "4 flows, counted now" in shown.text
        changed = fields_of(shown) | {"to": "2025-12-31T05:00"}
        assert (await site.post("/pipelines/1/backfill", changed)).status == 409
        assert (await site.post("/pipelines/1/backfill", fields_of(shown))).status == 303
        assert (await confirmed(site, "/pipelines/1/pause")).status == 409
        assert (await confirmed(site, "/pipelines/1/pause", note="stocktaking")).status == 303
        twice = await confirmed(site, "/pipelines/1/pause", note="again")
        assert "p is paused already: stocktaking" in (await site.get(twice.headers["location"])).text
        assert (await confirmed(site, "/pipelines/1/continue")).status == 303
        actions = [(row.verb, row.way, row.is_refused) for row in await actions_in(d.ledger, d.clock)]
        assert actions == [
            ("apply", ActionWay.PYTHON, False),
            ("fire", ActionWay.PAGE, False),
            ("rerun", ActionWay.PAGE, False),
            ("pause", ActionWay.PAGE, False),
            ("backfill", ActionWay.PAGE, False),
            ("schedule-pause", ActionWay.PAGE, False),
            ("schedule-pause", ActionWay.PAGE, True),
            ("schedule-continue", ActionWay.PAGE, False),
        ]
        assert (await site.json("/actions/5"))["done"] == 4
