"""By which request a job is executed again: `/retry` as long as that is soon, else a new `/run`."""

import json
from collections import Counter
from pathlib import Path

import anyio
import pytest

from orchestrator.core.limits.rate_pacer import Limit, Operation
from orchestrator.settings.run_settings import RunSettings
from tests.engine.process import process
from tests.engine.scripted import ACCEPTED, COMPLETED, FAILED, Asked, Reply, Scripted, says

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

REST_S = 600
LONG = Reply(429, headers={"retry-after": str(REST_S)})


class FailsOnce(Scripted):
    """A service whose first execution of each of the first `failing` inputs fails."""

    def __init__(self, failing: int, *, retry: Reply = ACCEPTED) -> None:
        self.failing = failing
        self.submitted: Counter[int] = Counter()
        self.retried: set[str] = set()
        self._retry = retry
        super().__init__(run=self._run, status=self._status, retry=self._on_retry)

    def _run(self, asked: Asked) -> Reply:
        n = json.loads(asked.body)["input"]["n"]
        self.submitted[n] += 1
        return says("IN_QUEUE", f"r-{n}-{self.submitted[n]}")

    def _on_retry(self, asked: Asked) -> Reply:
        if self._retry.status < 300:
            self.retried.add(asked.remote_id)
        return self._retry

    def _status(self, asked: Asked) -> Reply:
        _, n, submission = asked.remote_id.split("-")
        fails = int(n) <= self.failing and submission == "1" and asked.remote_id not in self.retried
        return FAILED if fails else COMPLETED


async def test_many_retries_go_by_a_new_run_where_that_is_sooner(tmp_path: Path) -> None:
    transport = FailsOnce(100)
    settings, limits = RunSettings(max_attempts=2), {Operation.RETRY: Limit(10, 10)}
    async with process(tmp_path / "db", transport, jobs=100, settings=settings, limits=limits) as p:
        await p.begin()
        await p.finish()

        assert await p.counts() == {"succeeded": 100, "failed_executions": 100, "retried_executions": 100}
        assert anyio.current_time() < 12, "at one /retry a second they would take 100 s"
        assert 2 <= len(transport.retried) < 15, "what /retry has room for goes by it"
        assert sum(transport.submitted.values()) == 200 - len(transport.retried)
        ended = await p.results()
        assert {(each.attempts, each.paid_at_most) for each in ended} == {(2, 2)}


async def test_a_few_retries_go_by_retry(tmp_path: Path) -> None:
    transport = FailsOnce(5)
    async with process(tmp_path / "db", transport, jobs=20) as p:
        await p.begin()
        await p.finish()
        assert len(transport.retried) == 5
        assert len(transport.of("run")) == 20


@pytest.mark.slow
async def test_while_run_is_busy_with_what_was_never_sent_retries_are_left_to_retry(tmp_path: Path) -> None:
    transport = FailsOnce(30)
    limits = {Operation.RUN: Limit(10, 1), Operation.RETRY: Limit(10, 1)}
    async with process(tmp_path / "db", transport, jobs=100, limits=limits) as p:
        await p.begin()
        await p.finish()
        assert len(transport.retried) > 25
        assert anyio.current_time() < 20


async def test_where_no_retry_is_wanted_for_long_a_new_run_is_made(tmp_path: Path) -> None:
    transport = FailsOnce(3, retry=LONG)
    async with process(tmp_path / "db", transport, jobs=3) as p:
        await p.begin()
        await p.finish()
        assert anyio.current_time() < 30
        assert (await p.counts())["succeeded"] == 3
        assert {(each.attempts, each.paid_at_most) for each in await p.results()} == {(2, 2)}
        assert len(transport.of("run")) == 6
