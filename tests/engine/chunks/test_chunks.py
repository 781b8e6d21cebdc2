"""Rows that travel together: each has its own outcome, whatever becomes of their chunk."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from orchestrator.core.chunks.chunk_terms import ChunkTerms
from orchestrator.core.jobs.lifecycle import State
from orchestrator.settings.run_settings import RunSettings
from tests.crashes.commits import audited
from tests.engine.chunks.travelling import BY_ID, CHUNKS, POISON, Handler
from tests.engine.process import Process, process, reached_by_webhooks
from tests.simulation.clock import VirtualClock
from tests.simulation.world import SimulatedService

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


@asynccontextmanager
async def at_work(
    folder: Path,
    handler: Handler,
    *,
    rows: int = 40,
    settings: RunSettings = CHUNKS,
    webhooks: bool = False,
    **more: Any,
) -> AsyncIterator[tuple[Process, SimulatedService]]:
    clock = VirtualClock()
    service = SimulatedService(clock, work=handler, **more)
    transport = service.transport()
    async with (
        service.serving(),
        process(folder / "db", transport, clock=clock, jobs=rows, settings=settings, webhooks=webhooks) as p,
        reached_by_webhooks(p, service),
    ):
        await p.begin()
        yield p, service


async def all_doubled(p: Process, rows: int = 40, without: frozenset[int] = frozenset()) -> None:
    found = {result.custom_id: msgspec.json.decode(result.output or b"") for result in await p.results()}
    assert found == {f"job-{n}": {"twice": 2 * n} for n in range(1, rows + 1) if n not in without}


@pytest.mark.parametrize("settings", [CHUNKS, BY_ID])
async def test_rows_travel_together_and_have_their_own_results(tmp_path: Path, settings: RunSettings) -> None:
    handler = Handler()
    async with at_work(tmp_path, handler, settings=settings) as (p, service):
        await p.finish()
        await all_doubled(p)
        assert sorted(handler.sizes) == [8, 16, 16]
        assert service.paid == 3
        assert await p.counts() == {"succeeded": 40}
        assert {(row.attempts, row.paid_at_most, row.execution_ms) for row in await p.results()} == {
            (1, 1, 125), (1, 1, 62), (1, 1, 63),
        }  # fmt: skip
        assert sum(row.execution_ms or 0 for row in await p.results()) == 3_000
        assert p.endpoint.outstanding.number == 0
        assert await audited(p.ledger) == []


async def test_a_poisonous_row_is_one_failed_row(tmp_path: Path) -> None:
    handler = Handler(poisonous={7})
    async with at_work(tmp_path, handler, rows=16, settings=replace(CHUNKS, max_attempts=1)) as (p, _):
        await p.finish()
        await all_doubled(p, 16, frozenset({7}))
        [failed] = await p.failures()
        assert (failed.custom_id, failed.message, failed.attempts) == ("job-7", POISON, 1)
        assert sorted(handler.sizes) == [1, 1, 2, 2, 4, 4, 8, 8, 16]
        assert (await p.counts())["failed_executions"] == 5


async def test_a_row_of_which_the_handler_says_that_it_failed_is_tried_again_by_itself(tmp_path: Path) -> None:
    handler = Handler(bad={1, 9})
    async with at_work(tmp_path, handler, rows=16, settings=replace(CHUNKS, max_attempts=2)) as (p, _):
        await p.finish()
        await all_doubled(p, 16, frozenset({1, 9}))
        assert [(row.custom_id, row.message, row.attempts) for row in await p.failures()] == [
            ("job-1", "1 is bad", 2), ("job-9", "9 is bad", 2),
        ]  # fmt: skip
        assert handler.seen[2] == 1
        assert handler.seen[1] == 2


@pytest.mark.parametrize(
    ("settings", "spoil"),
    [(CHUNKS, "fewer"), (CHUNKS, "more"), (BY_ID, "fewer"), (BY_ID, "double"), (BY_ID, "foreign")],
)
async def test_an_output_that_is_not_of_these_rows_is_halved_until_it_is(
    tmp_path: Path, settings: RunSettings, spoil: str
) -> None:
    handler = Handler(spoil=spoil)
    async with at_work(tmp_path, handler, rows=4, settings=settings) as (p, _):
        await p.finish()
        await all_doubled(p, 4)
        assert sorted(handler.sizes) == [1, 1, 1, 1, 2, 2, 4]


async def test_parts_that_name_their_rows_may_come_in_any_order(tmp_path: Path) -> None:
    handler = Handler(spoil="swapped")
    async with at_work(tmp_path, handler, rows=16, settings=BY_ID) as (p, _):
        await p.finish()
        await all_doubled(p, 16)
        assert handler.sizes == [16]


async def test_chunks_of_a_size_have_as_many_rows_as_fit(tmp_path: Path) -> None:
    handler = Handler()
    settings = replace(CHUNKS, chunk=ChunkTerms(bytes=50))
    async with at_work(tmp_path, handler, settings=settings) as (p, _):
        await p.finish()
        await all_doubled(p)
        assert sum(handler.sizes) == 40
        assert set(handler.sizes) <= {6, 5, 7, 3, 4, 2}


async def test_while_they_are_at_the_service_their_first_is_asked_for_and_none_of_the_others(tmp_path: Path) -> None:
    async with at_work(tmp_path, Handler(), rows=32, seconds=lambda _: 60.0) as (p, _):
        await p.until(State.OUTSTANDING, 32)
        assert (len(p.endpoint.outstanding), p.endpoint.outstanding.carried) == (2, 30)
        await p.reconciler.run_once()
        await p.reconciler.run_once()
        assert (len(p.endpoint.outstanding), p.endpoint.outstanding.carried) == (2, 30)
        await p.finish()
        assert (len(p.endpoint.outstanding), p.endpoint.outstanding.carried) == (0, 0)
        await all_doubled(p, 32)
