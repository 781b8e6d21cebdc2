"""Jobs in trouble are given more time, another endpoint or another input, within the limits and budgets of their run."""

import itertools
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from orchestrator.api.admin.limits import limits_set
from orchestrator.api.outcomes.job_detail import job_show
from orchestrator.core.jobs.escalation import FREE_MAX
from orchestrator.core.jobs.escalation_text import parse_rule
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.limits.rate_pacer import Limit, Operation
from orchestrator.core.text.durations import Policy
from orchestrator.emulator.jobs.jobs import WorkerResult as Answer
from orchestrator.errors import UsageError
from orchestrator.settings.run_settings import RunSettings
from tests.api.desk import Desk, desk, numbers
from tests.api.inspect.test_elsewhere import custom_ids, done_at
from tests.engine.process import process
from tests.engine.scripted import COMPLETED, FAILED, IN_PROGRESS, Scripted, in_turn, says
from tests.simulation.world import ENDPOINT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

BIG = "big"
TIMED_OUT = says("TIMED_OUT", error="too long", delayTime=10, executionTime=20)
MORE_TIME_THEN_BIG = "timed_out: execution-timeout*2, then endpoint big"


class Broken:
    """Fails, so many executions long; with a `word`, until it stands in the input."""

    def __init__(self, executions: int = 1_000_000, word: bytes = b"no such word") -> None:
        self._left = executions
        self._word = word

    def __call__(self, raw: bytes, _number: int) -> Answer:
        self._left -= 1
        is_good = self._left < 0 or self._word in raw
        return Answer(output=raw) if is_good else Answer(error="CUDA out of memory")


async def timeline(d: Desk, custom_id: str) -> list[tuple[str, str | None]]:
    shown = await job_show(d.ledger, "captions", custom_id)
    return [(step.event, step.settings or step.class_) for step in shown.timeline if step.event != "accepted"]


def first(executions: int, seconds: float) -> Callable[[random.Random], float]:
    """So long the first executions take; the others 5 s."""
    taken = itertools.count()
    return lambda _: seconds if next(taken) < executions else 5.0


async def submitted(d: Desk, orc: Any, jobs: int, **options: Any) -> Any:
    return await orc.submit(numbers(jobs), endpoint=ENDPOINT, name="captions", breaker="off", **options)


async def test_jobs_that_time_out_are_tried_with_more_time_and_then_at_the_other_endpoint(tmp_path: Path) -> None:
    async with desk(tmp_path, endpoints=(ENDPOINT, BIG), seconds=first(6, 15.0)) as d, d.orchestrator() as orc:
        run = await submitted(d, orc, 3, execution_timeout="6s", escalate=MORE_TIME_THEN_BIG)
        await run.wait()
        assert run.counts["succeeded"] == 3
        assert (await done_at(d, BIG), await done_at(d, ENDPOINT)) == (3, 0)
        for each in await custom_ids(run):
            assert await timeline(d, each) == [
                ("claimed", None),
                ("retried", "timed_out"),
                ("claimed", "2 times the execution timeout"),
                ("retried", "timed_out"),
                ("claimed", "2 times the execution timeout and endpoint big"),
                ("completed", None),
            ]
            shown = await job_show(d.ledger, "captions", each)
            assert [one.endpoint for one in shown.submissions] == [ENDPOINT, ENDPOINT, BIG]
            assert shown.endpoint == BIG


async def test_more_time_is_asked_for_at_the_service(tmp_path: Path) -> None:
    transport = Scripted(status=in_turn(TIMED_OUT, COMPLETED))
    settings = RunSettings(
        policy=Policy(execution_timeout_ms=6_000), escalate=(parse_rule("timed_out: execution-timeout*2"),)
    )
    async with process(tmp_path / "db", transport, settings=settings) as p:
        await p.begin()
        await p.finish()
        first, second = (json.loads(asked.body)["policy"] for asked in transport.of("run"))
        assert (first["executionTimeout"], second["executionTimeout"]) == (6_000, 12_000)
        assert not transport.of("retry")


