"""Rows that travel together, in the ledger: how they are claimed, and that all of them take each step of the first."""

import pytest
from msgspec.structs import replace

from orchestrator.api.outcomes.outcome_pages import WantedRows, finished_jobs
from orchestrator.core.chunks.chunk_steps import halved, with_riders
from orchestrator.core.chunks.chunk_terms import ChunkTerms
from orchestrator.core.jobs import transitions
from orchestrator.core.jobs.cancel_reason import CancelWhy
from orchestrator.core.jobs.job import Job
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.ledger import Ledger
from orchestrator.ledger.jobs.claim_queue import ClaimLine
from orchestrator.ledger.jobs.claims import Claim
from tests.factories import TTL_US, S, a_row, an_outcome
from tests.ledger.ledgers import OpenLedger, a_run
from tests.simulation.clock import EPOCH_AT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

AT = EPOCH_AT


async def claimed(ledger: Ledger, rows: int = 3, most: int = 9, terms: ChunkTerms = ChunkTerms(rows=3)) -> list[Claim]:  # noqa: B008  it is frozen
    run = await ledger.runs.named("run") or await a_run(ledger, rows)
    line = ClaimLine(run.id, run.endpoint_id, by_retry=False, ttl_of=lambda _: TTL_US, chunk=terms)
    return (await ledger.jobs.claims.take(line, most=most)).claims


async def accepted(ledger: Ledger, lead: Job) -> Job:
    step = transitions.accepted(lead, remote_id="remote", sent_at=AT, at=AT)
    assert await ledger.writer.step(step)
    return step.after


async def states(ledger: Ledger, *ids: int) -> list[State]:
    found = await ledger.jobs.of(ids)
    return [found[each].state for each in ids]


