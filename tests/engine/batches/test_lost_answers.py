"""Requests about batches whose answers are lost, or that never arrive: what is there is found out, and nothing is paid
twice.
"""

from pathlib import Path

import pytest
from msgspec.structs import replace

from orchestrator.emulator.batches.batch_rules import BatchOrder, BatchRules
from orchestrator.emulator.contract.faults import Faults
from orchestrator.units import SECOND_US
from tests.engine.batches.batched import BATCH, Call, Lost, batched, once
from tests.simulation.clock import VirtualClock
from tests.simulation.world import SimulatedService

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

NAMED = BatchRules(append_ids=True)
UNNAMED = BatchRules()


@pytest.mark.parametrize("lost", ["request", "answer"])
async def test_a_batch_that_may_have_been_made_is_left_as_it_is_and_another_one_made(
    tmp_path: Path, lost: Lost
) -> None:
    async with batched(tmp_path, lose=once("create", 1, lost)) as b:
        await b.p.finish()
        await b.all_done_once(40)
        assert await b.stages() == ["stray", "over"]
        assert len(b.drafts()) == (1 if lost == "answer" else 0), "nobody can tell whose it is"
        assert any("costs nothing" in line for line in b.p.warnings)


@pytest.mark.parametrize("rules", [NAMED, UNNAMED])
@pytest.mark.parametrize("lost", ["request", "answer"])
@pytest.mark.parametrize("n", [1, 2, *(pytest.param(n, marks=pytest.mark.slow) for n in (3, 6, 13))])
async def test_an_append_that_is_not_answered_puts_no_row_in_twice(
    tmp_path: Path, rules: BatchRules, lost: Lost, n: int
) -> None:
    async with batched(tmp_path, rows=60, rules=rules, lose=once("append", n, lost)) as b:
        await b.p.finish()
        await b.all_done_once(60)
        assert b.drafts() == []


async def test_a_lost_append_of_several_rows_is_taken_over_once_places_are_known_to_keep_their_order(
    tmp_path: Path,
) -> None:
    async with batched(tmp_path, rows=60, lose=once("append", 5, "answer")) as b:
        await b.p.finish()
        await b.all_done_once(60)
        assert await b.stages() == ["over"]
        assert b.p.warnings == []


async def test_before_that_the_draft_is_dropped_unpaid_and_its_rows_go_into_another_one(tmp_path: Path) -> None:
    async with batched(tmp_path, rows=60, lose=once("append", 2, "answer")) as b:
        await b.p.finish()
        await b.all_done_once(60)
        assert await b.stages() == ["dropped", "over"]
        assert await b.p.story(1) == ["claimed", "accepted", "deferred", "claimed", "accepted", "completed"]
        [result, *_] = await b.p.results()
        assert (result.attempts, result.paid_at_most) == (1, 1)


@pytest.mark.parametrize("lost", ["request", "answer"])
@pytest.mark.parametrize("kind", ["finalize", "get", "page"])
async def test_what_is_lost_of_the_rest_is_asked_for_again(tmp_path: Path, kind: str, lost: Lost) -> None:
    async with batched(tmp_path, rules=UNNAMED, lose=once(kind, 1, lost)) as b:
        await b.p.finish()
        await b.all_done_once(40)
        assert (await b.stages())[-1] == "over"


async def test_results_are_asked_for_though_the_service_wants_an_hour_of_rest(tmp_path: Path) -> None:
    clock = VirtualClock()
    service = SimulatedService(clock, batch=replace(NAMED, retention_s=900.0))

    def rest(call: Call) -> Lost | None:
        is_asked = call == Call("get", 2)
        service.dice.faults = Faults(long_pause=1.0 if is_asked else 0.0, long_pause_s=7_200.0)
        return None

    settings = replace(BATCH, batch_retention_us=900 * SECOND_US)
    async with batched(tmp_path, settings=settings, service=service, clock=clock, lose=rest) as b:
        await b.p.finish()
        await b.all_done_once(40)


async def test_requests_that_are_taken_twice_are_never_finalized(tmp_path: Path) -> None:
    async with batched(tmp_path, faults=Faults(repeated_append=1.0)) as b:
        await b.p.wait(lambda: len(b.p.warnings) > 0)
        b.service.dice.faults = Faults()
        await b.p.finish()
        await b.all_done_once(40)


async def test_where_places_do_not_keep_the_order_and_no_row_is_named_nothing_is_sent(tmp_path: Path) -> None:
    async with batched(tmp_path, rules=BatchRules(order=BatchOrder.RANDOM)) as b:
        await b.p.wait(lambda: b.p.session.why_stopped is not None)
        assert "do not keep their order" in (b.p.session.why_stopped or "")
        assert b.service.counts.executed.total() == 0
    (tmp_path / "2").mkdir()
    async with batched(tmp_path / "2", rules=BatchRules(order=BatchOrder.RANDOM, append_ids=True)) as b:
        await b.p.finish()
        await b.all_done_once(40)


async def test_where_drafts_have_no_pages_and_no_row_is_named_nothing_is_sent(tmp_path: Path) -> None:
    async with batched(tmp_path, rules=BatchRules(has_draft_pages=False)) as b:
        await b.p.wait(lambda: b.p.session.why_stopped is not None)
        assert "no pages of a draft" in (b.p.session.why_stopped or "")
        assert b.service.counts.executed.total() == 0


async def test_a_service_that_loses_much_still_executes_each_row_once(tmp_path: Path) -> None:
    def often(call: Call) -> Lost | None:
        if call.n % 3 or call.kind == "page":
            return None
        return "answer" if call.n % 2 else "request"

    settings = replace(BATCH, batch_rows=25)
    async with batched(tmp_path, rows=70, settings=settings, lose=often) as b:
        await b.p.finish()
        await b.all_done_once(70)
