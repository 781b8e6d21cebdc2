"""Pruning: what of old histories may go, page by page, and what stays whatever its age."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import pytest

from orchestrator.core.jobs import transitions
from orchestrator.core.jobs.cancel_reason import CancelWhy
from orchestrator.ledger import Ledger
from orchestrator.ledger.reports.event_pruning import Doomed
from tests.factories import TTL_US, S, an_outcome
from tests.ledger.ledgers import OpenLedger, a_run, gone, job_now
from tests.simulation.clock import EPOCH_AT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

AT = EPOCH_AT + S
AGAIN = ("claimed", "unanswered", "retried", "claimed", "accepted")
LATER = AT + 400 * TTL_US


async def events_left(ledger: Ledger, job: int) -> list[str]:
    return [row.event for row in await ledger.jobs.history.of(job)]


async def gone_through(question: Callable[[int], Awaitable[Doomed]]) -> tuple[list[int], int]:
    """What may go, over all pages, and how many pages there were."""
    found: list[int] = []
    after = pages = 0
    while (doomed := await question(after)).upto is not None:
        assert all(after < each <= doomed.upto for each in doomed.ids)
        found += doomed.ids
        after, pages = doomed.upto, pages + 1
    assert doomed.ids == ()
    return found, pages


async def events_forgotten(ledger: Ledger, before: Mapping[int, int], *, most: int = 100) -> int:
    """Forgets the events of jobs that ended before their run's time; returns the number of pages."""
    found, pages = await gone_through(
        lambda after: ledger.reports.pruning.events_doomed(before, after=after, most=most)
    )
    await ledger.reports.pruning.forget_events(before, found)
    return pages


async def doomed_submissions(ledger: Ledger, *, ttl_before: int = LATER, most: int = 100) -> list[int]:
    doomed = partial(ledger.reports.pruning.submissions_doomed, {1: LATER}, ttl_before=ttl_before, most=most)
    return (await gone_through(lambda after: doomed(after=after)))[0]


async def test_of_what_ended_before_its_time_the_last_event_stays_and_of_everything_else_all(
    open_file: OpenLedger,
) -> None:
    async with open_file() as ledger:
        one = await a_run(ledger, 3, name="one")
        two = await a_run(ledger, 1, name="two")
        await gone(ledger, await job_now(ledger, 1), *AGAIN, "completed", at=AT)
        await gone(ledger, await job_now(ledger, 2), *AGAIN, at=AT + 100 * S)
        await gone(ledger, await job_now(ledger, 3), "claimed", "accepted", "abandoned", at=AT + 149 * S)
        await gone(ledger, await job_now(ledger, 4), *AGAIN, "completed", at=AT + 10 * S)

        assert await events_forgotten(ledger, {one.id: AT + 150 * S, two.id: AT}) > 0
        assert await events_left(ledger, 1) == ["completed"]
        assert await events_left(ledger, 2) == list(AGAIN)
        assert await events_left(ledger, 3) == ["claimed", "accepted", "abandoned"]
        assert await events_left(ledger, 4) == [*AGAIN, "completed"], "the other run keeps its events for longer"
        assert [(await ledger.reports.audit.totals(run.id)).pruned for run in (one, two)] == [True, True]


