"""A draft whose process is gone in the midst of an append, which may still arrive."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx
import pytest

from orchestrator.core.batches.batch_steps import SETTLE_US
from orchestrator.core.jobs.lifecycle import State
from orchestrator.emulator.batches.batch_rules import BatchRules
from orchestrator.errors import DeposedError, leading
from orchestrator.ledger.processes.processes import ProcessName
from orchestrator.ledger.processes.tenure import tenure_of
from orchestrator.settings.addresses.ledger_address import parse_ledger_url
from orchestrator.units import SECOND_US
from tests.engine.batches.batched import Batched, Call, Lost, batched, once
from tests.postgres.databases import Databases
from tests.postgres.ledgers import on_virtual_time, waited_for
from tests.postgres.owners import taken_over
from tests.simulation.clock import VirtualClock
from tests.simulation.world import SimulatedService

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

GONE, ME = ProcessName("process 1 on a", " #1"), ProcessName("process 2 on b", " #2")
ROWS = 40
LATE_S = 15.0
"""Before a draft to which rows were added is finalized."""

FIRST = once("append", 1, "late")


@pytest.fixture
def url(databases: Databases) -> Iterator[str]:
    with databases.one() as url:
        yield url


async def under_way(b: Batched) -> httpx.Request:
    """The request that does not arrive, as soon as there is one."""
    while not b.late:  # noqa: ASYNC110  nobody tells of it
        await anyio.sleep(0.1)
    return b.late[0]


async def arrives(b: Batched, request: httpx.Request, after_s: float) -> None:
    """It comes after all, so late."""
    await anyio.sleep(after_s)
    await b.service.transport().handle_async_request(request)
    await arrived(b)


async def arrived(b: Batched) -> None:
    """Each row is in the draft once, and executed once."""
    await b.p.finish()
    await b.all_done_once(ROWS)
    assert await b.stages() == ["over"]
    assert b.p.warnings == []


async def test_what_a_killed_process_was_adding_may_arrive_before_it_is_taken_for_lost(tmp_path: Path) -> None:
    service, clock = a_service()
    async with batched(tmp_path, service=service, clock=clock, lose=FIRST) as b:
        request = await under_way(b)
    async with batched(tmp_path, service=service, clock=clock) as b:
        await arrives(b, request, LATE_S)


async def test_it_goes_on_at_once_where_all_has_arrived(tmp_path: Path) -> None:
    service, clock = a_service()
    async with batched(tmp_path, service=service, clock=clock, lose=FIRST) as b:
        await b.service.transport().handle_async_request(await under_way(b))
    async with batched(tmp_path, service=service, clock=clock) as b:
        await b.p.until(State.OUTSTANDING, ROWS)
        [batch] = await b.p.ledger.runs.batches.of_run(b.p.run.id)
        assert b.p.clock.now() - batch.made_at < LATE_S * SECOND_US
        await arrived(b)


async def test_what_a_deposed_one_was_adding_may_arrive_as_late_as_anything_of_it(tmp_path: Path, url: str) -> None:
    service, clock, seen = *a_service(), list[httpx.Request]()
    with pytest.raises(BaseExceptionGroup) as ended:
        await deposed(tmp_path, url, service, clock, seen)
    assert isinstance(leading(ended.value), DeposedError)
    async with owned(tmp_path, url, service, clock) as b:
        await arrives(b, seen[0], LATE_S + SETTLE_US / SECOND_US)


def a_service() -> tuple[SimulatedService, VirtualClock]:
    """One whose batches name the rows that are added."""
    clock = VirtualClock()
    return SimulatedService(clock, batch=BatchRules(append_ids=True)), clock


@asynccontextmanager
async def owned(
    tmp_path: Path,
    url: str,
    service: SimulatedService,
    clock: VirtualClock,
    lose: Callable[[Call], Lost | None] = lambda _: None,
) -> AsyncIterator[Batched]:
    """A process that owns the ledger at `url`, and works on it."""
    here = on_virtual_time()
    async with (
        tenure_of(str(parse_ledger_url(url)), waited_for(url), ME, here=here),
        batched(tmp_path, service=service, clock=clock, lose=lose, server=url, here=here) as b,
    ):
        yield b


async def deposed(
    tmp_path: Path, url: str, service: SimulatedService, clock: VirtualClock, seen: list[httpx.Request]
) -> None:
    """Another process takes the place of one whose request does not arrive, which is `seen`."""
    async with owned(tmp_path, url, service, clock, FIRST) as b:
        seen.append(await under_way(b))
        await taken_over(url, GONE)
