"""Batches of the Batch API: a step is written only if the batch is what it was made for, and the end with its files."""

import pytest
from msgspec.structs import replace

from orchestrator.core.batch_api.posted_batch import PostedBatch, PostedState
from orchestrator.core.batch_api.posted_file import PostedFile, Purpose
from orchestrator.core.jobs.lifecycle import State
from orchestrator.ledger import Ledger
from orchestrator.ledger.posted.posted_batches import OutlivedBatch
from orchestrator.ledger.posted.posted_totals import BatchEnds
from tests.core.batch_api.test_posted_batch import BATCH
from tests.ledger.ledgers import OpenLedger, a_run, brought_to
from tests.simulation.clock import EPOCH_AT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

FILE = PostedFile(
    id="out", owner="", filename="o.jsonl", purpose=Purpose.BATCH_OUTPUT, size=1, created_at=1, expires_at=None
)


async def one(ledger: Ledger, batch: str = "batch_1") -> PostedBatch:
    found = await ledger.runs.posted.batches.one("", batch)
    assert found is not None
    return found


async def test_a_batch_goes_from_state_to_state_and_its_end_comes_with_its_files(open_file: OpenLedger) -> None:
    async with open_file() as ledger, open_file() as other:
        batches = ledger.runs.posted.batches
        await batches.add(BATCH)
        assert await other.runs.posted.batches.open() == [BATCH]
        assert (await ledger.runs.posted.totals.now()).under_way == {"validating": 1}
        assert await batches.is_awaiting("file-1")
        await batches.learned("batch_1", run=7, model="m", total=3)
        assert await batches.move(BATCH, PostedState.IN_PROGRESS)
        assert not await batches.is_awaiting("file-1")
        under_way = await one(ledger)
        assert await other.runs.posted.batches.of_runs([1, 7]) == {7: under_way}
        assert await other.runs.posted.batches.of_runs([1]) == {}
        assert (under_way.run, under_way.model, under_way.total) == (7, "m", 3)
        assert under_way.in_progress_at == ledger.now()
        assert not await batches.move(BATCH, PostedState.FAILED), "it is in another state by now"
        assert await batches.move(under_way, PostedState.FINALIZING, is_late=1)
        late = await one(ledger)
        await batches.name_files(late, output_file="out", error_file="err")
        await batches.name_files(late, output_file="other", error_file="names")
        named = await one(other)
        assert (named.output_file, named.error_file, named.is_late) == ("out", "err", True)
        assert await batches.named_files() == {"out", "err"}
        assert await batches.finish(named, PostedState.EXPIRED, files=[FILE], completed=3, failed=1, usage=b"{}")
        assert not await batches.finish(named, PostedState.EXPIRED, files=[FILE], completed=3, failed=0)
        over = await one(other)
        assert (over.state, over.output_file, over.error_file) == (PostedState.EXPIRED, "out", None)
        assert (over.completed, over.failed, over.usage) == (3, 1, b"{}")
        assert await ledger.runs.posted.files.one("", "out") == FILE
        assert await batches.open() == []
        assert await ledger.runs.posted.totals.now() == (1, None, {}, {"expired": BatchEnds(1, 3, 1)})
        assert await batches.named_files() == frozenset()


@pytest.mark.parametrize("state", PostedState)
async def test_only_what_goes_on_can_be_cancelled_and_by_its_owner(open_file: OpenLedger, state: PostedState) -> None:
    async with open_file() as ledger:
        batches = ledger.runs.posted.batches
        await batches.add(replace(BATCH, state=state))
        assert not await batches.cancel("another", "batch_1")
        is_cancelled = await batches.cancel("", "batch_1")
        assert is_cancelled is (state in (PostedState.VALIDATING, PostedState.IN_PROGRESS))
        assert (await one(ledger)).state is (PostedState.CANCELLING if is_cancelled else state)


async def test_those_are_found_and_forgotten_with_their_runs_that_ended_long_ago(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        batches = ledger.runs.posted.batches
        run = (await a_run(ledger, name="batch_2")).id
        over = replace(BATCH, state=PostedState.COMPLETED, completed_at=2_000)
        for each in (
            replace(over, id="batch_1", run=run + 1),
            replace(over, id="batch_2", run=run),
            replace(over, id="batch_3", completed_at=3_000),
            replace(BATCH, id="batch_4"),
        ):
            await batches.add(each)
        assert await batches.outlived(2_000) == []
        found = await batches.outlived(2_001)
        assert found == [OutlivedBatch("batch_1", None, None), OutlivedBatch("batch_2", run, "batch_2")]
        assert [await batches.forget(each) for each in found] == [True, False], "jobs of its run are still to be done"
        assert [each.id for each in await batches.page("", after=None, most=9)] == ["batch_4", "batch_3", "batch_2"]
        done = await brought_to(ledger, State.SUCCEEDED, EPOCH_AT)
        assert done.state is State.SUCCEEDED
        assert await batches.forget(found[1])
        assert await ledger.runs.is_gone(run)
        assert [each.id for each in await batches.page("", after=None, most=9)] == ["batch_4", "batch_3"]


async def test_batches_are_read_a_page_at_a_time_by_their_owner(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        batches = ledger.runs.posted.batches
        for n in range(1, 5):
            await batches.add(replace(BATCH, id=f"batch_{n}"))
        await batches.add(replace(BATCH, id="other", owner="b"))

        async def ids(after: str | None = None, most: int = 9) -> list[str]:
            return [each.id for each in await batches.page("", after=after, most=most)]

        assert await ids() == ["batch_4", "batch_3", "batch_2", "batch_1"]
        assert await ids("batch_3", most=1) == ["batch_2"]
        assert await ids("other") == []
