"""Jobs that are tried again at another endpoint than their run's: each submission has its own."""

import pytest

from orchestrator.core.jobs import transitions
from orchestrator.core.jobs.job import Outcome, Overrides
from orchestrator.core.jobs.lifecycle import State
from orchestrator.ledger import Ledger
from orchestrator.ledger.jobs.claim_queue import ClaimLine
from orchestrator.ledger.runs.runs import Run
from tests.factories import S
from tests.ledger.ledgers import OpenLedger, a_run, brought_to, gone, job_now
from tests.simulation.clock import EPOCH_AT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

AT = EPOCH_AT
TTL_US = 3_600 * S


async def sent_elsewhere(ledger: Ledger, run: Run, *jobs: int, at: int = AT) -> Run:
    """These jobs of `run` have failed, and are to go to another endpoint: the run as it is there."""
    there = await ledger.runs.at_endpoint(run, "big")
    for job in jobs:
        failed = await brought_to(ledger, State.FAILED, at, job=job)
        again = transitions.reopened(failed, at=at + 9 * S, overrides=Overrides(endpoint=there.endpoint_id))
        assert await ledger.writer.step(again)
    return there


async def claimed(ledger: Ledger, run: Run) -> list[int]:
    found = await ledger.jobs.claims.take(
        ClaimLine(run.id, endpoint=run.endpoint_id, by_retry=False, ttl_of=lambda _: TTL_US), most=9
    )
    return [claim.job.id for claim in found.claims]


async def test_jobs_are_claimed_for_the_endpoint_where_they_are(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run = await a_run(ledger, 3)
        there = await sent_elsewhere(ledger, run, 2)
        assert (await job_now(ledger, 2)).endpoint == there.endpoint_id != run.endpoint_id
        for where, due_at in (run, 0), (there, 0):
            found = await ledger.jobs.next_queued_at(run.id, endpoint=where.endpoint_id, by_retry=False, now=AT)
            assert found == due_at
        assert (await claimed(ledger, run), await claimed(ledger, there)) == ([1, 3], [2])
        assert await claimed(ledger, there) == []


async def test_the_other_endpoints_of_runs_are_known_until_the_run_is_gone(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run, beside = await a_run(ledger, 1), await a_run(ledger, 1, name="beside")
        there = await ledger.runs.at_endpoint(run, "big")
        assert await ledger.runs.at_endpoint(run, "big") == there, "asked for twice it is one"
        assert (there.id, there.name, there.endpoint, there.service_url) == (1, "run", "big", run.service_url)
        [found] = await ledger.runs.elsewhere()
        assert (found.id, found.endpoint_id) == (run.id, there.endpoint_id)
        assert await ledger.runs.elsewhere([beside.id]) == []
        assert await ledger.runs.take_back(run.id)
        await ledger.runs.intakes.clear("run")
        assert await ledger.runs.elsewhere() == []


async def test_what_is_outstanding_is_counted_where_it_is(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run, beside = await a_run(ledger, 3), await a_run(ledger, 1, name="beside")
        there = await sent_elsewhere(ledger, run, 2)
        await gone(ledger, await job_now(ledger, 2), "claimed", "accepted", at=AT + 20 * S)
        await brought_to(ledger, State.OUTSTANDING, AT + 30 * S, job=1)
        await brought_to(ledger, State.OUTSTANDING, AT + 40 * S, job=4)
        assert await ledger.runs.outstanding() == {run.endpoint_id: 2, there.endpoint_id: 1}
        assert beside.endpoint_id == run.endpoint_id


async def test_a_submission_stays_where_it_was_sent(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run = await a_run(ledger, 1)
        there = await sent_elsewhere(ledger, run, 1)
        [first] = [event.submission for event in await ledger.jobs.history.of(1) if event.event == "claimed"]
        assert first is not None
        again = await gone(ledger, await job_now(ledger, 1), "claimed", "accepted", at=AT + 20 * S)
        second = again[-1].after.submission
        assert second is not None
        found = await ledger.jobs.of_submissions([first, second])
        assert found.endpoint_of == {first: run.endpoint_id, second: there.endpoint_id}
        sent = [
            await ledger.jobs.submissions.sent_since(0, endpoint_id=each.endpoint_id, now=AT + 60 * S, answer_us=S)
            for each in (run, there)
        ]
        assert [len(each.answered) for each in sent] == [1, 1]
        assert [
            await ledger.jobs.submissions.accepted_since(0, endpoint_id=each.endpoint_id) for each in (run, there)
        ] == [
            1,
            1,
        ]

        late = await job_now(ledger, 1)
        result = Outcome(submission=first, remote_id="r-first", status="COMPLETED", output=b"1")
        assert await ledger.writer.step(transitions.completed(late, result, reason="webhook", at=AT + 50 * S))
        [owed] = await ledger.jobs.cancels.due(now=AT + 60 * S, after=(0, 0), most=9)
        assert (owed.submission, owed.endpoint) == (second, there.endpoint_id), "the one too many is cancelled there"
