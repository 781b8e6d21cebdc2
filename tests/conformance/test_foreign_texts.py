"""What a worker says is kept, whatever is in it: with U+FFFD in the place of what a database cannot keep in a text."""

import pytest

from orchestrator.core.filters.filter_parser import parse
from orchestrator.core.jobs import transitions
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.service.job_record import Record
from orchestrator.core.service.webhook_token import Notice
from orchestrator.ledger import Ledger
from orchestrator.ledger.transactions.transaction import Settled
from tests.factories import S, an_outcome
from tests.ledger.ledgers import OpenLedger, a_run, brought_to
from tests.simulation.clock import EPOCH_AT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

AT = EPOCH_AT + 1_000 * S
FOREIGN = "Traceback\0 (most recent \U0001f4a5 call last)"
KEPT = {FOREIGN, FOREIGN.replace("\0", "\ufffd")}
OUTPUT = rb'{"text":"a\u0000b"}'


async def notices_of(ledger: Ledger) -> list[Notice]:
    return (await ledger.jobs.notices.after(0, most=100, bytes_max=1 << 20)).notices


async def test_a_nul_in_what_a_worker_says_holds_nothing_up(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run = await a_run(ledger, 3)
        failed, won, tried = [await brought_to(ledger, State.OUTSTANDING, AT - n, job=n) for n in (1, 2, 3)]
        outcome = an_outcome(failed, FailureClass.FAILED, message=FOREIGN, worker=FOREIGN, status="FAI\0LED")
        assert await ledger.writer.step(transitions.abandoned(failed, outcome, reason=FOREIGN, at=AT + S))
        assert await ledger.writer.step(
            transitions.completed(won, an_outcome(won, output=OUTPUT, worker=FOREIGN), reason="status", at=AT + S)
        )
        assert await ledger.writer.step(
            transitions.retried(tried, FailureClass.FAILED, due_at=AT, retry_until=None, reason=FOREIGN, at=AT + S)
        )

        first, second = await ledger.jobs.results.of([1, 2, 3], bytes_max=1 << 20)
        assert {first.message, first.worker, second.worker} <= KEPT
        assert second.output == OUTPUT
        assert [each.reason for each in await ledger.jobs.history.of(1)][-1] in KEPT
        page = await ledger.reports.job_queries.page(run.id, parse("error~traceback", now=AT), after=0, most=9)
        assert [job.job for job in page.jobs] == [1]


async def test_a_notice_with_a_nul_is_kept_once_and_goes_with_what_it_tells(open_file: OpenLedger) -> None:
    notice = Notice(submission=7, received_at=AT, record=Record(remote_id="r", status="FAILED", error=FOREIGN))
    async with open_file() as ledger:
        for _ in range(2):
            await ledger.writer.record_notice(notice)
        (kept,) = await notices_of(ledger)
        assert kept.record is not None
        assert kept.record.error in KEPT
        await ledger.writer.apply([], settled=[Settled(notice)])
        assert await notices_of(ledger) == []


async def test_what_is_asked_for_with_a_nul_is_not_there(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        await a_run(ledger, name="r")
        assert await ledger.runs.named("r\0") is None
