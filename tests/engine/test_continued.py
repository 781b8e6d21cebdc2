"""The same run again: what it may be told anew, and what it keeps."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from orchestrator.errors import StoppedError, UsageError
from orchestrator.settings import ConnectionSettings, RunRequest
from orchestrator.views import Summary
from tests.engine.rows import empty_ledger
from tests.engine.test_program import Silence, carried_out, request_in
from tests.simulation.clock import VirtualClock
from tests.simulation.world import ENDPOINT, URL, SimulatedService

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time, pytest.mark.no_cover]

JOBS = 20


class Desk:
    """Somebody who gives one command after the other, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = VirtualClock()
        self.service = SimulatedService(self.clock, workers=50)
        self.view = Silence()
        empty_ledger(folder / "ledger.db")

    async def run(self, jobs: int = JOBS, **changes: Any) -> Summary:
        return await self.carry_out(replace(request_in(self.folder, jobs), **changes))

    async def resume(self, **changes: Any) -> Summary:
        request = RunRequest(
            name="in",
            source=None,
            endpoint=None,
            ledger=self.folder / "ledger.db",
            connection=ConnectionSettings(serverless_url=URL, api_key="key"),
        )
        return await self.carry_out(replace(request, **changes))

    async def carry_out(self, request: RunRequest) -> Summary:
        return await carried_out(request, self.service, self.clock, self.view)


@asynccontextmanager
async def desk_in(folder: Path) -> AsyncIterator[Desk]:
    desk = Desk(folder)
    async with desk.service.serving():
        yield desk


@pytest.mark.parametrize("by_resume", [False, True])
async def test_a_mistyped_endpoint_id_is_mended_by_the_right_one(tmp_path: Path, by_resume: bool) -> None:
    async with desk_in(tmp_path) as desk:
        with pytest.raises(StoppedError, match=rf"\(404\): {URL}/v2/{ENDPOINT}x; .*--endpoint ID") as raised:
            await desk.run(endpoint=f"{ENDPOINT}x")
        assert isinstance(raised.value.summary, Summary)
        assert raised.value.summary.jobs["queued"] == JOBS
        summary = await (desk.resume(endpoint=ENDPOINT) if by_resume else desk.run())
        assert summary.jobs["succeeded"] == desk.service.paid == JOBS
        assert (
            f"in: at the endpoint {ENDPOINT} from now on; {ENDPOINT}x at {URL} never took a job of it"
            in desk.view.lines
        )


async def test_a_run_of_which_the_service_took_a_job_stays_at_its_endpoint(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        await desk.run()
        for again in (desk.run, desk.resume):
            with pytest.raises(UsageError, match=rf"is for the endpoint {ENDPOINT} at {URL}; "):
                await again(endpoint="other")
        assert (await desk.resume(endpoint=ENDPOINT)).jobs["succeeded"] == JOBS
