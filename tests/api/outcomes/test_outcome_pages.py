"""The small parts: bodies, endpoint, intake, export, progress, and the shape of a poller."""

from pathlib import Path

import anyio
import msgspec
import pytest

from orchestrator.api.outcomes.outcome_pages import PAGE_JOBS
from orchestrator.core.jobs.job import Job
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.service.http_answers import Pointless
from orchestrator.core.service.webhook_token import token
from orchestrator.core.text.durations import Policy
from orchestrator.engine.intake.intake import InputBatch, Intake
from orchestrator.engine.lanes.request_builder import RequestBuilder
from orchestrator.engine.runtime.poll_loop import POLL_S_MAX, Wakeup, keep_polling
from orchestrator.engine.runtime.progress import Progress
from orchestrator.engine.runtime.retry_budget import RetryBudgets
from orchestrator.errors import PROBLEMS_SHOWN_MAX, InputError
from orchestrator.formats.input.rows import RowProblem
from orchestrator.ledger import Claim
from orchestrator.ledger.jobs.payloads import Payload
from orchestrator.ledger.runs.input_rows import packed_rows
from orchestrator.settings.run_settings import RunSettings
from orchestrator.units import SECOND_US
from tests.engine.process import KEY, process
from tests.engine.rows import rows, variables
from tests.engine.scripted import COMPLETED, FAILED, Scripted, numbered
from tests.simulation.clock import VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

JOB = Job(id=1, run=1, endpoint=1, state=State.SUBMITTING, submission=77)


def claim(input_: bytes = b'{"a": 1}', policy: bytes | None = None, s3_config: bytes | None = None) -> Claim:
    return Claim(JOB, Payload(input_, policy, s3_config))


# --- bodies


def test_the_input_is_spliced_in_byte_by_byte() -> None:
    odd = b'{"n": 12345678901234567890123, "f": 1.0e+2,  "n": "\\u00e9"}'
    assert RequestBuilder(RunSettings, variables({}), None).body(claim(odd)) == b'{"input":' + odd + b"}"


def test_policies_are_merged_and_the_row_wins() -> None:
    settings = RunSettings(policy=Policy(ttl_ms=60_000, low_priority=True))
    bodies = RequestBuilder(lambda: settings, variables({}), None)
    body = msgspec.json.decode(bodies.body(claim(policy=b'{"ttl":30000}')))
    assert body["policy"] == {"ttl": 30_000, "lowPriority": True}
    assert bodies.ttl_us(claim(policy=b'{"ttl":30000}').payload) == 30 * SECOND_US
    assert bodies.ttl_us(claim().payload) == 60 * SECOND_US
    assert RequestBuilder(RunSettings, variables({}), None).ttl_us(claim().payload) == 86_400 * SECOND_US


def test_a_changed_policy_applies_from_the_next_body() -> None:
    current = RunSettings()
    bodies = RequestBuilder(lambda: current, variables({}), None)
    assert b"policy" not in bodies.body(claim())
    current = RunSettings(policy=Policy(execution_timeout_ms=5_000))
    assert b'"policy":{"executionTimeout":5000}' in bodies.body(claim())


def test_secrets_are_looked_up_at_the_last_moment_and_a_missing_one_is_named_but_not_shown() -> None:
    references = b'{"accessId":"env:WHO","accessSecret":"env:SECRET","bucketName":"b"}'
    environ = {"WHO": "me", "SECRET": "hush"}
    bodies = RequestBuilder(lambda: RunSettings(allow_env=("WHO", "SECRET")), variables(environ), None)
    body = msgspec.json.decode(bodies.body(claim(s3_config=references)))
    assert body["s3Config"] == {"accessId": "me", "accessSecret": "hush", "bucketName": "b"}
    del environ["SECRET"]
    with pytest.raises(ValueError, match="SECRET"):
        bodies.body(claim(s3_config=references))


def test_the_webhook_carries_the_token_of_the_submission() -> None:
    body = msgspec.json.decode(RequestBuilder(RunSettings, variables({}), (KEY, "https://h/x")).body(claim()))
    assert body["webhook"] == f"https://h/x/hooks/{token(KEY, 77)}"


