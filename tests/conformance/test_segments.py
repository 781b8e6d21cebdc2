"""Segments of resumable jobs: reports in any order, the newest checkpoint, and what the next segment is given."""

from itertools import permutations

import pytest

from orchestrator.core.jobs import transitions
from orchestrator.core.jobs.cancel_reason import CancelWhy
from orchestrator.core.jobs.job import Job
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.jobs.segments import CHECKPOINTS_KEPT, Mark, Report, Resume, SegmentEnd
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.ledger import Ledger
from orchestrator.ledger.jobs.claim_queue import ClaimLine
from orchestrator.ledger.jobs.claims import Claim
from orchestrator.ledger.transitions.segment_writes import Reported
from orchestrator.settings.run_settings import RunSettings
from tests.factories import TTL_US, S
from tests.ledger.ledgers import OpenLedger, a_run, job_now
from tests.simulation.clock import EPOCH_AT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

NOW = EPOCH_AT


async def begun(ledger: Ledger, *, remote_id: str = "r") -> Claim:
    """The next segment of job 1, at the service."""
    [claim] = (
        await ledger.jobs.claims.take(
            ClaimLine(1, endpoint=1, by_retry=False, ttl_of=lambda _: TTL_US),
            most=1,
            settings=RunSettings(resumable=True),
        )
    ).claims
    await ledger.writer.step(
        transitions.accepted(claim.job, remote_id=remote_id, sent_at=claim.job.sent_at or 0, at=NOW)
    )
    return claim


def told(job: Job, seq: int | None, checkpoint: bytes | None = None, *, at: int = NOW) -> Reported:
    report = Report(seq=seq, share=0.5, message=f"n {seq}", checkpoint=checkpoint)
    return Reported(job=job.id, submission=job.submission or 0, report=report, at=at, begun_at=NOW + S)


async def ended(ledger: Ledger, *, execution_ms: int = 700, report: Report | None = None) -> None:
    """The segment at the service has come further, and ends."""
    end = SegmentEnd(has_progressed=True, report=report, execution_ms=execution_ms, executed_ms=0)
    step = transitions.continued(
        await job_now(ledger), end, due_at=0, reason="FAILED", at=NOW, trouble=FailureClass.FAILED
    )
    assert await ledger.writer.step(step)


