"""What the dispatcher does not send, or not yet."""

from pathlib import Path

import anyio
import pytest

from orchestrator.core.lifecycle import State
from orchestrator.core.pacing import Limit, Operation
from orchestrator.core.policy import Policy
from orchestrator.settings import RunSettings
from tests.services.process import Process, process
from tests.services.scripted import COMPLETED, REFUSED, Reply, Scripted, in_turn, numbered
from tests.services.test_collector import with_policies

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

SLOW = 20


def learn(p: Process, *, delay_s: int, execution_s: int) -> None:
    for _ in range(SLOW):
        p.endpoint.turnaround.observe(delay_s * 1_000, execution_s * 1_000)


async def test_the_queue_gets_no_deeper_than_is_asked_for_and_what_runs_does_not_count(tmp_path: Path) -> None:
    transport = Scripted(run=numbered(), health=Reply(200, b'{"jobs":{"inProgress":3}}'))
    settings = RunSettings(queue_depth=5)
    async with process(tmp_path / "db", transport, jobs=20, settings=settings) as p:
        await p.start("dispatcher")
        await anyio.sleep(0.05)
        assert len(transport.of("run")) == 5
        await anyio.sleep(10)
        assert (len(transport.of("run")), len(transport.of("health"))) == (8, 1)
        await anyio.sleep(30)
        assert (len(transport.of("run")), len(transport.of("health"))) == (8, 3)


async def test_a_health_that_does_not_answer_changes_nothing(tmp_path: Path) -> None:
    transport = Scripted(run=numbered(), health=Reply(500))
    settings = RunSettings(queue_depth=5)
    async with process(tmp_path / "db", transport, jobs=20, settings=settings) as p:
        await p.start("dispatcher")
        await anyio.sleep(10)
        assert len(transport.of("run")) == 5


async def test_how_many_jobs_run_stays_known_while_health_says_nothing_of_it(tmp_path: Path) -> None:
    health = in_turn(Reply(200, b'{"jobs":{"inProgress":3}}'), Reply(503), Reply(200, b"{}"), REFUSED)
    transport = Scripted(run=numbered(), health=health)
    async with process(tmp_path / "db", transport, jobs=20, settings=RunSettings(queue_depth=5)) as p:
        await p.start("dispatcher")
        await anyio.sleep(90)
        assert (len(transport.of("run")), len(transport.of("health")), p.endpoint.running) == (8, 6, 3)


async def test_without_the_rule_everything_that_can_be_collected_is_sent(tmp_path: Path) -> None:
    transport = Scripted(run=numbered())
    async with process(tmp_path / "db", transport, jobs=20, settings=RunSettings(queue_depth="off")) as p:
        await p.start("dispatcher")
        await p.until(State.OUTSTANDING, 20)
        assert transport.of("health") == []


async def test_a_job_whose_ttl_is_over_before_the_fastest_execution_is_not_sent_but_reported(tmp_path: Path) -> None:
    transport = Scripted(run=numbered(), status=COMPLETED)
    jobs = with_policies(b'{"ttl":10000}', None, b'{"ttl":10000}')
    async with process(tmp_path / "db", transport, jobs=jobs) as p:
        learn(p, delay_s=1, execution_s=60)
        await p.begin()
        await p.finish()
        assert await p.counts() == {"failed": 2, "succeeded": 1}
        assert len(transport.of("run")) == 1
        failures = await p.failures()
        assert [(each.trouble, each.attempts) for each in failures] == [("rejected", 0)] * 2
        assert failures[0].message is not None
        assert "its TTL of 10 s is over" in failures[0].message
        assert len(p.warnings) == 1
        assert "longer --ttl and --retry-failed" in p.warnings[0]


async def test_a_job_whose_ttl_would_end_in_the_queue_waits_until_the_endpoint_is_idle(tmp_path: Path) -> None:
    transport = Scripted(run=numbered())
    jobs = with_policies(None, b'{"ttl":120000}', b'{"ttl":120000}')
    limits = {Operation.RUN: Limit(1, 1)}
    async with process(tmp_path / "db", transport, jobs=jobs, limits=limits) as p:
        learn(p, delay_s=600, execution_s=20)
        await p.start("dispatcher", "collector")
        await anyio.sleep(100)
        assert len(transport.of("run")) == 1
        assert set(await p.story(2)) <= {"claimed", "deferred"}
        assert len(p.warnings) == 1
        assert "until the endpoint's queue is shorter" in p.warnings[0]
        transport.scripts["status"] = COMPLETED
        await p.finish()
        assert await p.counts() == {"succeeded": 3}


async def test_where_the_ttl_of_the_whole_run_would_end_in_the_queue_nothing_is_claimed(tmp_path: Path) -> None:
    transport = Scripted(run=numbered())
    settings = RunSettings(policy=Policy(ttl_ms=120_000))
    limits = {Operation.RUN: Limit(1, 1)}
    async with process(tmp_path / "db", transport, jobs=3, settings=settings, limits=limits) as p:
        learn(p, delay_s=600, execution_s=20)
        await p.start("dispatcher", "collector")
        await anyio.sleep(60)
        assert len(transport.of("run")) == 1
        assert [await p.story(n) for n in (2, 3)] == [[], []]
        assert len(p.warnings) == 1