# --- endpoint


async def test_an_endpoint_tells_of_a_change_once_and_keeps_the_first_reason(tmp_path: Path) -> None:
    async with process(tmp_path / "db", Scripted()) as p:
        rings: list[int] = []
        p.endpoint.changes.add(lambda: rings.append(1))
        p.endpoint.health.stop_submitting(Pointless("first", 401))
        p.endpoint.health.stop_submitting(Pointless("second", 401))
        assert (p.endpoint.health.stopped, len(rings)) == ("first", 1)
        p.endpoint.health.stop_collecting(Pointless("third", 401))
        p.endpoint.health.stop_collecting(Pointless("fourth", 401))
        assert (p.endpoint.health.stopped, p.endpoint.health.uncollectable, len(rings)) == ("first", "third", 2)


async def test_an_endpoint_stays_suspect_for_a_minute_and_warns_once(tmp_path: Path) -> None:
    async with process(tmp_path / "db", Scripted()) as p:
        for _ in range(3):
            p.endpoint.health.suspect(p.clock.now())
            await anyio.sleep(30)
        assert len(p.warnings) == 1
        await anyio.sleep(30)
        assert not p.endpoint.health.is_suspect(p.clock.now())


async def test_an_endpoint_warns_of_a_bad_beginning_once_and_stops_after_so_many_failures(tmp_path: Path) -> None:
    settings = RunSettings(stop_after_failures=30)
    async with process(tmp_path / "db", Scripted(), settings=settings) as p:
        for _ in range(29):
            p.endpoint.runs.observe_failure(p.run.id, "CUDA out of memory" + "!" * 1_000)
        assert len(p.warnings) == 1
        assert p.warnings[0].startswith("20 of the first 20 executions failed, the last one with: CUDA out of memory!")
        assert len(p.warnings[0]) < 500
        p.endpoint.runs.observe_success(p.run.id)
        for _ in range(29):
            p.endpoint.runs.observe_failure(p.run.id, "boom")
        reasons = [p.endpoint.why_stopped(1)]
        p.endpoint.runs.observe_failure(p.run.id, "boom")
        reasons.append(p.endpoint.why_stopped(1))
        assert reasons == [None, "30 executions in a row failed, the last one with: boom"]
        assert len(p.warnings) == 1


# --- intake


async def test_all_bad_lines_are_reported_and_nothing_is_taken(tmp_path: Path) -> None:
    async with process(tmp_path / "db", Scripted(), jobs=3) as p:
        twice = msgspec.structs.replace(rows(4)[3], custom_id="job-1")
        problems = [RowProblem(line=n, text=f"bad {n}") for n in range(5, 30)]
        batches = iter([InputBatch([*rows(3), twice], []), InputBatch([], problems)])
        intake = Intake(p.ledger, p.run, source="in.jsonl")
        with pytest.raises(InputError) as raised:
            await intake.take(batches, advice=lambda: "advice at the end")
        assert raised.value.total == 26
        assert len(raised.value.problems) == PROBLEMS_SHOWN_MAX
        assert raised.value.problems[0].startswith("line 4: ")
        assert str(raised.value).endswith("advice at the end")
        assert intake.rows_read == 29
        assert await p.counts() == {"queued": 3}


async def test_an_empty_input_is_an_error(tmp_path: Path) -> None:
    async with process(tmp_path / "db", Scripted()) as p:
        with pytest.raises(InputError, match="the input is empty"):
            await Intake(p.ledger, p.run, source="-").take(iter([]), advice=lambda: "")


async def test_rows_that_are_new_join_the_run_and_jobs_of_an_unfinished_intake_cannot_be_sent(tmp_path: Path) -> None:
    transport = Scripted(run=numbered(), status=COMPLETED)
    async with process(tmp_path / "db", transport, jobs=1) as p:
        await p.begin()
        unfinished = await p.ledger.runs.intakes.start(p.run)
        await p.ledger.runs.intakes.add(unfinished, packed_rows(rows(3)))
        await p.finish()
        await anyio.sleep(30)
        assert len(transport.of("run")) == 1
        await p.ledger.runs.intakes.clear(p.run.name)
        taken = await Intake(p.ledger, p.run, source="x").take(iter([InputBatch(rows(3), [])]), advice=lambda: "")
        assert (taken.rows, taken.new, taken.gone) == (3, 2, 0)