async def test_each_run_of_a_resumable_job_is_a_segment_with_the_newest_checkpoint(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        await a_run(ledger, 1)
        first = await begun(ledger)
        assert first.resume == Resume(segment=1, checkpoint=None, executed_ms=0)
        await ledger.jobs.segments.report([told(first.job, 1, b'{"n":1}'), told(first.job, 2, b'{"n":2}')])
        await ended(ledger)
        second = await begun(ledger)
        assert second.resume == Resume(segment=2, checkpoint=b'{"n":2}', executed_ms=700)
        standing = (await ledger.jobs.segments.standings([1]))[1]
        assert (standing.given, standing.newest, standing.executed_ms) == (Mark(1, 2), Mark(1, 2), 700)
        job = await job_now(ledger)
        assert (job.segment, job.state, job.failures) == (2, State.OUTSTANDING, 0)


async def test_a_request_that_had_no_effect_costs_the_number_of_its_segment_and_no_attempt(
    open_file: OpenLedger,
) -> None:
    async with open_file() as ledger:
        await a_run(ledger, 1)
        [claim] = (
            await ledger.jobs.claims.take(
                ClaimLine(1, endpoint=1, by_retry=False, ttl_of=lambda _: TTL_US),
                most=1,
                settings=RunSettings(resumable=True),
            )
        ).claims
        await ledger.writer.step(
            transitions.deferred(claim.job, due_at=0, reason="429", at=NOW, trouble=FailureClass.THROTTLED)
        )
        again = await begun(ledger)
        assert (again.job.segment, again.job.attempt) == (2, 1)


async def test_an_ordinary_job_has_no_segment(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        await a_run(ledger, 1)
        [claim] = (
            await ledger.jobs.claims.take(ClaimLine(1, endpoint=1, by_retry=False, ttl_of=lambda _: TTL_US), most=1)
        ).claims
        assert (claim.resume, claim.job.segment) == (None, 0)
        assert await ledger.jobs.segments.standings([1]) == {}
        assert await ledger.jobs.segments.report([told(claim.job, 1, b"1")]) == [None]
        assert await ledger.jobs.segments.checkpoint(1) is None


@pytest.mark.parametrize("order", list(permutations(range(3))))
async def test_whatever_the_order_of_reports_the_newest_checkpoint_stands(
    open_file: OpenLedger, order: tuple[int, ...]
) -> None:
    async with open_file() as ledger:
        await a_run(ledger, 1)
        first = (await begun(ledger)).job
        await ledger.jobs.segments.report([told(first, 1, b'{"n":1}')])
        await ended(ledger)
        second = (await begun(ledger, remote_id="r-2")).job
        late = [told(first, 9, b'{"n":9}'), told(second, 1, b'{"m":1}'), told(second, 2, b'{"m":2}')]
        for place in order:
            await ledger.jobs.segments.report([late[place]])
        assert await ledger.jobs.segments.checkpoint(1) == (Mark(2, 2), b'{"m":2}')
        assert [(row.segment, row.seq) for row in await ledger.jobs.segments.of_job(1)] == [(1, 9), (2, 2)]


async def test_a_report_that_is_known_or_older_changes_nothing(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        await a_run(ledger, 1)
        job = (await begun(ledger)).job
        [news] = await ledger.jobs.segments.report([told(job, 5, b"[1]", at=NOW + S)])
        assert news is not None
        assert (news.seq, news.reported_at, news.is_checkpoint) == (5, NOW + S, True)
        for seq in (5, 4):
            [known] = await ledger.jobs.segments.report([told(job, seq, b"[2]", at=NOW + 9 * S)])
            assert known is not None
            assert (known.seq, known.reported_at, known.is_checkpoint) == (5, NOW + S, False)
        [row] = await ledger.jobs.segments.of_job(1)
        assert (row.share, row.message, row.begun_at) == (0.5, "n 5", NOW + S)


async def test_a_checkpoint_that_is_repeated_is_kept_once(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        await a_run(ledger, 1)
        job = (await begun(ledger)).job
        texts = [b'{"a":1,"b":2}', b'{"b":2,"a":1}', None, b'{"a":1,"b":3}']
        found = await ledger.jobs.segments.report([told(job, seq, text) for seq, text in enumerate(texts)])
        assert [each is not None and each.is_checkpoint for each in found] == [True, False, False, True]
        assert [(row.seq, row.bytes) for row in await ledger.jobs.segments.checkpoints(1)] == [(0, 13), (3, 13)]


async def test_the_latest_twenty_checkpoints_are_kept(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        await a_run(ledger, 1)
        job = (await begun(ledger)).job
        await ledger.jobs.segments.report([told(job, seq, b"%d" % seq * 5_000) for seq in range(1, 31)])
        kept = await ledger.jobs.segments.checkpoints(1)
        assert [row.seq for row in kept] == list(range(31 - CHECKPOINTS_KEPT, 31))
        assert await ledger.jobs.segments.checkpoint(1) == (Mark(1, 30), b"30" * 5_000)


async def test_what_a_worker_gives_back_is_kept_with_the_step_that_it_causes(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        await a_run(ledger, 1)
        job = (await begun(ledger)).job
        await ledger.jobs.segments.report([told(job, 3, b"[3]")])
        await ended(ledger, report=Report(seq=None, checkpoint=b"[4]"))
        assert await ledger.jobs.segments.checkpoint(1) == (Mark(1, 4), b"[4]")
        [row] = await ledger.jobs.segments.of_job(1)
        assert (row.seq, row.execution_ms) == (4, 700)
        assert (await ledger.jobs.history.of(job=1))[-1].event == "continued"
        assert (await ledger.runs.counts(run=1))["continued_segments"] == 1


async def test_when_a_worker_began_is_what_was_told_first(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        await a_run(ledger, 1)
        job = (await begun(ledger)).job
        for at in (NOW + 2 * S, NOW + 3 * S):
            await ledger.jobs.segments.begun(job=1, submission=job.submission or 0, begun_at=at)
        await ledger.jobs.segments.report([told(job, 1)])
        [row] = await ledger.jobs.segments.of_job(1)
        assert row.begun_at == NOW + 2 * S


async def test_a_new_checkpoint_ends_the_grace_of_a_job_that_is_to_be_cancelled(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        await a_run(ledger, 1)
        job = (await begun(ledger)).job
        await ledger.jobs.segments.report([told(job, 1, b"[1]")])
        await ledger.jobs.cancels.owe([1], CancelWhy.ASKED, now=NOW + 3_600 * S)
        await ledger.jobs.segments.report([told(job, 2, b"[1]")])
        assert await ledger.jobs.cancels.due(now=NOW + S, after=(0, 0), most=9) == []
        await ledger.jobs.segments.report([told(job, 3, b"[2]", at=NOW + S)])
        assert len(await ledger.jobs.cancels.due(now=NOW + S, after=(0, 0), most=9)) == 1


async def test_the_unfinished_jobs_of_a_run_with_how_far_they_are(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        await a_run(ledger, 3)
        job = (await begun(ledger)).job
        await ledger.jobs.segments.report([told(job, 1, b"[1]", at=NOW + S)])
        await ended(ledger)
        rows = await ledger.jobs.segments.unfinished(1, after=0, most=2)
        assert [(row.job, row.state, row.segment, row.share) for row in rows] == [
            (1, "queued", 1, 0.5),
            (2, "queued", 0, None),
        ]
        assert (rows[0].message, rows[0].checkpoint_at, rows[0].executed_ms) == ("n 1", NOW + S, 700)
        assert [row.job for row in await ledger.jobs.segments.unfinished(1, after=2, most=9)] == [3]


async def test_a_run_that_is_removed_leaves_nothing_of_its_segments(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run = await a_run(ledger, 1)
        job = (await begun(ledger)).job
        await ledger.jobs.segments.report([told(job, 1, b"[1]")])
        await ended(ledger)
        assert await ledger.runs.take_back(1)
        await ledger.runs.intakes.clear(run.name)
        assert (await ledger.jobs.segments.of_job(1), await ledger.jobs.segments.checkpoints(1)) == ([], [])
