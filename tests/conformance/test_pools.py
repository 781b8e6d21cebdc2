"""What is to be moved from one member of a pool to another, and what waits for one of them alone."""

from functools import partial

import pytest
from msgspec.structs import replace

from orchestrator.core.jobs import transitions
from orchestrator.core.jobs.cancel_reason import CancelWhy
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.ledger import Ledger
from orchestrator.ledger.jobs.claim_queue import LEFT_TO_OTHERS_US, ClaimLine
from orchestrator.ledger.runs.runs import Run
from tests.conformance.test_elsewhere import AT, TTL_US, claimed, sent_elsewhere
from tests.factories import S
from tests.ledger.ledgers import OpenLedger, a_run, brought_to, gone, job_now

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

LATER = AT + 100 * S


async def submission_of(ledger: Ledger, job: int) -> int:
    found = (await job_now(ledger, job)).submission
    assert found is not None
    return found


async def owed(ledger: Ledger) -> set[int]:
    """The submissions that are to be cancelled."""
    return {each.submission for each in await ledger.jobs.cancels.due(now=LATER, after=(0, 0), most=9)}


async def at_two_members(ledger: Ledger) -> tuple[Run, Run]:
    """A run of which job 1 is outstanding at its own endpoint, and job 2 at another: the run as it is at both."""
    run = await a_run(ledger, 3)
    there = await sent_elsewhere(ledger, run, 2)
    await gone(ledger, await job_now(ledger, 2), "claimed", "accepted", at=AT + 20 * S)
    await brought_to(ledger, State.OUTSTANDING, AT + 30 * S, job=1)
    return run, there


async def test_what_was_to_be_moved_stays_once_its_member_is_well_again(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run, there = await at_two_members(ledger)
        cancels = ledger.jobs.cancels
        assert sorted(await cancels.owe([1, 2], CancelWhy.MOVED, now=AT)) == [1, 2]
        first, second = await submission_of(ledger, 1), await submission_of(ledger, 2)
        assert await owed(ledger) == {first, second}
        assert await cancels.take_back(there.endpoint_id) == 1
        assert (await owed(ledger), await cancels.why(second)) == ({first}, None)
        assert await cancels.take_back(there.endpoint_id) == 0
        assert await cancels.owe([2], CancelWhy.MOVED, now=AT) == [2], "it may be moved again"
        assert await cancels.take_back(run.endpoint_id) == 1
        assert await owed(ledger) == {second}


async def test_what_people_cancel_is_not_taken_back_with_what_was_to_be_moved(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run, _ = await at_two_members(ledger)
        await ledger.jobs.cancels.owe([1], CancelWhy.CHOSEN, now=AT)
        submission = await submission_of(ledger, 1)
        assert await ledger.jobs.cancels.take_back(run.endpoint_id) == 0
        await ledger.jobs.cancels.drop([submission])
        assert (await owed(ledger), await ledger.jobs.cancels.why(submission)) == ({submission}, CancelWhy.CHOSEN)


async def test_what_has_begun_meanwhile_is_owed_nothing_any_more(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        await at_two_members(ledger)
        await ledger.jobs.cancels.owe([1, 2], CancelWhy.MOVED, now=AT)
        assert await ledger.jobs.cancels.is_waited_for(await submission_of(ledger, 1))
        assert not await ledger.jobs.cancels.is_waited_for(await submission_of(ledger, 1) + 10**6)
        await ledger.jobs.cancels.drop([await submission_of(ledger, 1)])
        assert await owed(ledger) == {await submission_of(ledger, 2)}
        assert [(await job_now(ledger, job)).state for job in (1, 2)] == [State.OUTSTANDING] * 2, "nothing was moved"


async def test_what_waits_for_a_member_alone_waits_for_any_once_it_is_not_well(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run, there = await at_two_members(ledger)
        beside = await a_run(ledger, 1, name="beside")
        await sent_elsewhere(ledger, run, 3, at=AT + 50 * S)
        await sent_elsewhere(ledger, beside, 4, at=AT + 70 * S)
        assert await claimed(ledger, run) == []
        assert await ledger.jobs.go_home(run.id, endpoint=there.endpoint_id, home=run.endpoint_id) == 1
        assert await claimed(ledger, there) == []
        assert await claimed(ledger, run) == [3]
        places = [(await job_now(ledger, job)).endpoint for job in (2, 4)]
        assert places == [there.endpoint_id] * 2, "what is outstanding there stays, and so do jobs of other runs"
        assert await ledger.jobs.go_home(run.id, endpoint=there.endpoint_id, home=run.endpoint_id) == 0


async def test_what_has_failed_at_a_member_last_is_left_to_others_for_a_while(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run = await a_run(ledger, 3)
        there = await ledger.runs.at_endpoint(run, "big")
        now = ledger.now()
        for number, trouble in ((1, FailureClass.FAILED), (2, FailureClass.FAILED), (3, FailureClass.LOST)):
            job = await brought_to(ledger, State.OUTSTANDING, now - number * S, job=number)
            due_at = now - LEFT_TO_OTHERS_US - S if number == 2 else now
            again = transitions.retried(job, trouble, due_at=due_at, retry_until=None, reason="", at=now)
            assert await ledger.writer.step(again)
        home = ClaimLine(run.id, endpoint=run.endpoint_id, by_retry=False, ttl_of=lambda _: TTL_US, only=(1,))
        next_at = partial(ledger.jobs.next_queued_at, run.id, endpoint=run.endpoint_id, by_retry=False, now=now)
        own, other = run.endpoint_id, there.endpoint_id

        assert (await ledger.jobs.claims.take(replace(home, not_failed_at=own), most=9)).claims == []
        long_due = await ledger.jobs.claims.take(replace(home, only=None, not_failed_at=own), most=9)
        assert [claim.job.id for claim in long_due.claims] == [2, 3], "one is long due, and one has not failed"
        assert await next_at(not_failed_at=own) is None
        assert await next_at() == await next_at(not_failed_at=other) == now
        [taken] = (await ledger.jobs.claims.take(replace(home, taker=other, not_failed_at=other), most=9)).claims
        assert (taken.job.id, taken.job.endpoint) == (1, other)