async def test_rows_are_claimed_in_chunks_each_under_a_submission_of_its_own(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        first, second = await claimed(ledger, 5)
        assert [[each.job.id for each in claim.rows] for claim in (first, second)] == [[1, 2, 3], [4, 5]]
        assert first.job.has_riders
        assert {each.job.chunk for each in first.rows} == {first.job.submission}
        assert {each.job.chunk_rows for each in second.rows} == {2}
        assert len({each.job.submission for claim in (first, second) for each in claim.rows}) == 5
        assert [each.custom_id for each in second.rows] == await ledger.jobs.custom_ids([4, 5])
        assert second.bytes == sum(len(each.payload.input) for each in second.rows)
        assert await ledger.jobs.of([1, 2]) == {each.job.id: each.job for each in first.rows[:2]}


async def test_no_more_chunks_are_claimed_than_may_go_and_the_rest_waits(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        assert [len(each.rows) for each in await claimed(ledger, 5, most=1)] == [3]
        large = ChunkTerms(bytes=1)
        assert [len(each.rows) for each in await claimed(ledger, most=1, terms=large)] == [1]
        assert await states(ledger, 4, 5) == [State.SUBMITTING, State.QUEUED]


async def test_a_chunk_is_as_large_as_it_may_be_however_much_is_claimed_at_once(open_file: OpenLedger) -> None:
    """Neither what one claim takes of rows nor of bytes makes one smaller while others follow."""
    async with open_file() as ledger:
        await a_run(ledger, [a_row(n, str(n), payload=b'"%b"' % (b"x" * 800_000)) for n in range(1, 15)])
        terms = ChunkTerms(rows=7)
        assert [len(each.rows) for each in await claimed(ledger, most=4, terms=terms)] == [7]
        assert [len(each.rows) for each in await claimed(ledger, most=4, terms=terms)] == [7]
        await a_run(ledger, 450, name="small")
        small = await ledger.runs.named("small")
        assert small is not None
        line = ClaimLine(small.id, small.endpoint_id, by_retry=False, ttl_of=lambda _: TTL_US, chunk=terms)
        found = [len(each.rows) for each in (await ledger.jobs.claims.take(line, most=90)).claims]
        assert found == [7] * (400 // 7)


async def test_rows_with_other_settings_do_not_travel_together(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        brief = b'{"ttl":60000}'
        await a_run(ledger, [a_row(n, policy=brief if n % 2 else None) for n in range(1, 5)])
        assert [[each.job.id for each in claim.rows] for claim in await claimed(ledger)] == [[1, 3], [2, 4]]


async def test_a_step_of_the_first_is_one_of_all_and_a_stale_one_of_none(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        [claim] = await claimed(ledger)
        steps: list[int] = []
        ledger.writer.subscribe(lambda taken: steps.extend(step.after.id for step in taken))
        lead = await accepted(ledger, claim.job)
        assert steps == [1, 2, 3]
        assert await states(ledger, 1, 2, 3) == [State.OUTSTANDING] * 3
        rider = (await ledger.jobs.of([2]))[2]
        assert (rider.remote_id, rider.is_carried, rider.sent_at) == (None, True, AT)
        assert not await ledger.writer.step(transitions.unanswered(claim.job, settle_at=AT, reason="late", at=AT))
        again = transitions.deferred(lead, due_at=AT, reason="moved", at=AT)
        assert await ledger.writer.step(again)
        assert await states(ledger, 1, 2, 3) == [State.QUEUED] * 3


async def test_each_has_an_end_of_its_own_and_whoever_has_left_before_none(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        [claim] = await claimed(ledger)
        await accepted(ledger, claim.job)
        jobs = await ledger.jobs.of([1, 2, 3])
        lead, two, three = (jobs[n] for n in (1, 2, 3))
        late = replace(an_outcome(two), output=b'"late"')
        assert await ledger.writer.step(transitions.completed(two, late, reason="webhook", at=AT))
        ends = [transitions.completed(each, an_outcome(each), reason="status", at=AT) for each in (lead, two)]
        failed = transitions.abandoned(three, an_outcome(three, FailureClass.FAILED), reason="no", at=AT)
        assert await ledger.writer.step(with_riders([*ends, failed]))
        assert await states(ledger, 1, 2, 3) == [State.SUCCEEDED, State.SUCCEEDED, State.FAILED]
        run = await ledger.runs.named("run")
        assert run is not None
        outputs = {each.job: each.output async for each in finished_jobs(ledger, run.id, WantedRows.RESULTS)}
        assert outputs == {1: b'{"n":1}', 2: b'"late"'}


async def test_those_of_a_chunk_that_failed_go_again_in_halves(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        [claim] = await claimed(ledger, 4, terms=ChunkTerms(rows=4))
        await accepted(ledger, claim.job)
        jobs = await ledger.jobs.of([1, 2, 3, 4])
        halves = [halved(jobs[n], FailureClass.FAILED, because="boom", due_at=AT, at=AT) for n in range(1, 5)]
        assert await ledger.writer.step(with_riders(halves))
        again = await claimed(ledger, terms=ChunkTerms(rows=4))
        assert [[each.job.id for each in one.rows] for one in again] == [[1, 2], [3, 4]]


async def test_a_chunk_is_cancelled_when_people_want_none_of_it_any_more(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        [claim] = await claimed(ledger)
        await accepted(ledger, claim.job)

        async def due() -> list[int]:
            return [each.job for each in await ledger.jobs.cancels.due(now=AT + 99 * S, after=(0, 0), most=9)]

        assert (await ledger.jobs.cancels.cancel([1, 3], command=1)).in_company == 2
        assert await due() == []
        assert (await ledger.jobs.cancels.cancel([2], command=1)).in_company == 0
        assert await due() == [1]
        assert [row.cancel_why for row in await ledger.jobs.submissions.in_chunk(claim.job.submission or 0)] == [
            CancelWhy.CHOSEN
        ] * 3


async def test_of_a_chunk_of_which_nobody_knows_whether_it_is_there_no_row_is_cancelled_alone(
    open_file: OpenLedger,
) -> None:
    async with open_file() as ledger:
        [claim] = await claimed(ledger)
        assert await ledger.writer.step(transitions.unanswered(claim.job, settle_at=AT, reason="none", at=AT))
        found = await ledger.jobs.cancels.cancel([1, 2], command=1)
        assert (found.ended, sorted(found.submitting)) == (0, [1, 2])
