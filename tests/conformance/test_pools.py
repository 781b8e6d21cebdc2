"""What is to be moved from one member of a pool to another, and what waits for one of them alone."""

import pytest

from orchestrator.core.jobs.cancel_reason import CancelWhy
from orchestrator.core.jobs.lifecycle import State
from orchestrator.ledger import Ledger
from orchestrator.ledger.runs.runs import Run
from tests.conformance.test_elsewhere import AT, claimed, sent_elsewhere
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