async def test_what_left_an_endpoint_is_not_asked_for_there_any_more(tmp_path: Path) -> None:
    transport = Scripted(status=in_turn(FAILED, IN_PROGRESS))
    settings = RunSettings(escalate=(parse_rule("failed: endpoint big"),))
    async with process(tmp_path / "db", transport, settings=settings) as p:
        await p.begin()
        await p.until_event(lambda step: step.after.attempt == 2 and step.after.state is State.OUTSTANDING)
        assert p.endpoint.outstanding.plan.get(1) is None
        assert p.endpoints[(await p.job()).endpoint].outstanding.plan.get(1)


async def test_the_attempts_of_a_job_hold_across_endpoints(tmp_path: Path) -> None:
    async with desk(tmp_path, endpoints=(ENDPOINT, BIG), work=Broken()) as d, d.orchestrator() as orc:
        run = await submitted(d, orc, 2, max_attempts=2, escalate="failed: endpoint big")
        await run.wait()
        assert run.counts["failed"] == 2
        assert d.service.paid == 4


@pytest.mark.slow
async def test_the_limits_of_the_other_endpoint_hold_there(tmp_path: Path) -> None:
    async with desk(tmp_path, endpoints=(ENDPOINT, BIG), work=Broken(20)) as d, d.orchestrator() as orc:
        run = await submitted(d, orc, 20, escalate="failed: endpoint big")
        await limits_set(d.ledger, "captions", {Operation.RUN: Limit(2, 10)}, d.dependencies, endpoint=BIG)
        await anyio.sleep(40)
        assert 0 < run.counts["succeeded"] <= 10
        await run.wait()
        assert await done_at(d, BIG) >= 15


async def test_the_input_is_made_anew_and_its_other_fields_stay(tmp_path: Path) -> None:
    async with desk(tmp_path, work=Broken(word=b"short")) as d, d.orchestrator() as orc:
        rule = "failed: map prompt={{ row.prompt }}, short and map max_tokens={{ row.max_tokens // 2 }}"
        inputs = [{"custom_id": "a", "input": {"prompt": "a cat", "max_tokens": 512, "seed": 1e2}}]
        run = await orc.submit(inputs, endpoint=ENDPOINT, name="captions", escalate=rule)
        [result] = [result async for result in run.results()]
        assert json.loads(json.dumps(result.output)) == {"prompt": "a cat, short", "max_tokens": 256, "seed": 100.0}
        assert await timeline(d, "a") == [
            ("claimed", None),
            ("retried", "failed"),
            ("claimed", "another prompt and max_tokens"),
            ("completed", None),
        ]


async def test_an_input_that_cannot_be_made_fails_the_job_without_being_sent(tmp_path: Path) -> None:
    async with desk(tmp_path, work=Broken()) as d, d.orchestrator() as orc:
        run = await submitted(d, orc, 1, escalate="failed: map prompt={{ row.absent }}")
        await run.wait()
        [failed] = [result async for result in run.results()]
        assert failed.error_class == "rejected"
        assert "there is no 'absent'; this row has n" in (failed.error or "")
        assert d.service.paid == 1


async def test_what_is_given_up_is_not_tried_again(tmp_path: Path) -> None:
    async with desk(tmp_path, work=Broken()) as d, d.orchestrator() as orc:
        run = await submitted(d, orc, 3, escalate="failed: give-up")
        await run.wait()
        assert (run.counts["failed"], d.service.paid) == (3, 3)


@pytest.mark.slow
async def test_no_more_is_repeated_than_the_budget_of_the_run_wherever_it_is(tmp_path: Path) -> None:
    async with desk(tmp_path, endpoints=(ENDPOINT, BIG), work=Broken(), workers=20) as d, d.orchestrator() as orc:
        run = await submitted(d, orc, 50, retry_budget="20%", escalate="failed: endpoint big")
        await run.wait()
        assert run.counts["failed"] == 50
        assert d.service.paid == 60
        reasons = [(await job_show(d.ledger, "captions", each)).timeline[-1].reason for each in await failed_ids(run)]
        assert sum("the retry budget of the run is spent (20% of 50 jobs: 10)" in reason for reason in reasons) >= 40


async def failed_ids(run: Any) -> list[str]:
    return [result.custom_id async for result in run.results()]