async def test_a_run_says_that_its_history_is_not_whole_from_then_on(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run = await a_run(ledger)
        await gone(ledger, await job_now(ledger), *AGAIN, "completed", at=AT)
        assert (await ledger.reports.audit.totals(run.id)).pruned is False
        await ledger.reports.pruning.forget_events({run.id: AT + 90 * S}, [])
    async with open_file() as ledger:
        assert (await ledger.reports.audit.totals(run.id)).pruned is True


async def test_only_so_many_are_looked_at_at_once_and_what_is_young_is_not_looked_at(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run = await a_run(ledger, 2)
        await gone(ledger, await job_now(ledger, 1), *AGAIN, "completed", at=AT)
        await gone(ledger, await job_now(ledger, 2), *AGAIN, "completed", at=AT + 100 * S)

        assert await events_forgotten(ledger, {run.id: AT + 100 * S}, most=2) == 3
        assert [len(await events_left(ledger, job)) for job in (1, 2)] == [1, 6]
        assert await ledger.reports.pruning.events_doomed({run.id: AT}, after=0, most=9) == Doomed((), None)


async def test_a_job_goes_on_from_the_event_that_is_left(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run = await a_run(ledger)
        await gone(ledger, await job_now(ledger), "claimed", "accepted", "abandoned", at=AT)
        await events_forgotten(ledger, {run.id: LATER})
        await gone(ledger, await job_now(ledger), "reopened", "claimed", at=AT + 100 * S)
        await events_forgotten(ledger, {run.id: LATER})
        assert await events_left(ledger, 1) == ["abandoned", "reopened", "claimed"]


async def test_submissions_go_once_their_ttl_is_over_and_no_event_tells_of_them(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        await a_run(ledger, 2)
        first = (await gone(ledger, await job_now(ledger, 1), *AGAIN, "completed", at=AT))[0].after
        await gone(ledger, await job_now(ledger, 2), *AGAIN, at=AT + 100 * S)
        latest = await ledger.jobs.submissions.latest()
        assert first.submission is not None
        assert first.ttl_at is not None

        assert await doomed_submissions(ledger) == [], "their events are still there"
        await events_forgotten(ledger, {1: LATER})
        assert await doomed_submissions(ledger, ttl_before=first.ttl_at) == []
        assert await doomed_submissions(ledger, most=1) == [first.submission], "and none of the job that has not ended"
        await ledger.reports.pruning.forget_submissions([first.submission])
        assert (await ledger.jobs.of_submissions([first.submission])).job_of == {}
        assert (await ledger.reports.audit.submissions_after(0, most=9)).number == 3
        assert await ledger.jobs.submissions.latest() == latest


async def test_the_submission_that_brought_the_outcome_stays_and_so_does_one_that_is_owed_a_cancel(
    open_file: OpenLedger,
) -> None:
    async with open_file() as ledger:
        await a_run(ledger, 2)
        won = (await gone(ledger, await job_now(ledger, 1), "claimed", "unanswered", at=AT))[0].after.submission
        resent = (await gone(ledger, await job_now(ledger, 1), "retried", "claimed", at=AT + 9 * S))[-1].after
        late = an_outcome(resent, submission=won, remote_id="r-1")
        assert await ledger.writer.step(transitions.completed(resent, late, reason="a late webhook", at=AT + 60 * S))

        stuck = (await gone(ledger, await job_now(ledger, 2), "claimed", "accepted", at=AT + 100 * S))[-1].after
        assert await ledger.jobs.cancels.owe([2], CancelWhy.STUCK, now=AT + 110 * S) == [2]
        await gone(ledger, stuck, "retried", "claimed", "accepted", "completed", at=AT + 120 * S)
        await events_forgotten(ledger, {1: LATER})

        assert await doomed_submissions(ledger) == []
        assert stuck.submission is not None
        await ledger.jobs.cancels.settle({stuck.submission: None})
        assert await doomed_submissions(ledger) == [stuck.submission]


async def test_what_failed_executions_said_goes_with_the_events_of_their_job(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run = (await a_run(ledger, 2)).id
        for number in (2, 1):
            await gone(
                ledger,
                await job_now(ledger, number),
                "claimed",
                "accepted",
                "retried_remotely",
                at=AT + 50 * number * S,
            )
        [kept] = await ledger.reports.failed_executions.of_job(1)
        assert (kept.attempt, kept.class_) == (1, "failed")
        again = ("claimed_for_retry", "accepted_for_retry", "completed")
        await gone(ledger, await job_now(ledger, 1), *again, at=AT + 80 * S)
        assert await ledger.reports.failed_executions.open(run) == {kept.error_key: 1}
        await events_forgotten(ledger, {run: LATER})
        assert await ledger.reports.failed_executions.of_job(1) == []
        assert len(await ledger.reports.failed_executions.of_job(2)) == 1, "it has not ended"
        [kind] = await ledger.reports.failed_executions.kinds(run)
        assert (kind.n, kind.untold, kind.failed_jobs) == (2, 2, 0)
