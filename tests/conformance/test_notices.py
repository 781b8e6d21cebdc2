"""Notices and the feed: kept once, in order, and told after the commit."""

import pytest

from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.core.service.job_record import Record
from orchestrator.core.service.webhook_token import Notice
from orchestrator.ledger import Ledger
from orchestrator.ledger.jobs.notices import NO_ENDPOINT
from orchestrator.ledger.transactions.transaction import Settled
from tests.factories import STEPS, S, a_job
from tests.ledger.ledgers import OpenLedger, a_run, brought_to, jobs_now
from tests.simulation.clock import EPOCH_AT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

AT = EPOCH_AT + 1_000 * S


def a_notice(submission: int, status: str | None = "COMPLETED", **record: object) -> Notice:
    told = None if status is None else Record(remote_id="r", status=status, **record)  # type: ignore[arg-type]
    return Notice(submission=submission, received_at=AT, record=told)


async def notices_of(ledger: Ledger) -> list[Notice]:
    return (await ledger.jobs.notices.after(0, most=100, bytes_max=1 << 20)).notices


async def test_notices_come_back_as_they_came_and_once(open_file: OpenLedger) -> None:
    output = b'"' + b"a" * 9_000 + b'"'
    kept = [
        a_notice(1, output=output, delay_ms=3, execution_ms=4),
        a_notice(1, "FAILED", error="boom"),
        a_notice(2, None),
    ]
    async with open_file() as ledger:
        for notice in (*kept, kept[0], kept[2]):
            await ledger.writer.record_notice(notice)

        assert await notices_of(ledger) == kept
        first = await ledger.jobs.notices.after(0, most=2, bytes_max=1 << 20)
        assert first.notices == kept[:2]
        assert first.place is not None
        assert await ledger.jobs.notices.after(first.place, most=9, bytes_max=1 << 20) == (kept[2:], None)


async def test_what_is_held_is_left_out_and_what_is_too_much_comes_with_the_next_page(open_file: OpenLedger) -> None:
    kept = [a_notice(n, output=b"%d" % (10_000 + n)) for n in range(1, 7)]
    held = {kept[0].key, kept[3].key, (2, "FAILED")}
    async with open_file() as ledger:
        for notice in kept:
            await ledger.writer.record_notice(notice)
        page: list[Notice] = []
        place: int | None = 0
        while place is not None:
            found, place = await ledger.jobs.notices.after(place, most=4, bytes_max=10, held=held)
            assert len(found) <= 2
            page += found

        assert page == [kept[1], kept[2], kept[4], kept[5]]
        nothing = await ledger.jobs.notices.after(0, most=9, bytes_max=10, held={notice.key for notice in kept})
        assert nothing == ([], None)


async def test_a_notice_is_of_the_endpoint_its_submission_was_claimed_at_or_of_none(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        first, second = [await a_run(ledger, name=name, endpoint=name) for name in ("a", "b")]
        sent = [await brought_to(ledger, State.OUTSTANDING, AT + n, job=n) for n in (1, 2)]
        kept = [a_notice(sent[1].submission or 0), a_notice(9), a_notice(sent[0].submission or 0)]
        for notice in kept:
            await ledger.writer.record_notice(notice)

        async def of(*endpoints: int) -> list[Notice]:
            return (await ledger.jobs.notices.after(0, most=9, bytes_max=1 << 20, endpoints=endpoints)).notices

        assert await of(first.endpoint_id) == [kept[2]]
        assert await of(second.endpoint_id) == [kept[0]]
        assert await of(NO_ENDPOINT, first.endpoint_id) == kept[1:]
        assert await of() == []


async def test_settled_notices_go_with_their_step_and_stay_when_it_was_stale(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        await a_run(ledger, 2)
        sent = [await brought_to(ledger, State.OUTSTANDING, AT + n, job=n) for n in (1, 2)]
        kept = [a_notice(job.submission or 0) for job in sent] + [a_notice(9, None), a_notice(9)]
        for notice in kept:
            await ledger.writer.record_notice(notice)
        done, stale = (STEPS["completed"][1](job, AT + 9 * S) for job in (sent[0], a_job(id=2)))

        settled = [Settled(kept[0], 1), Settled(kept[1], 2), Settled(kept[2])]
        assert await ledger.writer.apply([done, stale], settled=settled) == {1}
        assert await notices_of(ledger) == [kept[1], kept[3]]


async def test_the_feed_tells_of_each_step_after_its_commit_in_order_and_of_no_stale_one(
    open_file: OpenLedger,
) -> None:
    fed: list[Transition] = []
    told: list[object] = []
    async with open_file() as ledger:
        await a_run(ledger, 2)
        first, second = await jobs_now(ledger)
        ledger.writer.subscribe(fed.extend)
        taken = STEPS["claimed"][1](first, AT)
        accepted = STEPS["accepted"][1](taken.after, AT + S)
        other = STEPS["claimed"][1](second, AT + 2 * S)
        for step in (taken, accepted, taken, other):
            ledger.writer.submit(step, told.append)
        assert (fed, told) == ([], [])
        await ledger.writer.flush()

        assert [step for step in fed if step.after.id == 1] == [taken, accepted]
        assert [step for step in fed if step.after.id == 2] == [other]
        assert told == [None] * 4
        assert await jobs_now(ledger) == [accepted.after, other.after]
