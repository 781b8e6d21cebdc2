"""What is forgotten of jobs that ended long ago, and what never is."""

from pathlib import Path

import pytest
from sqlalchemy import update

from orchestrator.api.outcomes.audit import Findings, audit_ledger
from orchestrator.core.jobs import transitions
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.jobs.segments import Report
from orchestrator.engine.maintenance.pruning import LATE_US, Pruner
from orchestrator.ledger import Ledger
from orchestrator.ledger.jobs.claim_queue import ClaimLine
from orchestrator.ledger.schema.job_tables import submissions
from orchestrator.ledger.transactions.transaction import Transaction
from orchestrator.ledger.transitions.segment_writes import Reported
from orchestrator.settings.run_settings import RunSettings
from tests.factories import TTL_US, S, an_outcome
from tests.ledger.ledgers import a_run, dump, gone, job_now, opened
from tests.simulation.clock import EPOCH_AT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

AT = EPOCH_AT + S
AGAIN = ("claimed", "unanswered", "retried", "claimed")
SETTINGS = RunSettings(events_kept_us=S)


class At:
    """A clock that stands still until it is set."""

    def __init__(self, at: int) -> None:
        self.at = at

    def now(self) -> int:
        return self.at


async def tidied(ledger: Ledger, at: int) -> None:
    """What a process of that time forgets."""
    pruner = Pruner(ledger=ledger, clock=At(at), page=2)
    while await pruner.run_once() is not None:
        pass


def attempts(path: Path) -> dict[int, list[int]]:
    """The attempts of each job of which the submission is still there."""
    found: dict[int, list[int]] = {}
    for _, job, attempt, *_ in dump(path)["submissions"]:
        found.setdefault(job, []).append(attempt)
    return found


async def faults(ledger: Ledger) -> list[object]:
    """What an audit finds."""
    findings = Findings()
    await audit_ledger(ledger, findings, lambda *_: None)
    return list(findings.all())


async def test_submissions_that_can_bring_nothing_more_are_forgotten_some_days_after_their_ttl(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    async with opened(path) as ledger:
        await a_run(ledger, 3, settings=SETTINGS)
        await gone(ledger, await job_now(ledger, 1), *AGAIN, "unanswered", "retried", "claimed", "accepted", at=AT)
        await gone(ledger, await job_now(ledger, 1), "completed", at=AT + 60 * S)
        await gone(ledger, await job_now(ledger, 2), *AGAIN, "unanswered", "abandoned", at=AT + 100 * S)
        await gone(ledger, await job_now(ledger, 3), *AGAIN, "accepted", at=AT + 200 * S)
        before, latest = attempts(path), await ledger.jobs.submissions.latest()
        over = AT + TTL_US + SETTINGS.retention_us + LATE_US

        await tidied(ledger, over - S)
        assert attempts(path) == before == {1: [1, 2, 3], 2: [1, 2], 3: [1, 2]}
        assert [len(await ledger.jobs.history.of(job=n)) for n in (1, 2, 3)] == [1, 1, 5]

        await tidied(ledger, over + 1_000 * S)
        assert attempts(path) == {1: [3], 2: [2], 3: [1, 2]}, "the third is not finished"
        assert await ledger.jobs.submissions.latest() == latest
        assert await faults(ledger) == []


async def test_the_submission_that_brought_the_result_and_those_owed_a_cancel_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    async with opened(path) as ledger:
        await a_run(ledger, 2, settings=SETTINGS)
        won = (await gone(ledger, await job_now(ledger, 1), "claimed", at=AT))[0].after.submission
        resent = (
            await gone(ledger, await job_now(ledger, 1), *AGAIN[1:], "unanswered", "retried", "claimed", at=AT + S)
        )[-1]
        late = an_outcome(resent.after, submission=won, remote_id="r-1")
        await ledger.writer.step(
            transitions.completed(resent.after, late, reason="webhook of an earlier submission", at=AT + 60 * S)
        )
        first = (await gone(ledger, await job_now(ledger, 2), "claimed", at=AT + 100 * S))[0].after.submission
        await gone(ledger, await job_now(ledger, 2), *AGAIN[1:], "accepted", "completed", at=AT + 101 * S)

        async def owe(transaction: Transaction) -> None:
            change = update(submissions).where(submissions.c.id == first)
            await transaction.connection.execute(
                change.values(cancel_at=AT, cancel_why="extra", ttl_at=AT + 900 * TTL_US)
            )

        assert (await job_now(ledger, 1)).state is State.SUCCEEDED
        await ledger.writer.run(owe)
        await tidied(ledger, AT + 400 * TTL_US)

        assert attempts(path) == {1: [1, 3], 2: [1, 2]}
        assert await faults(ledger) == []


async def test_what_was_not_finished_when_it_was_passed_over_is_gone_through_again_a_day_later(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    clock = At(AT + 400 * TTL_US)
    async with opened(path) as ledger:
        await a_run(ledger, 1, settings=SETTINGS)
        await gone(ledger, await job_now(ledger), *AGAIN, "accepted", at=AT)
        pruner = Pruner(ledger=ledger, clock=clock)
        assert await pruner.run_once() is None
        await gone(ledger, await job_now(ledger), "completed", at=AT + 90 * S)
        clock.at += 3_600 * S
        assert await pruner.run_once() is None
        assert attempts(path) == {1: [1, 2]}
        clock.at += 86_400 * S
        assert await pruner.run_once() is None

        assert attempts(path) == {1: [2]}
        assert [row[3] for row in dump(path)["events"]] == ["completed"]


async def test_of_a_job_that_has_ended_the_newest_checkpoint_is_left(tmp_path: Path) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        await a_run(ledger, 2, settings=SETTINGS)
        taken = await ledger.jobs.claims.take(
            ClaimLine(1, endpoint=1, by_retry=False, ttl_of=lambda _: TTL_US),
            most=2,
            settings=RunSettings(resumable=True),
        )
        for claim in taken.claims:
            step = transitions.accepted(claim.job, remote_id=f"r-{claim.job.id}", sent_at=AT, at=AT)
            assert await ledger.writer.step(step)
            for seq in range(5):
                report = Report(seq=seq, share=None, message=None, checkpoint=b'{"n":%d}' % seq)
                reported = Reported(
                    job=claim.job.id, submission=claim.job.submission or 0, report=report, at=AT, begun_at=AT
                )
                await ledger.jobs.segments.report([reported])
        job = await job_now(ledger, 1)
        assert await ledger.writer.step(transitions.completed(job, an_outcome(job), reason="status", at=AT + S))
        await tidied(ledger, AT + 2 * S)
        assert [row.seq for row in await ledger.jobs.segments.checkpoints(1)] == [4]
        assert [row.seq for row in await ledger.jobs.segments.checkpoints(2)] == [0, 1, 2, 3, 4], "it goes on"