# --- export


@pytest.mark.slow
async def test_outcomes_come_in_input_order_page_by_page(tmp_path: Path) -> None:
    jobs = PAGE_JOBS + 3
    async with process(tmp_path / "db", Scripted(run=numbered(), status=COMPLETED), jobs=jobs) as p:
        await p.begin()
        await p.finish()
        assert [result.line for result in await p.results()] == list(range(1, jobs + 1))
        assert await p.failures() == []


# --- progress


async def test_rates_are_of_the_latest_twenty_seconds(tmp_path: Path) -> None:
    transport = Scripted(run=numbered(), status=COMPLETED)
    async with process(tmp_path / "db", transport, jobs=100) as p:
        assert (p.progress.jobs_per_s(), p.progress.eta_s()) == (None, None)
        await p.begin()
        await p.until(State.SUCCEEDED, 50)
        assert p.progress.unfinished == p.progress.counts["outstanding"] + p.progress.counts[
            "queued"
        ] + p.progress.count("submitting")
        assert (p.progress.eta_s() or 0) > 0
        assert p.progress.at_service > 0
        await p.finish()
        rate = p.progress.jobs_per_s()
        assert rate is not None
        assert 30 < rate < 100
        await anyio.sleep(30)
        assert p.progress.jobs_per_s() is None


async def test_what_had_ended_before_is_no_speed() -> None:
    clock = VirtualClock()
    progress = Progress(1, {}, margin_min_s=None, clock=clock)
    progress.recount({"succeeded": 250, "outstanding": 50})
    await anyio.sleep(2)
    assert (progress.jobs_per_s(), progress.eta_s()) == (None, None)
    progress.recount({"succeeded": 260, "outstanding": 40})
    assert (progress.jobs_per_s(), progress.eta_s()) == (5, 8)


def test_what_was_granted_counts_against_the_budget_before_it_is_written() -> None:
    retries = RetryBudgets({1: RunSettings(retry_budget=200_000)})
    progress = Progress(1, {"outstanding": 10, "retried_executions": 1}, margin_min_s=None, clock=VirtualClock())
    retries.progress[1] = progress

    assert retries.why_spent(1, FailureClass.FAILED) is None
    assert retries.why_spent(1, FailureClass.FAILED) == "the retry budget of the run is spent (20% of 10 jobs: 2)"


async def test_progress_counts_what_the_ledger_counts_and_only_its_run(tmp_path: Path) -> None:
    async with process(tmp_path / "db", Scripted(run=numbered(), status=FAILED), jobs=5) as p:
        other = Progress(p.run.id + 1, {}, margin_min_s=None, clock=VirtualClock())
        p.ledger.writer.subscribe(other.on_steps)
        await p.begin()
        await p.finish()
        counted = await p.ledger.runs.counts(run=p.run.id)
        assert {name: p.progress.count(name) for name in counted} == counted
        assert not any(other.counts.values())


# --- loop


async def test_a_poller_sleeps_as_long_as_it_said_and_no_longer_than_the_most() -> None:
    polled: list[float] = []
    pauses = iter([0.5, 2.0, 1_000.0, 0.0])
    wakeup = Wakeup()

    async def poll() -> float:
        polled.append(anyio.current_time())
        return next(pauses, 1.0)

    with anyio.move_on_after(10):
        await keep_polling(poll, wakeup)
    assert polled[:5] == pytest.approx([0, 0.5, 2.5, 2.5 + POLL_S_MAX, 2.5 + POLL_S_MAX])


async def test_a_bell_cuts_the_sleep_short_and_a_ring_while_nobody_waits_is_kept() -> None:
    wakeup = Wakeup()
    wakeup.wake()
    await wakeup.wait(3)
    assert anyio.current_time() == 0
    async with anyio.create_task_group() as group:
        group.start_soon(wakeup.wait, 3)
        await anyio.sleep(1)
        wakeup.wake()
    assert anyio.current_time() == 1
