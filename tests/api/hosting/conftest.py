"""A ledger on a server, and what several machines share of it."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from orchestrator.emulator.jobs.jobs import WorkerResult
from tests.api.hosting.site import ONE, OTHER, THIRD, Site
from tests.postgres.databases import Databases
from tests.simulation.clock import VirtualClock
from tests.simulation.world import SimulatedService


@pytest.fixture
def url(databases: Databases) -> Iterator[str]:
    with databases.one() as url:
        yield url


@pytest.fixture
async def site(url: str, tmp_path: Path) -> AsyncIterator[Site]:
    clock = VirtualClock()
    service = SimulatedService(
        clock, endpoints=(ONE, OTHER, THIRD), workers=2, work=lambda raw_input, _: made_of(raw_input)
    )
    site = Site(url, service, clock, tmp_path)

    def made_of(raw_input: bytes) -> WorkerResult:
        return WorkerResult(error="no") if site.is_failing else WorkerResult(output=raw_input)

    async with service.serving():
        yield site
