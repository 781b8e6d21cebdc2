"""What people set and ask: limits, the wishes of a run, and what is owed a `/cancel` because of them."""

import pytest

from orchestrator.core.jobs.cancel_reason import CancelWhy
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.limits.rate_pacer import Limit, Operation
from orchestrator.core.service.job_record import Record
from orchestrator.core.service.webhook_token import Notice
from orchestrator.ledger.commands.command_types import Action, CancelledJobs, NewLimits, ResetLimits
from tests.factories import S
from tests.ledger.ledgers import OpenLedger, a_run, brought_to, jobs_now, obeyed
from tests.simulation.clock import EPOCH_AT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

AT = EPOCH_AT


async def test_a_limit_replaces_the_one_before_and_is_forgotten_when_it_is_reset(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run = await a_run(ledger)
        of = run.endpoint_id
        both = NewLimits({Operation.RUN: Limit(5, 10), Operation.STATUS: Limit(7, 1, 3)})
        for chosen in (both, NewLimits({Operation.RUN: Limit(6, 0.5)})):
            await obeyed(ledger, Action.LIMITS_SET, endpoint=of, argument=chosen)
        await obeyed(ledger, Action.LIMITS_RESET, endpoint=of, argument=ResetLimits((Operation.CANCEL,)))
    async with open_file() as ledger:
        found = {operation: chosen.limit for operation, chosen in (await ledger.runs.limits.all())[of].items()}
        assert found == {Operation.RUN: Limit(6, 0.5), Operation.STATUS: Limit(7, 1, 3)}
        await obeyed(ledger, Action.LIMITS_RESET, endpoint=of, argument=ResetLimits(tuple(Operation)))
        assert await ledger.runs.limits.all() == {}


async def test_a_run_that_is_cancelled_ends_what_waits_and_owes_a_cancel_for_what_is_at_the_service(
    open_file: OpenLedger,
) -> None:
    async with open_file() as ledger:
        run = await a_run(ledger, 4)
        sent = await brought_to(ledger, State.OUTSTANDING, AT, job=1)
        await brought_to(ledger, State.UNCERTAIN, AT + S, job=2)
        assert (
            await ledger.jobs.cancels.end(run.id, most=9),
            await ledger.jobs.cancels.owe_run(run.id, most=9, now=AT),
        ) == (
            0,
            0,
        )

        await obeyed(ledger, Action.CANCEL, run=run.id)
        assert [await ledger.jobs.cancels.end(run.id, most=2) for _ in range(3)] == [2, 1, 0]
        assert [await ledger.jobs.cancels.owe_run(run.id, most=9, now=AT + S) for _ in range(2)] == [1, 0]
        assert [job.state for job in await jobs_now(ledger)] == [State.OUTSTANDING, *[State.CANCELLED] * 3]
        (owed,) = await ledger.jobs.cancels.due(now=AT + 9 * S, after=(0, 0), most=9)
        assert (owed.submission, owed.remote_id, owed.why) == (sent.submission, sent.remote_id, CancelWhy.ASKED)

        await obeyed(ledger, Action.CONTINUE, run=run.id)
        assert not await ledger.jobs.cancels.is_owed(owed.submission)
        assert (await ledger.runs.controls(run.id)).cancel is False


async def test_jobs_that_were_chosen_to_be_cancelled_stay_so_though_their_run_is_cancelled_and_goes_on(
    open_file: OpenLedger,
) -> None:
    async with open_file() as ledger:
        run = await a_run(ledger, 4)
        for n in (1, 2, 3):
            await brought_to(ledger, State.OUTSTANDING, AT + n, job=n)
        uncertain = await brought_to(ledger, State.UNCERTAIN, AT + S, job=4)
        first = await ledger.commands.ask(Action.CANCEL_JOBS, run=run.id, argument=CancelledJobs("line=1"))
        found = await ledger.jobs.cancels.cancel([1, 4], command=first)
        assert (found.ended, found.owed) == (1, 1)

        await obeyed(ledger, Action.CANCEL, run=run.id)
        assert await ledger.jobs.cancels.owe_run(run.id, most=9, now=AT + S) == 2, "the first one is owed it already"
        assert (await ledger.jobs.cancels.cancel([2], command=first)).owed == 1, (
            "from now on whatever becomes of the run"
        )
        await obeyed(ledger, Action.CONTINUE, run=run.id)
        due = await ledger.jobs.cancels.due(now=ledger.now() + 9 * S, after=(0, 0), most=9)
        assert [(owed.job, owed.why) for owed in due] == [(1, CancelWhy.CHOSEN), (2, CancelWhy.CHOSEN)]
        assert await ledger.jobs.cancels.is_owed(uncertain.submission or 0), "once a webhook names it"


async def test_a_debt_is_put_off_written_off_and_made_once(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        await a_run(ledger, 2)
        one, two = [await brought_to(ledger, State.OUTSTANDING, AT + n, job=n) for n in (1, 2)]
        assert sorted(await ledger.jobs.cancels.owe([1, 2], CancelWhy.STUCK, now=AT)) == [1, 2]
        assert await ledger.jobs.cancels.owe([1, 2], CancelWhy.STUCK, now=AT) == []
        assert one.submission is not None
        assert two.submission is not None
        assert await ledger.jobs.cancels.why(one.submission) is CancelWhy.STUCK

        await ledger.jobs.cancels.settle({one.submission: None, two.submission: AT + 5 * S})
        assert await ledger.jobs.cancels.due(now=AT + S, after=(0, 0), most=9) == []
        (due,) = await ledger.jobs.cancels.due(now=AT + 5 * S, after=(0, 0), most=9)
        assert due.submission == two.submission
        await ledger.jobs.cancels.write_off(now=(two.ttl_at or 0) + 1)
        assert not await ledger.jobs.cancels.is_owed(two.submission)


async def test_a_submission_that_is_owed_a_cancel_is_sent_one_once_a_notice_names_it(
    open_file: OpenLedger,
) -> None:
    async with open_file() as ledger:
        run = await a_run(ledger)
        left = await brought_to(ledger, State.UNCERTAIN, AT)
        await obeyed(ledger, Action.CANCEL, run=run.id)
        assert await ledger.jobs.cancels.end(run.id, most=9) == 1
        assert await ledger.jobs.cancels.due(now=AT + 99 * S, after=(0, 0), most=9) == []

        named = Record(remote_id="late", status="IN_PROGRESS")
        told = [Notice(submission=left.submission or 0, received_at=AT, record=named)]
        assert [await ledger.jobs.cancels.name(told) for _ in range(2)] == [1, 0]
        (owed,) = await ledger.jobs.cancels.due(now=ledger.now() + 99 * S, after=(0, 0), most=9)
        assert owed.remote_id == "late"


async def test_counts_say_how_many_jobs_there_are_in_each_state(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run = await a_run(ledger, 4)
        await brought_to(ledger, State.OUTSTANDING, AT, job=1)
        await brought_to(ledger, State.SUCCEEDED, AT + S, job=2)
        await ledger.runs.count(run.id, "no_news")
    async with open_file() as ledger:
        counts = {name: n for name, n in (await ledger.runs.counts(run.id)).items() if n}
        assert {state: counts[state] for state in ("queued", "outstanding", "succeeded")} == {
            "queued": 2,
            "outstanding": 1,
            "succeeded": 1,
        }
        assert counts["no_news"] == 1
        assert await ledger.runs.outstanding() == {run.endpoint_id: 1}
