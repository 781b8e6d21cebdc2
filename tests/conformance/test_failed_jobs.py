"""The jobs that failed, in the order in which they ended: which is next, and how often each kind came of late."""

import pytest

from orchestrator.core.filters.filter import EVERY
from orchestrator.core.jobs.lifecycle import TERMINAL
from orchestrator.core.jobs.transitions import abandoned
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.text.error_text import error_key
from orchestrator.ledger import Ledger
from orchestrator.ledger.reports import failed_jobs
from orchestrator.ledger.runs.runs import Run
from orchestrator.units import MINUTE_US
from tests.factories import S, an_outcome
from tests.ledger.ledgers import OpenLedger, a_run, gone, job_now, jobs_now, obeyed
from tests.simulation.clock import EPOCH_AT, VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

AT = EPOCH_AT + S
MEMORY, KEY = "MemoryError: CUDA out of memory", "KeyError: 'prompt'"


async def failed(ledger: Ledger, job: int, message: str, *, at_s: int) -> None:
    await gone(ledger, await job_now(ledger, job), "claimed", "accepted", at=AT + at_s * S)
    found = await job_now(ledger, job)
    outcome = an_outcome(found, FailureClass.FAILED, message=message)
    assert await ledger.writer.step(abandoned(found, outcome, reason="status", at=AT + at_s * S))


async def next_of(ledger: Ledger, run: Run, job: int, *, kind: str | None = None) -> int | None:
    [row] = [each.row for each in (await ledger.reports.job_queries.page(run.id, EVERY, after=job - 1, most=1)).jobs]
    key = None if kind is None else error_key(FailureClass.FAILED, kind)
    return await ledger.reports.failed_jobs.next(run.id, row, kind=key)


async def some_failed(ledger: Ledger) -> Run:
    """A run of eight jobs: of the order in which they ended 3, 1, 5, 2 failed, 4 was cancelled, 6 succeeded."""
    await a_run(ledger, 1, name="other")
    run = await a_run(ledger, 8)
    await failed(ledger, 1, KEY, at_s=15)
    for number, (job, message) in enumerate([(4, MEMORY), (2, KEY), (6, KEY), (3, MEMORY)]):
        await failed(ledger, job, message, at_s=10 * (number + 1))
    await gone(ledger, await job_now(ledger, 5), "cancelled", at=AT + 25 * S)
    await gone(ledger, await job_now(ledger, 7), "claimed", "accepted", "completed", at=AT + 12 * S)
    return run


async def test_the_next_one_is_that_which_failed_next(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run = await some_failed(ledger)
        assert [await next_of(ledger, run, job) for job in (4, 2, 6, 3)] == [2, 6, 3, None]
        assert [await next_of(ledger, run, 4, kind=kind) for kind in (MEMORY, KEY)] == [3, 2]
        assert await next_of(ledger, run, 7) == 2, "after one that succeeded"
        assert await next_of(ledger, run, 5) == 6, "after one that was cancelled"
        assert await next_of(ledger, run, 9) == 4, "of one that has not ended it is the first"
        await gone(ledger, await job_now(ledger, 2), "reopened", at=AT + 90 * S)
        assert await next_of(ledger, run, 4) == 6


async def test_kinds_are_counted_in_parts_of_a_time(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run = await some_failed(ledger)
        memory, key = error_key(FailureClass.FAILED, MEMORY), error_key(FailureClass.FAILED, KEY)
        late = await ledger.reports.failed_jobs.kinds_since(run.id, AT, AT + MINUTE_US, parts=3)
        assert (late.since, late.parts[memory], late.parts[key]) == (AT, [1, 1, 0], [1, 1, 0])
        last = await ledger.reports.failed_jobs.kinds_since(run.id, AT + 25 * S, AT + 30 * S, parts=1)
        assert last.parts == {key: [1]}


async def test_however_many_fail_only_so_many_are_looked_at(open_file: OpenLedger) -> None:
    many, clock = failed_jobs.LOOKED_AT_MAX, VirtualClock()
    async with open_file(clock=clock) as ledger:
        run = await a_run(ledger, many + 2)
        await failed(ledger, 1, KEY, at_s=0)
        assert await next_of(ledger, run, many + 2) == 1
        clock.jump(MINUTE_US)
        await obeyed(ledger, "cancel", run=run.id)
        await ledger.jobs.cancels.end(run.id, most=many)
        [left] = [job.id for job in await jobs_now(ledger) if job.state not in TERMINAL]
        await failed(ledger, left, KEY, at_s=120)
        assert await next_of(ledger, run, 1) is None, "it is behind all that were cancelled"
        now = AT + 3 * MINUTE_US
        late = await ledger.reports.failed_jobs.kinds_since(run.id, AT - S, now, parts=1)
        assert late.since > AT, "only of the last part of that time"
        assert late.parts == {error_key(FailureClass.FAILED, KEY): [1]}
