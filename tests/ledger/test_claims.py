"""Claims: which jobs, in which order, by which operation; and submissions whose numbers never come back."""

from pathlib import Path

import pytest

from orchestrator.core import job as steps
from orchestrator.core.job import Job
from orchestrator.core.lifecycle import State
from orchestrator.core.outcome import Trouble
from orchestrator.ledger import Ledger
from orchestrator.ledger.ledger import Claim
from orchestrator.ledger.store import Payload
from tests.factories import STEPS, TTL_US, S, a_row
from tests.ledger.ledgers import a_run, brought_to, dump, job_now, jobs_now, opened
from tests.simulation.clock import EPOCH_AT, VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

NOW = EPOCH_AT


async def claim(ledger: Ledger, *, by_retry: bool = False, most: int = 100, run: int = 1) -> list[Claim]:
    return await ledger.claim(run, by_retry=by_retry, most=most, ttl_of=lambda _: TTL_US)


async def queued(ledger: Ledger, number: int, *, due_at: int, retry_until: int | None = None) -> Job:
    """Job `number`, waiting for its second attempt."""
    job = await brought_to(ledger, State.OUTSTANDING, NOW - 100 * S + number, job=number)
    step = steps.retried(job, Trouble.FAILED, due_at=due_at, retry_until=retry_until, reason="FAILED", at=NOW - 50 * S)
    assert await ledger.step(step)
    return step.after


async def test_jobs_that_waited_go_first_in_order_of_their_due_time_then_fresh_ones_in_input_order(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        await a_run(ledger, 6)
        await queued(ledger, 4, due_at=NOW - 2 * S)
        await queued(ledger, 2, due_at=NOW - S)
        await queued(ledger, 5, due_at=NOW + S)

        assert [each.job.id for each in await claim(ledger, most=4)] == [4, 2, 1, 3]
        assert [each.job.id for each in await claim(ledger)] == [6]
        assert await claim(ledger) == []


async def test_a_claim_takes_no_more_than_it_was_asked_for(tmp_path: Path) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        await a_run(ledger, 5)
        await queued(ledger, 5, due_at=NOW)
        await queued(ledger, 4, due_at=NOW)

        assert len(await claim(ledger, most=1)) == 1
        assert len(await claim(ledger, most=2)) == 2


async def test_claims_by_retry_and_by_run_do_not_meet(tmp_path: Path) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        await a_run(ledger, 5)
        await queued(ledger, 1, due_at=NOW, retry_until=NOW + S)
        await queued(ledger, 2, due_at=NOW, retry_until=NOW)
        await queued(ledger, 3, due_at=NOW)
        await queued(ledger, 4, due_at=NOW + S, retry_until=NOW + 2 * S)

        (again,) = await claim(ledger, by_retry=True)
        assert (again.job.id, again.job.by_retry, again.job.attempt, again.job.first_attempt) == (1, True, 2, 1)
        by_run = await claim(ledger)
        assert [each.job.id for each in by_run] == [2, 3, 5]
        assert not any(each.job.by_retry for each in by_run)


async def test_a_claim_is_durable_and_hands_over_what_is_to_be_sent(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    large = b'{"a":"' + b"a" * 10_000 + b'"}'
    rows = [a_row(1, policy=b'{"ttl":10000}', s3_config=b"{}"), a_row(2, payload=large)]
    seen: list[Payload] = []

    def ttl_of(payload: Payload) -> int:
        seen.append(payload)
        return 10 * S if payload.policy else TTL_US

    async with opened(path) as ledger:
        await a_run(ledger, rows)
        first, second = await ledger.claim(1, by_retry=False, most=9, ttl_of=ttl_of)

        assert first.payload == Payload(b'{"line":1}', b'{"ttl":10000}', b"{}")
        assert second.payload == Payload(large, None, None)
        assert seen == [first.payload, second.payload]
        assert [(job.ttl_at or 0) - (job.sent_at or 0) for job in await jobs_now(ledger)] == [10 * S, TTL_US]
        assert await jobs_now(ledger) == [first.job, second.job]
        assert len(dump(path)["payloads"][1][1]) < 1_000


async def test_each_run_claims_its_own(tmp_path: Path) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        await a_run(ledger, 2, name="one")
        two = await a_run(ledger, 3, name="two")

        assert [each.job.id for each in await claim(ledger, run=two.id)] == [3, 4, 5]


async def test_submissions_count_upwards_and_never_come_back(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    clock = VirtualClock()
    async with opened(path, clock=clock) as ledger:
        await a_run(ledger, 9)
        first = [each.job.submission or 0 for each in await claim(ledger, most=4)]
    async with opened(path, clock=VirtualClock(epoch_at=EPOCH_AT - 3_600 * S)) as ledger:
        second = [each.job.submission or 0 for each in await claim(ledger, most=4)]
        assert await ledger.claim(1, by_retry=True, most=1, ttl_of=lambda _: 1) == []

    assert EPOCH_AT <= first[0] < EPOCH_AT + S
    assert first + second == sorted(set(first + second))


async def test_a_ttl_that_cannot_be_told_claims_nothing(tmp_path: Path) -> None:
    def ttl_of(payload: Payload) -> int:
        raise LookupError(payload.input)

    async with opened(tmp_path / "l.db") as ledger:
        await a_run(ledger)
        with pytest.raises(LookupError):
            await ledger.claim(1, by_retry=False, most=1, ttl_of=ttl_of)
        assert (await job_now(ledger)).state is State.QUEUED


async def test_a_job_that_was_deferred_is_claimed_again_at_no_cost(tmp_path: Path) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        await a_run(ledger)
        (first,) = await claim(ledger)
        await ledger.step(STEPS["interrupted"][1](first.job, NOW))
        (second,) = await claim(ledger)

        assert (second.job.attempt, second.job.first_attempt) == (1, 1)
        assert second.job.submission != first.job.submission
