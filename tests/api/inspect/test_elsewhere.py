"""Jobs that are tried again at another endpoint: sent, collected and cancelled there, as jobs of the same run."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx
import pytest

from orchestrator.api.admin.limits import limits, limits_set
from orchestrator.api.inspect.doctor import doctor
from orchestrator.api.outcomes.job_detail import job_show
from orchestrator.api.python.run import Run
from orchestrator.core.limits.rate_pacer import Limit, Operation
from orchestrator.emulator.jobs.jobs import WorkerResult as Answer
from orchestrator.errors import StoppedError, UsageError
from orchestrator.settings.command_requests import DoctorRequest
from orchestrator.settings.connection_settings import ConnectionSettings
from tests.api.desk import Desk, desk, numbers
from tests.simulation.world import ENDPOINT, URL

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

BIG = "big"


class Worker:
    """Fails until it is mended."""

    is_mended = False

    def __call__(self, raw: bytes, _number: int) -> Answer:
        return Answer(output=raw) if self.is_mended else Answer(error="CUDA out of memory")


@asynccontextmanager
async def failed(folder: Path, jobs: int, **service: float) -> AsyncIterator[Desk]:
    """A ledger with the run `captions`, all of whose jobs have failed at its endpoint; from now on none does."""
    worker = Worker()
    async with desk(folder, endpoints=(ENDPOINT, BIG), work=worker, seconds=lambda _: 5.0, **service) as d:
        async with d.orchestrator() as orc:
            await (
                await orc.submit(numbers(jobs), endpoint=ENDPOINT, name="captions", max_attempts=1, breaker="off")
            ).wait()
        worker.is_mended = True
        yield d


async def done_at(d: Desk, endpoint: str) -> int:
    """How many executions have completed at the endpoint, as the service says."""
    async with httpx.AsyncClient(transport=d.service.transport(), base_url=URL) as client:
        told = await client.get(f"/v2/{endpoint}/health", headers={"authorization": "Bearer key"})
    return int(told.json()["jobs"]["completed"])


async def custom_ids(run: Run) -> list[str]:
    return [result.custom_id async for result in run.results(order="input")]


async def test_jobs_tried_again_elsewhere_stay_in_their_run_with_settings_of_their_own(tmp_path: Path) -> None:
    async with failed(tmp_path, 4) as d, d.orchestrator() as orc:
        run = await orc.run("captions")
        told = await run.retry(where="line<=2", execution_timeout="30m", endpoint=BIG, max_attempts=1)
        assert told == "2 failed jobs are queued again, with execution timeout 30 min and 1 attempt and endpoint big"
        await run.wait()
        assert (run.counts["succeeded"], run.counts["failed"]) == (2, 2)
        assert (await done_at(d, BIG), await done_at(d, ENDPOINT)) == (2, 0)
        first, *_, last = await custom_ids(run)
        shown = await job_show(d.ledger, "captions", first)
        assert (shown.endpoint, [each.endpoint for each in shown.submissions]) == (BIG, [ENDPOINT, BIG])
        assert "endpoint big" in next(step.reason for step in shown.timeline if step.event == "reopened")
        assert json.loads(bytes(shown.policy or b"")) == {"executionTimeout": 1_800_000}
        assert shown.max_attempts == 1

        assert await run.retry() == "2 failed jobs are queued again", "at the endpoint of the run"
        await run.wait()
        assert (run.counts["succeeded"], await done_at(d, ENDPOINT)) == (4, 2)
        assert (await job_show(d.ledger, "captions", last)).endpoint == ENDPOINT


async def test_an_endpoint_that_there_is_not_is_refused_before_anything_is_queued(tmp_path: Path) -> None:
    async with failed(tmp_path, 2) as d, d.orchestrator() as orc:
        run = await orc.run("captions")
        with pytest.raises(UsageError, match=r"does not know this endpoint \(404\): http://service/v2/bgi"):
            await run.retry(endpoint="bgi")
        assert run.counts["failed"] == 2
        with pytest.raises(UsageError, match="captions has no jobs at the endpoint bgi; it is at ep"):
            await limits_set(d.ledger, "captions", {Operation.RUN: Limit(1, 1)}, endpoint="bgi")


@pytest.mark.slow
async def test_another_process_collects_what_is_outstanding_elsewhere_and_sends_the_rest_there(tmp_path: Path) -> None:
    async with failed(tmp_path, 30, workers=4) as d:
        async with d.orchestrator() as orc:
            run = await orc.run("captions")
            await run.retry(endpoint=BIG)
            await anyio.sleep(8)
            assert 0 < run.counts["succeeded"] < 30
            assert run.counts["outstanding"]
        async with d.orchestrator() as orc:
            run = await orc.run("captions")
            await run.wait()
            assert run.counts["succeeded"] == await done_at(d, BIG) == 30
        assert d.service.paid == 60, "nothing was paid twice"


@pytest.mark.slow
async def test_the_limits_of_the_other_endpoint_hold_there_and_a_pause_too(tmp_path: Path) -> None:
    async with failed(tmp_path, 20) as d, d.orchestrator() as orc:
        run = await orc.run("captions")
        await run.retry(where="line<=1", endpoint=BIG)
        slow = {Operation.RUN: Limit(5, 10)}
        changed = await limits_set(d.ledger, "captions", slow, d.dependencies, endpoint=BIG)
        assert (changed.endpoint, changed.runs) == (BIG, ("captions",))
        own, other = await limits(d.ledger, "captions")
        assert (own.endpoint, other.endpoint) == (ENDPOINT, BIG)
        assert not any(line.set_at for line in own.operations)
        await run.retry(endpoint=BIG)
        await anyio.sleep(20)
        assert 5 <= run.counts["queued"] <= 12
        await run.pause()
        left = run.counts["queued"]
        await anyio.sleep(60)
        assert run.counts["queued"] >= left - 1
        await run.unpause()
        await run.wait()
        assert (await done_at(d, BIG), d.service.paid) == (20, 40)


async def test_what_runs_elsewhere_is_cancelled_there(tmp_path: Path) -> None:
    async with failed(tmp_path, 3) as d, d.orchestrator() as orc:
        run = await orc.run("captions")
        await run.retry(endpoint=BIG)
        await anyio.sleep(2)
        assert run.counts["outstanding"] == 3
        await run.cancel()
        await run.wait()
        assert (run.counts["cancelled"], await done_at(d, BIG)) == (3, 0)


@pytest.mark.slow
async def test_a_run_whose_other_endpoint_is_gone_ends_once_its_own_has_nothing_more(tmp_path: Path) -> None:
    async with failed(tmp_path, 4) as d, d.orchestrator() as orc:
        run = await orc.run("captions")
        await run.retry(where="line<=1", endpoint=BIG)
        await run.wait()
        await limits_set(d.ledger, "captions", {Operation.RUN: Limit(1, 100)}, d.dependencies, endpoint=BIG)
        await run.retry(where="line<=3", endpoint=BIG)
        d.service.gate.hide(BIG)
        await run.retry(where="line=4")
        with pytest.raises(StoppedError, match="does not know this endpoint"):
            await run.wait()
        assert (run.counts["succeeded"], run.counts["queued"]) == (2, 2)
        await anyio.sleep(30)
        [told] = await orc.status()
        assert "v2/big" in (told.held_up or "")
        request = DoctorRequest(ledger=d.ledger, connection=ConnectionSettings(serverless_url=URL, api_key="key"))
        found = await doctor(request, d.dependencies)
        assert f"{BIG} at {URL}" in [each.about for each in found.findings]
        assert f"{ENDPOINT} at {URL}" in found.asked