@pytest.mark.slow
async def test_another_process_goes_on_with_what_a_job_was_given(tmp_path: Path) -> None:
    async with desk(tmp_path, endpoints=(ENDPOINT, BIG), work=Broken(10), seconds=lambda _: 30.0) as d:
        async with d.orchestrator() as orc:
            run = await submitted(d, orc, 10, escalate="failed: endpoint big")
            await anyio.sleep(45)
            assert run.counts["outstanding"]
        async with d.orchestrator() as orc:
            run = await orc.run("captions")
            await run.wait()
            assert run.counts["succeeded"] == await done_at(d, BIG) == 10
        assert d.service.paid == 20


async def test_what_a_person_tries_again_begins_anew(tmp_path: Path) -> None:
    async with desk(tmp_path, endpoints=(ENDPOINT, BIG), work=Broken(2)) as d, d.orchestrator() as orc:
        run = await submitted(d, orc, 1, max_attempts=2, escalate="failed: endpoint big")
        await run.wait()
        await run.retry()
        await run.wait()
        [done] = await custom_ids(run)
        shown = await job_show(d.ledger, "captions", done)
        assert [one.endpoint for one in shown.submissions] == [ENDPOINT, BIG, ENDPOINT]
        assert shown.timeline[-2].settings is None


async def test_what_a_person_tries_again_is_given_the_same_steps_once_more(tmp_path: Path) -> None:
    async with desk(tmp_path, endpoints=(ENDPOINT, BIG), work=Broken(3)) as d, d.orchestrator() as orc:
        run = await submitted(d, orc, 1, max_attempts=2, escalate="failed: endpoint big")
        await run.wait()
        await run.retry()
        await run.wait()
        [done] = await custom_ids(run)
        shown = await job_show(d.ledger, "captions", done)
        assert [one.endpoint for one in shown.submissions] == [ENDPOINT, BIG, ENDPOINT, BIG]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"escalate": "failed: endpiont b"}, r'escalate=: at "endpiont" \(character 9\): did you mean endpoint'),
        ({"escalate": "failed: map a={{ row. }}"}, "escalate=: map a=.*this is no template"),
        ({"escalate": "failed: endpoint b, then endpoint c", "max_attempts": 2}, "take 3 executions of a job, and 2"),
        ({"escalate": ["lost: give-up", "lost: endpoint b"]}, "two rules for lost"),
        ({"retry_budget": "120%"}, "is no share"),
    ],
)
async def test_what_cannot_be_carried_out_is_refused_before_anything_is_sent(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    async with desk(tmp_path) as d, d.orchestrator() as orc:
        with pytest.raises(UsageError, match=message):
            await submitted(d, orc, 1, **options)
        assert d.service.paid == 0


async def test_a_worker_that_was_taken_away_costs_no_attempt_and_nothing_of_the_budget(tmp_path: Path) -> None:
    failed = itertools.count()

    def taken_away_twice(raw: bytes, _: int) -> Answer:
        return Answer(error="the worker was taken away") if next(failed) < 2 else Answer(output=raw)

    async with desk(tmp_path, work=taken_away_twice) as d, d.orchestrator() as orc:
        run = await submitted(d, orc, 1, max_attempts=1, retry_budget="0%")
        await run.wait()
        assert (run.counts["succeeded"], d.service.paid) == (1, 3)
        [result] = [each async for each in run.results(order="input")]
        assert result.attempts == 1
        assert [step.reason for step in (await job_show(d.ledger, "captions", result.custom_id)).timeline[2:6:3]] == [
            "status, which costs no attempt",
            "status, which costs no attempt",
        ]


async def test_a_job_that_ends_its_workers_fails_all_the_same(tmp_path: Path) -> None:
    async with desk(tmp_path, work=lambda *_: Answer(error="the worker was taken away")) as d, d.orchestrator() as orc:
        run = await submitted(d, orc, 1, max_attempts=2)
        await run.wait()
        assert (run.counts["failed"], d.service.paid) == (1, FREE_MAX + 2)


async def test_of_errors_with_a_text_the_rule_for_that_text_counts(tmp_path: Path) -> None:
    async with desk(tmp_path, work=Broken(3)) as d, d.orchestrator() as orc:
        run = await submitted(d, orc, 1, max_attempts=1, escalate=['failed~"cuda OUT": free', "failed: give-up"])
        await run.wait()
        assert (run.counts["succeeded"], d.service.paid) == (1, 4)
