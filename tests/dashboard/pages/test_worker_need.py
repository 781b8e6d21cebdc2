"""Workers that follow what a run needs, on its page and on that of its endpoint."""

from pathlib import Path

import pytest

from orchestrator.core.gates.scaling_override import WorkerRange
from orchestrator.core.planning.worker_steps import WorkersNow, WorkersWhy
from orchestrator.ledger import dispatcher_lock
from orchestrator.ledger.runs.heartbeats import ProcessReport, RunReport
from orchestrator.ledger.samples.samples import EndpointSample, RunSample
from orchestrator.ledger.transactions.transaction import Transaction
from orchestrator.settings.run_settings import RunSettings
from orchestrator.units import HOUR_US, SECOND_US
from tests.dashboard.harness import dashboard
from tests.ledger.ledgers import a_run, opened
from tests.simulation.clock import VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def test_how_many_there_may_be_and_why_and_each_change_is_marked(tmp_path: Path) -> None:
    path, clock = tmp_path / "l.db", VirtualClock()
    settings = RunSettings(workers=WorkerRange(2, 30), finish_by=clock.now() + HOUR_US)
    async with opened(path, clock=clock) as ledger:
        made = await a_run(ledger, 3, settings=settings)
        for most in (6, 6, 12):
            clock.jump(10 * SECOND_US)

            async def sampled(transaction: Transaction, most: int = most) -> None:
                sample = EndpointSample(workers={"running": 5}, workers_at=clock.now(), workers_most=most)
                run = RunSample(counts={"queued": 3})
                await ledger.samples.runs.write(transaction, 10, clock.now(), {made.id: run})
                await ledger.samples.endpoints.write(transaction, 10, clock.now(), {made.endpoint_id: sample})

            await ledger.writer.run(sampled)
        workers = WorkersNow(bound=12, wanted=12, why=WorkersWhy.DEADLINE, least=2, most=30)
        await ledger.runs.heartbeats.beat(ProcessReport(runs={made.id: RunReport(workers=workers)}))
    with dispatcher_lock(path, now=clock.now(), doing="serve"):
        async with dashboard(path, clock=clock) as site:
            page = await site.get(f"/runs/{made.id}")
            assert "Workers: up to 12 workers, of 2 to 30: finish-by needs 12 workers" in page.text
            assert "the endpoint may have 12 workers instead of 6" in page.text
            found = (await site.json(f"/runs/{made.id}"))["status"]["workers"]
            assert (found["bound"], found["why"]) == (12, "deadline")
            endpoint = await site.json(f"/endpoints/{made.endpoint_id}?span=10m")
            assert [line["name"] for line in endpoint["workers"]] == ["running", "at most"]
            most = endpoint["workers"][-1]
            assert [value for _, value in most["points"]] == [6, 6, 12]
