"""What type checkers make of the public names: mypy reads this file with all others, pyright reads this one, and it is
never run. `make types` asks both.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Literal, assert_type

import orchestrator
from orchestrator import InputError, Job, Orchestrator, OrchestratorError, Result, Run, StorageError, UsageError


def plain() -> Iterator[dict[str, object]]:
    yield {"n": 1}


async def coming() -> AsyncIterator[Job]:
    yield Job({"n": 1}, custom_id="one", policy={"ttl": "2h"}, priority=3)


def worker(job: dict[str, Any]) -> object:
    return job["input"]


async def async_worker(job: dict[str, Any]) -> str:
    return str(job["id"])


async def asynchronous() -> None:
    async with Orchestrator("ledger.db", limits={"run": "500/10"}, listen=None) as orc:
        assert_type(orc, Orchestrator)
        run = await orc.submit(plain(), endpoint="abc123", name="night", ttl=timedelta(hours=2), max_attempts=None)
        assert_type(run, Run)
        assert_type(await orc.submit(coming(), endpoint=worker, ttl="2h", queue_depth="auto"), Run)
        assert_type(await orc.submit("prompts.jsonl", endpoint=async_worker, ttl=7200.5, on_expired="fail"), Run)
        assert_type(await orc.append("night", [{"n": 1}, Job({"n": 2})]), Run)
        assert_type(await orc.run("night"), Run)
        assert_type(run.name, str)
        assert_type(run.counts, Mapping[str, int])
        assert_type(run.counts["succeeded"], int)
        assert_type(await run.wait(), Mapping[str, int])
        assert_type(run.results(order="input", after="one"), AsyncGenerator[Result, None])
        async for result in run.results():
            assert_type(result, Result)
        async for result in orc.map("abc123", plain(), name="night", priority=5):
            assert_type(result, Result)
        assert_type(await run.pause(), None)
        assert_type(await run.retry(where="class=timed_out", execution_timeout="30m", cluster=1), str)
        assert_type((await run.failures(cluster=True))[0].count, int)
        assert_type(await run.failures(cluster=False), list[Result])
    assert_type(run, Run)  # whoever leaves the block goes on behind it


def blocking() -> None:
    results = orchestrator.map("abc123", plain(), name="night", ledger="ledger.db", execution_timeout=90)
    assert_type(results, Iterator[Result])
    for result in results:
        assert_type(result.custom_id, str)
        assert_type(result.state, Literal["succeeded", "failed", "cancelled"])
        assert_type(result.raw, bytes | None)
        assert_type(result.error, str | None)
        assert_type(result.attempts, int)
        assert_type(result.execution, timedelta | None)
        assert_type(result.ended_at, datetime)


def errors(error: InputError) -> None:
    assert_type(error.problems, tuple[str, ...])
    assert_type(error.taken, int)
    family: OrchestratorError = error
    usage: UsageError = error
    assert family is usage
    assert not issubclass(StorageError, UsageError)
