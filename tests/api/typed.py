"""What type checkers make of the public names: mypy reads this file with all others, pyright reads this one, and it is
never run. `make types` asks both.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Literal, assert_type

import orchestrator
from orchestrator import (
    Flow,
    InputError,
    Job,
    Notify,
    Orchestrator,
    OrchestratorError,
    Pipeline,
    Result,
    Run,
    Schedule,
    Stage,
    StorageError,
    UsageError,
)
from orchestrator.account import BlockingAccount, GpuRequest, Pod, PodCreate, Secret, Template, WorkerRecord


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
        assert_type((await run.export("o.csv", flatten="output.n")).results, int)
    assert_type(run, Run)  # whoever leaves the block goes on behind it


def blocking() -> None:
    results = orchestrator.map("abc123", plain(), name="night", ledger="ledger.db", execution_timeout=90)
    assert_type(results, Iterator[Result])
    for result in results:
        assert_type(result.custom_id, str)
        assert_type(result.index, int)
        assert_type(result.input, Any)
        assert_type(result.state, Literal["succeeded", "failed", "cancelled"])
        assert_type(result.raw, bytes | None)
        assert_type(result.error, str | None)
        assert_type(result.attempts, int)
        assert_type(result.execution, timedelta | None)
        assert_type(result.ended_at, datetime)


def of_the_account(template: Template) -> None:
    with BlockingAccount("key", base_url="https://pods.example", graphql_key="header") as account:
        assert_type(account, BlockingAccount)
        assert_type(account.pods.list(include_cluster_pods=True, limit=5), tuple[Pod, ...])
        spec = PodCreate(name="trainer", image="img:1", gpu=GpuRequest(id="NVIDIA L4"))
        assert_type(account.pods.create(spec, wait=600, watch=lambda pod: print(pod.status)), Pod)
        assert_type(account.pods.terminate("abc"), None)
        assert_type(account.endpoints.show("abc123").workers_max, int | None)
        assert_type(account.endpoints.workers("abc123"), tuple[WorkerRecord, ...])
        assert_type(account.templates.save(template, losing=print), Template)
        assert_type(account.templates.show("t1"), Template | None)
        assert_type(account.secrets.rotate("s1", "value"), Secret)


def to_texts(row: dict[str, Any]) -> dict[str, object] | None:
    return {"text": row["output"]["caption"]}


def nightly() -> Pipeline:
    caption = Stage("caption", endpoint="abc123", max_failed="5%", ttl=timedelta(hours=2), queue_depth="auto")
    embed = Stage("embed", from_="caption", step=to_texts, endpoint=worker, output="out/{flow}.jsonl", resumable=True)
    schedule = Schedule(cron=["30 2 * * *"], zone="Europe/Berlin", overlap="latest", catch_up="6h", late_after=None)
    assert_type(schedule.parallel, int | None)
    assert_type(caption.name, str)
    notify = Notify(on="failed", url="https://example.org/hook")
    return Pipeline("captions", input="in.jsonl", schedule=schedule, stages=[caption, embed], notify=notify)


async def flows() -> None:
    async with Orchestrator() as orc:
        applied = await orc.apply(nightly(), check=False)
        assert_type(applied.version, int | None)
        assert_type(applied.fires[0].fire, str)
        await orc.apply("captions.toml")
        flow = await orc.trigger("captions", at=datetime(2027, 3, 28))  # noqa: DTZ001
        assert_type(flow, Flow)
        state = await flow.wait()
        assert_type(state, Literal["waiting", "running", "held", "succeeded", "partial", "failed", "cancelled"])
        assert_type(flow.results("caption"), AsyncGenerator[Result, None])
        assert_type(flow.counts["caption"]["succeeded"], int)
        assert_type(await orc.backfill("captions", "2027-03-01", datetime(2027, 3, 7), parallel=2), list[Flow])  # noqa: DTZ001
        assert_type(await orc.flow("captions@2027"), Flow)
        assert_type(await flow.look(), Flow)
        assert_type(await orc.serve(), None)
    assert_type(orchestrator.trigger("captions", "2027-03-28", ledger="l.db"), Flow)
    assert_type(orchestrator.backfill("captions", "2027-03-01", "2027-03-07", again=True), list[Flow])
    assert_type(orchestrator.apply(nightly(), ledger="l.db").name, str)
    assert_type(orchestrator.serve(ledger="l.db", limits={"run": "500/10"}), None)


def errors(error: InputError) -> None:
    assert_type(error.problems, tuple[str, ...])
    assert_type(error.taken, int)
    family: OrchestratorError = error
    usage: UsageError = error
    assert family is usage
    assert not issubclass(StorageError, UsageError)
