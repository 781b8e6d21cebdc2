"""A ledger of which every metric has something to say: runs, flows, heartbeats and samples, as the engine writes them."""

from collections.abc import Mapping
from typing import Final

import msgspec

from orchestrator.core.batch_api.posted_batch import PostedState
from orchestrator.core.batches.batch_record import BatchStage
from orchestrator.core.gates.gates import Hold
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.pipelines.flow_lifecycle import FlowEvent, FlowKind
from orchestrator.core.samples.buckets import Histogram
from orchestrator.ledger import Ledger
from orchestrator.ledger.runs.heartbeats import ProcessReport, RunReport
from orchestrator.ledger.samples.samples import EndpointSample, OperationUse, ProcessTotals, RunSample
from orchestrator.ledger.transactions.transaction import Transaction
from orchestrator.units import SECOND_US
from orchestrator.views.status import JanitorSummary
from tests.conformance.test_posted_files import FILE
from tests.core.batch_api.test_posted_batch import BATCH
from tests.factories import SETTINGS, a_row
from tests.ledger.ledgers import a_run, brought_to, obeyed
from tests.ledger.pipelines import a_pipeline, applied, every

OPERATION: Final = OperationUse(
    allowance=1000,
    used=901,
    window_s=10.0,
    in_flight=3,
    codes={"2xx": 5, "429": 1, "new": 7},
    latency=Histogram((0, 4, 2), 0.3),
)


async def sampled(
    ledger: Ledger,
    *,
    at: int,
    runs: Mapping[int, RunSample] | None = None,
    endpoints: Mapping[int, EndpointSample] | None = None,
    process: ProcessTotals | None = None,
) -> None:
    """What the process at work has written down at `at`."""

    async def block(transaction: Transaction) -> None:
        await ledger.samples.runs.write(transaction, 10, at, runs or {})
        await ledger.samples.endpoints.write(transaction, 10, at, endpoints or {})
        await ledger.samples.processes.write(transaction, 10, at, {} if process is None else {0: process})

    await ledger.writer.run(block)


def an_endpoint(grown: int = 1) -> EndpointSample:
    """How an endpoint stood, with counters that have grown so often."""
    return EndpointSample(
        workers={"running": 3, "idle": 1},
        workers_at=1,
        workers_most=8,
        safe_until=2_000_000_000 * SECOND_US,
        collected_at=1_700_000_000 * SECOND_US,
        webhook_share=0.75,
        operations={"run": OPERATION},
        submissions={"accepted": 10 * grown, "unanswered": grown},
        ends={"succeeded": 8 * grown, "failed": grown},
        executions={"succeeded": 8 * grown, "failed": 2 * grown, "expired": grown},
        settled={"adopted": grown},
        paid_twice=grown,
        spent=1.5 * grown,
        margin=Histogram((0, 0, grown), 40.0 * grown),
        queue=Histogram((grown,), 0.05 * grown),
        execution=Histogram((0,) * 14 + (grown,), 4000.0 * grown),
    )


PROCESS: Final = ProcessTotals(
    process="vm 7",
    resident_bytes=50_000_000,
    cpu_s=12.5,
    lag=Histogram((3,), 0.01),
    commits=Histogram((0, 9), 0.02),
    webhooks={"received": 6, "hints": 2, "refused": 1},
)


async def a_watched_ledger(ledger: Ledger, *, endpoints: int = 1, pipelines: int = 1, runs: int = 1) -> None:
    """Writes it: so many endpoints, pipelines and runs at each endpoint, each with something to say."""
    now = ledger.now()
    settings = msgspec.structs.replace(SETTINGS, budget=25.0, finish_by=now + 3600 * SECOND_US)
    for endpoint in range(1, endpoints + 1):
        for number in range(1, runs + 1):
            rows = [a_row(1, "a"), a_row(2, "b"), a_row(3, "c")]
            run = await a_run(
                ledger, rows, name=f"run-{endpoint}-{number}", endpoint=f"endpoint-{endpoint}", settings=settings
            )
            await brought_to(ledger, State.OUTSTANDING, now + run.id, job=3 * run.id)
            batch = await ledger.runs.batches.intend(run.id, endpoint=run.endpoint_id)
            await ledger.runs.batches.move(batch, BatchStage.RUNNING)
    numbers = range(1, endpoints * runs + 1)
    for ago_s, done in ((600, 10), (0, 70)):
        await sampled(
            ledger,
            at=now - ago_s * SECOND_US,
            runs={run: RunSample(ends={"succeeded": done}, spent=3.12) for run in numbers},
            endpoints={endpoint: an_endpoint() for endpoint in range(1, endpoints + 1)},
            process=PROCESS,
        )
    for number in range(1, pipelines + 1):
        of = await applied(ledger, a_pipeline(f"pipeline-{number}", schedule=every(1)), now=now)
        for fire, event in ((now - SECOND_US, FlowEvent.SUCCEEDED), (now, FlowEvent.FAILED)):
            [name] = await ledger.flows.add(of.id, of.name, of.definition, [fire], FlowKind.TRIGGERED)
            flow = await ledger.flows.named(name)
            assert flow is not None
            for each in (FlowEvent.STARTED, event):
                await ledger.flows.step(flow.id, each)
    for name, notify in (("told", "ops:failed"), ("hooked", "https://hooks.example/secret")):
        told = await a_run(
            ledger, name=name, endpoint="endpoint-1", settings=msgspec.structs.replace(SETTINGS, notify=notify)
        )
        await obeyed(ledger, "cancel", run=told.id)
        await ledger.jobs.cancels.end(told.id, most=1)
    await ledger.runs.posted.files.bound(20_000_000_000)
    await ledger.runs.posted.files.add(FILE, bytes_max=FILE.size)
    for name in ("batch_1", "batch_2"):
        await ledger.runs.posted.batches.add(msgspec.structs.replace(BATCH, id=name))
    await ledger.runs.posted.batches.finish(BATCH, PostedState.EXPIRED, files=[], completed=40, failed=2)
    held = RunReport(blocked_by=Hold("breaker", "20 of 20 failed"), crawl_s=10.0)
    await ledger.runs.heartbeats.beat(ProcessReport(runs={1: held}, janitor=JanitorSummary(at=now, failing=("prune",))))
