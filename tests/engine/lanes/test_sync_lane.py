"""Jobs that go to `/runsync`: the answer is held, and is the result, or says that the job goes on."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.lanes.sync_requests import WHAT_A_CRASH_LOSES
from orchestrator.core.lanes.via import Via
from orchestrator.core.limits.rate_pacer import Limit, Operation
from orchestrator.core.text.durations import Policy
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.words_and_defaults import OnExpired, OnUncertain
from tests.engine.collecting.test_validation_pool import schema
from tests.engine.collecting.test_webhook_inbox import submission_of, tell
from tests.engine.process import process
from tests.engine.scripted import COMPLETED, CUT, GONE, IN_PROGRESS, Asked, Reply, Scripted, in_turn, numbered, says
from tests.factories import S

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

SYNC = RunSettings(via=Via.SYNC)
BOTH = RunSettings(via=Via.BOTH)


def held(status: str = "COMPLETED", after_s: float = 2.0, **fields: object) -> Reply:
    body = {"id": "r-1", "status": status, "delayTime": 10, "executionTime": 1_000, "workerId": "w", **fields}
    return Reply(body=json.dumps(body).encode(), after_s=after_s, is_of_asked=True)


DONE = held(output={"ok": 1})


async def test_the_answer_is_the_result_and_nothing_else_is_asked(tmp_path: Path) -> None:
    transport = Scripted(runsync=DONE)
    async with process(tmp_path / "db", transport, jobs=3, settings=SYNC) as p:
        await p.begin()
        await p.finish()
        assert {asked.operation for asked in transport.asked} == {"runsync"}
        assert await p.story() == ["claimed", "completed"]
        [first, *_] = await p.results()
        assert (first.output, first.remote_id, first.execution_ms) == (b'{"ok":1}', "r-1", 1_000)
        assert (first.attempts, first.paid_at_most) == (1, 1)
        assert p.endpoint.estimates.durations.whole.p50_us is not None
        assert p.warnings == [WHAT_A_CRASH_LOSES]


async def test_a_job_that_outlives_the_wait_is_asked_for_within_the_minute_that_it_is_kept(tmp_path: Path) -> None:
    def answer(asked: Asked) -> Reply:
        return COMPLETED if asked.at_s >= 1_200 else says("IN_PROGRESS")

    transport = Scripted(runsync=held("IN_PROGRESS", 90.0), status=answer)
    async with process(tmp_path / "db", transport, jobs=1, settings=SYNC) as p:
        await p.begin()
        await p.finish()
        assert await p.story() == ["claimed", "accepted", "completed"]
        times = transport.times("status")
        assert all(later - sooner <= 50 for sooner, later in zip([90.0, *times], times, strict=False))


async def test_what_finished_more_than_a_minute_before_the_return_has_expired(tmp_path: Path) -> None:
    settings = replace(SYNC, on_expired=OnExpired.FAIL)
    async with process(tmp_path / "db", Scripted(runsync=held("IN_PROGRESS", 90.0)), jobs=1, settings=settings) as p:
        await p.begin()
        await p.until(State.OUTSTANDING)
        job = await p.job()
        assert job.unfinished_at == (job.sent_at or 0) + 90 * S
        assert job.retention_us == 60 * S
        clock = p.clock
    await anyio.sleep(70)
    async with process(tmp_path / "db", Scripted(status=GONE), clock=clock, settings=settings) as p:
        await p.begin()
        await p.finish()
        [failed] = await p.failures()
        assert failed.trouble == "expired"


@pytest.mark.parametrize("status", ["FAILED", "TIMED_OUT"])
async def test_a_failure_goes_on_by_retry_as_the_ledger_has_its_id(tmp_path: Path, status: str) -> None:
    transport = Scripted(
        runsync=held(status, error="boom"),
        status=in_turn(says(status, error="boom", delayTime=10, executionTime=1_000, workerId="w"), COMPLETED),
    )
    async with process(tmp_path / "db", transport, jobs=1, settings=SYNC) as p:
        await p.begin()
        await p.finish()
        trouble = "failed" if status == "FAILED" else "timed_out"
        assert await p.story() == ["claimed", "accepted", f"retried {trouble}", "claimed", "accepted", "completed"]
        assert len(transport.of("retry")) == 1
        assert len(transport.of("runsync")) == 1
        assert transport.times("status")[0] == pytest.approx(2.0, abs=0.5)


async def test_an_answer_that_was_cut_is_adopted_by_its_webhook(tmp_path: Path) -> None:
    transport = Scripted(runsync=CUT)
    settings = replace(SYNC, on_uncertain=OnUncertain.HOLD)
    async with process(tmp_path / "db", transport, jobs=1, settings=settings, webhooks=True) as p:
        await p.begin()
        await p.until(State.UNCERTAIN)
        await tell(p, await submission_of(p), says("COMPLETED", "sync-7", output=7))
        await p.finish()
        assert await p.story() == ["claimed", "unanswered uncertain", "completed"]
        [found] = await p.results()
        assert (found.output, found.remote_id, found.paid_at_most) == (b"7", "sync-7", 1)


async def test_an_id_that_another_job_has_is_no_usable_id(tmp_path: Path) -> None:
    other = says("COMPLETED", "r-1", output=1)
    transport = Scripted(runsync=in_turn(other, other, DONE))
    async with process(tmp_path / "db", transport, jobs=2, settings=SYNC) as p:
        await p.begin()
        await p.finish()
        stories = [await p.story(1), await p.story(2)]
        assert ["claimed", "completed"] in stories
        assert ["claimed", "unanswered uncertain", "retried uncertain", "claimed", "completed"] in stories


async def test_the_id_of_an_answer_that_was_no_result_is_kept(tmp_path: Path) -> None:
    transport = Scripted(runsync=held(output=None))
    settings = replace(SYNC, output_required=True, max_attempts=2)
    async with process(tmp_path / "db", transport, jobs=1, settings=settings) as p:
        await p.begin()
        await p.finish()
        assert await p.story() == ["claimed", "retried invalid_output", "claimed", "abandoned invalid_output"]
        with closing(sqlite3.connect(tmp_path / "db")) as ledger:
            assert ledger.execute("SELECT remote_id FROM submissions").fetchall() == [("r-1",), ("r-1",)]


async def test_an_answer_that_was_cut_is_settled_as_that_of_a_run(tmp_path: Path) -> None:
    transport = Scripted(runsync=in_turn(CUT, DONE))
    async with process(tmp_path / "db", transport, jobs=1, settings=SYNC) as p:
        await p.begin()
        await p.finish()
        assert await p.story() == [
            "claimed", "unanswered uncertain", "retried uncertain", "claimed", "completed",
        ]  # fmt: skip


async def test_outputs_are_judged_as_everywhere(tmp_path: Path) -> None:
    wanted = schema(tmp_path, {"type": "object", "required": ["text"]})
    transport = Scripted(runsync=in_turn(DONE, held(output={"text": "a"})))
    async with process(tmp_path / "db", transport, jobs=1, settings=replace(SYNC, schema=wanted)) as p:
        await p.begin()
        await p.finish()
        assert await p.story() == ["claimed", "retried invalid_output", "claimed", "completed"]


async def test_a_secret_in_an_answer_is_not_kept(tmp_path: Path) -> None:
    transport = Scripted(runsync=held(output="Bearer rpa_OTHER_KEY"))
    keys = {"https://other.example": "rpa_OTHER_KEY"}
    async with process(tmp_path / "db", transport, jobs=1, settings=SYNC, keys=keys) as p:
        await p.begin()
        await p.finish()
        [found] = await p.results()
        assert found.output == b'"Bearer [the API key of https://other.example]"'
        assert found.remote_id == "r-1"


@pytest.mark.slow
async def test_by_both_lanes_each_has_its_own_limits(tmp_path: Path) -> None:
    limits = {Operation.RUN: Limit(10, 10.0, 5), Operation.RUNSYNC: Limit(20, 10.0, 8)}
    transport = Scripted(run=numbered(), runsync=DONE, status=COMPLETED)
    async with process(tmp_path / "db", transport, jobs=90, settings=BOTH, limits=limits) as p:
        began_at = p.clock.now()
        await p.begin()
        await p.finish()
        assert await p.counts() == {"succeeded": 90}
        by_run, by_sync = len(transport.of("run")), len(transport.of("runsync"))
        assert by_run + by_sync == 90, "each was sent once"
        assert by_sync > by_run > 20
        assert (p.clock.now() - began_at) / S < 45, "and not the 90 s of one lane"


@pytest.mark.slow
async def test_beside_run_no_place_is_held_for_long_jobs_and_that_is_said(tmp_path: Path) -> None:
    limits = {Operation.RUN: Limit(10, 1.0, 5), Operation.RUNSYNC: Limit(20, 1.0, 5)}  # worth it for two seconds
    slow = says("COMPLETED", output=1, delayTime=10, executionTime=5_000)
    transport = Scripted(
        run=numbered(), runsync=held("IN_PROGRESS", 2.0), status=lambda asked: slow if asked.at_s > 6 else IN_PROGRESS
    )
    async with process(tmp_path / "db", transport, jobs=200, settings=BOTH, limits=limits) as p:
        await p.begin()
        await p.finish()
        assert await p.counts() == {"succeeded": 200}
        assert max(transport.times("runsync")) < 10 < max(transport.times("run"))
        [told] = [line for line in p.warnings if "/run alone" in line]
        assert told == (
            "jobs take 5 s from their submission on, and a held answer is worth its place for 2 s: they leave by"
            " /run alone until they are faster"
        )
        assert {asked.body for asked in transport.of("runsync")} & {
            asked.body for asked in transport.of("run")
        } == set()


async def test_the_service_is_told_how_long_to_hold_and_is_waited_for_longer(tmp_path: Path) -> None:
    transport = Scripted(runsync=held("IN_QUEUE", 100.0), status=COMPLETED)
    settings = replace(SYNC, policy=Policy(execution_timeout_ms=60_000))
    async with process(tmp_path / "db", transport, jobs=1, settings=settings) as p:
        await p.begin()
        await p.finish()
        assert await p.story() == ["claimed", "accepted", "completed"]
