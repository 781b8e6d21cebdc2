"""The batches of a run at the service, on its page."""

from pathlib import Path

import pytest

from orchestrator.core.batches.batch_record import ENDED, BatchStage
from orchestrator.core.lanes.via import Via
from orchestrator.core.service.batches import ServiceBatch
from orchestrator.ledger.jobs.claim_queue import ClaimLine
from orchestrator.settings.run_settings import RunSettings
from orchestrator.units import DAY_US
from tests.dashboard.harness import dashboard
from tests.ledger.ledgers import a_run, opened
from tests.simulation.clock import VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def test_each_batch_that_has_not_ended_has_a_line(tmp_path: Path) -> None:
    path, clock = tmp_path / "l.db", VirtualClock()
    async with opened(path, clock=clock) as ledger:
        made = await a_run(ledger, 3, settings=RunSettings(via=Via.BATCH))
        batches = ledger.runs.batches
        for stage, name in ((BatchStage.OVER, "batch_1"), (BatchStage.RUNNING, "batch_2")):
            batch = await batches.intend(made.id, endpoint=made.endpoint_id)
            said = ServiceBatch(id=name, status="FINALIZED", total=150, completed=150 * (stage in ENDED))
            batch = await batches.tell(batch, said, asked_before=0)
            await batches.move(batch, stage, remote_id=name)
        line = ClaimLine(made.id, made.endpoint_id, by_retry=False, ttl_of=lambda _: DAY_US, batch=2)
        await ledger.jobs.claims.take(line, most=1, bytes_max=1_000, settings=made.settings)
    async with dashboard(path, clock=clock) as site:
        page = await site.get(f"/runs/{made.id}")
        assert "Batches Batch Is Since Rows Done Failed Ends about batch_2 waiting" in page.text
        assert "batch_1" not in page.text
        over, _ = (await site.json(f"/runs/{made.id}"))["status"]["batches"]
        assert (over["batch"], over["rows"], over["completed"]) == ("batch_1", 150, 150)
        job = (await site.get(f"/runs/{made.id}/jobs/1")).text
        assert "batch batch_2" in job
        assert "forgets" not in job
        assert "execution timeout" not in job
