"""Claims: which jobs, in which order, by which operation; and submissions whose numbers never come back."""

import pytest

from orchestrator.core.jobs import transitions
from orchestrator.core.jobs.job import Job
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.ledger import Ledger
from orchestrator.ledger.jobs.claim_queue import HEAD, LOOK_MAX, ClaimLine, Passed
from orchestrator.ledger.jobs.claims import SLOTS, Claim, Claimed, next_submission
from orchestrator.ledger.jobs.payloads import Payload
from tests.factories import STEPS, TTL_US, S, a_row
from tests.ledger.ledgers import OpenLedger, a_run, added, brought_to, job_now, jobs_now
from tests.simulation.clock import EPOCH_AT, VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

NOW = EPOCH_AT


async def claim(ledger: Ledger, *, by_retry: bool = False, most: int = 100, run: int = 1) -> list[Claim]:
    return (
        await ledger.jobs.claims.take(ClaimLine(run, endpoint=1, by_retry=by_retry, ttl_of=lambda _: TTL_US), most=most)
    ).claims


async def queued(ledger: Ledger, number: int, *, due_at: int, retry_until: int | None = None) -> Job:
    """Job `number`, waiting for its second attempt."""
    job = await brought_to(ledger, State.OUTSTANDING, NOW - 100 * S + number, job=number)
    step = transitions.retried(
        job, FailureClass.FAILED, due_at=due_at, retry_until=retry_until, reason="FAILED", at=NOW - 50 * S
    )
    assert await ledger.writer.step(step)
    return step.after


async def test_jobs_that_waited_go_first_in_order_of_their_due_time_then_fresh_ones_in_input_order(
    open_file: OpenLedger,
) -> None:
    async with open_file() as ledger:
        await a_run(ledger, 6)
        await queued(ledger, 4, due_at=NOW - 2 * S)
        await queued(ledger, 2, due_at=NOW - S)
        await queued(ledger, 5, due_at=NOW + S)

        assert [each.job.id for each in await claim(ledger, most=4)] == [4, 2, 1, 3]
        assert [each.job.id for each in await claim(ledger)] == [6]
        assert await claim(ledger) == []


async def test_of_those_who_did_not_wait_for_different_times_a_higher_priority_goes_first(
    open_file: OpenLedger,
) -> None:
    priorities = {3: 1, 4: -10, 5: 10, 7: 1, 8: -10}
    async with open_file() as ledger:
        await a_run(ledger, [a_row(n, priority=priorities.get(n, 0)) for n in range(1, 10)])
        await queued(ledger, 8, due_at=NOW - S)
        await queued(ledger, 6, due_at=NOW - S)
        await queued(ledger, 7, due_at=NOW - S)
        await queued(ledger, 9, due_at=NOW - 2 * S)

        assert [each.job.id for each in await claim(ledger, most=5)] == [9, 7, 6, 8, 5]
        assert [each.job.id for each in await claim(ledger, most=2)] == [3, 1]
        assert [each.job.id for each in await claim(ledger)] == [2, 4]


async def test_a_claim_takes_no_more_than_it_was_asked_for(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        await a_run(ledger, 5)
        await queued(ledger, 5, due_at=NOW)
        await queued(ledger, 4, due_at=NOW)

        assert len(await claim(ledger, most=1)) == 1
        assert len(await claim(ledger, most=2)) == 2


async def test_what_retry_has_no_room_for_may_be_claimed_for_a_new_run(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        await a_run(ledger, 6)
        for number in (1, 2, 3, 4, 5):
            await queued(ledger, number, due_at=NOW - (10 - number) * S, retry_until=NOW + 100 * S)
        [second] = [each for each in await claim(ledger, by_retry=True, most=2) if each.job.id == 2]
        [again] = [transitions.deferred(
            second.job, due_at=NOW - 3 * S, reason="503", at=NOW, trouble=FailureClass.SERVER, retry_until=NOW + 100 * S
        )]  # fmt: skip
        assert await ledger.writer.step(again)

        taken = await ledger.jobs.claims.take(
            ClaimLine(1, endpoint=1, by_retry=False, ttl_of=lambda _: TTL_US), most=9, left_to_retry=1
        )

        assert [each.job.id for each in taken.claims] == [4, 5], "the first is left, and one of which a request failed"
        assert {(each.job.by_retry, each.job.attempt, each.job.first_attempt) for each in taken.claims} == {
            (False, 2, 2)
        }
        assert {each.job.remote_id for each in taken.claims} == {None}


async def test_claims_by_retry_and_by_run_do_not_meet(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
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


async def test_a_claim_is_durable_and_hands_over_what_is_to_be_sent(open_file: OpenLedger) -> None:
    large = b'{"a":"' + b"a" * 10_000 + b'"}'
    rows = [a_row(1, policy=b'{"ttl":10000}', s3_config=b"{}"), a_row(2, payload=large)]
    seen: list[Payload] = []

    def ttl_of(payload: Payload) -> int:
        seen.append(payload)
        return 10 * S if payload.policy else TTL_US

    async with open_file() as ledger:
        await a_run(ledger, rows)
        first, second = (
            await ledger.jobs.claims.take(ClaimLine(1, endpoint=1, by_retry=False, ttl_of=ttl_of), most=9)
        ).claims

        assert first.payload == Payload(b'{"line":1}', b'{"ttl":10000}', b"{}")
        assert second.payload == Payload(large, None, None)
        assert seen[-2:] == [first.payload, second.payload]
        assert [(job.ttl_at or 0) - (job.sent_at or 0) for job in await jobs_now(ledger)] == [10 * S, TTL_US]
        assert await jobs_now(ledger) == [first.job, second.job]


async def test_each_run_claims_its_own(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        await a_run(ledger, 2, name="one")
        two = await a_run(ledger, 3, name="two")

        assert [each.job.id for each in await claim(ledger, run=two.id)] == [3, 4, 5]


async def test_submissions_count_upwards_and_never_come_back(open_file: OpenLedger) -> None:
    clock = VirtualClock()
    async with open_file(clock=clock) as ledger:
        await a_run(ledger, 9)
        first = [each.job.submission or 0 for each in await claim(ledger, most=4)]
    async with open_file(clock=VirtualClock(epoch_at=EPOCH_AT - 3_600 * S)) as ledger:
        second = [each.job.submission or 0 for each in await claim(ledger, most=4)]
        assert (
            await ledger.jobs.claims.take(ClaimLine(1, endpoint=1, by_retry=True, ttl_of=lambda _: 1), most=1)
        ).claims == []

    assert EPOCH_AT <= first[0] < EPOCH_AT + S
    assert first + second == sorted(set(first + second))


async def test_numbers_of_two_processes_never_meet_and_are_hardly_ahead_of_their_claims() -> None:
    clocks = {0: NOW, 5: NOW - 7 * S, 63: NOW + 31}  # by which each process claims
    given: list[int] = []
    for slot, now in clocks.items():
        latest = NOW - 3  # of an older program: any microsecond
        for n in range(10_000):
            at = now + (n >= 5_000) * S
            number = next_submission(latest, slot=slot, now=at)
            assert number > latest
            assert number >= at
            assert number % SLOTS == slot
            given.append(number)
            latest = number
        assert latest - max(now + S, NOW) < 10_000 * SLOTS
        assert next_submission(latest, slot=slot, now=now + 60 * S) - (now + 60 * S) <= SLOTS + slot
    assert len(set(given)) == len(given)


@pytest.mark.slow
async def test_a_burst_of_claims_does_not_look_like_a_clock_that_was_ahead(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        await a_run(ledger, 20_000)
        assert len(await claim(ledger, most=20_000)) == 20_000
        assert await ledger.jobs.submissions.latest() > NOW + S
    async with open_file() as ledger:
        assert ledger.was_ahead_us == 0


async def test_a_ttl_that_cannot_be_told_claims_nothing(open_file: OpenLedger) -> None:
    def ttl_of(payload: Payload) -> int:
        raise LookupError(payload.input)

    async with open_file() as ledger:
        await a_run(ledger)
        with pytest.raises(LookupError):
            await ledger.jobs.claims.take(ClaimLine(1, endpoint=1, by_retry=False, ttl_of=ttl_of), most=1)
        assert (await job_now(ledger)).state is State.QUEUED


async def test_a_job_that_was_deferred_is_claimed_again_at_no_cost(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        await a_run(ledger)
        (first,) = await claim(ledger)
        await ledger.writer.step(STEPS["interrupted"][1](first.job, NOW))
        (second,) = await claim(ledger)

        assert (second.job.attempt, second.job.first_attempt) == (1, 1)
        assert second.job.submission != first.job.submission


async def test_the_inputs_of_a_claim_come_to_no_more_than_it_may_hold_but_one_may_always_go(
    open_file: OpenLedger,
) -> None:
    async def claimed(bytes_max: int) -> list[int]:
        claims = (
            await ledger.jobs.claims.take(
                ClaimLine(1, endpoint=1, by_retry=False, ttl_of=lambda _: TTL_US), most=9, bytes_max=bytes_max
            )
        ).claims
        return [each.job.id for each in claims]

    async with open_file() as ledger:
        sizes = (100, 100, 10_000, 10_000, 100)  # from 4 KB on they are packed
        await a_run(ledger, [a_row(n, payload=b"%d" % n * size) for n, size in enumerate(sizes, start=1)])

        assert await claimed(0) == [1]
        assert await claimed(10_099) == [2]
        assert await claimed(20_099) == [3, 4]
        assert await claimed(100) == [5]


def ttl_in_policy(payload: Payload) -> int:
    return int(payload.policy or b"0")


def is_short(ttl_us: int) -> bool:
    return ttl_us < TTL_US


async def along(ledger: Ledger, *, most: int = 1, behind: Passed = HEAD, met: list[Payload] | None = None) -> Claimed:
    """What is claimed `behind` where only `TTL_US` is long enough; `met` gets what was read."""

    def ttl_of(payload: Payload) -> int:
        if met is not None:
            met.append(payload)
        return ttl_in_policy(payload)

    return await ledger.jobs.claims.take(
        ClaimLine(1, endpoint=1, by_retry=False, ttl_of=ttl_of, is_late=is_short, behind=behind),
        most=most,
        bytes_max=10**6,
    )


async def test_jobs_whose_ttl_is_too_short_are_passed_over_and_nothing_is_written(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        await a_run(ledger, [a_row(n, policy=b"%d" % (TTL_US if n in {3, 5} else n)) for n in range(1, 7)])
        before = await jobs_now(ledger)
        first = await along(ledger)
        assert ([each.job.id for each in first.claims], first.passed.ttl_us, first.is_at_end) == ([3], 2, False)
        second = await along(ledger, most=9, behind=first.passed)
        assert ([each.job.id for each in second.claims], second.passed.ttl_us, second.is_at_end) == ([5], 6, True)
        assert [job for job in await jobs_now(ledger) if job.id not in {3, 5}] == [
            job for job in before if job.id not in {3, 5}
        ]
        assert [len(await ledger.jobs.history.of(job.id)) for job in before] == [0, 0, 1, 0, 1, 0]

        assert [each.job.id for each in await claim(ledger)] == [1, 2, 4, 6]


async def test_a_look_goes_on_behind_those_of_every_priority_and_meets_newcomers_who_belong_before_them(
    open_file: OpenLedger,
) -> None:
    async with open_file() as ledger:
        rows = {1: (0, 1), 2: (0, 1), 3: (5, 1), 4: (-1, 1), 5: (5, TTL_US), 6: (-1, TTL_US)}
        await a_run(ledger, [a_row(n, priority=p, policy=b"%d" % ttl_us) for n, (p, ttl_us) in rows.items()])
        first = await along(ledger)
        assert ([each.job.id for each in first.claims], first.passed.fresh_priority) == ([5], 5)
        run = await ledger.runs.named("run")
        assert run is not None
        intake = await ledger.runs.intakes.start(run)
        late = {7: (9, 1), 8: (0, TTL_US), 9: (9, TTL_US)}
        await added(ledger, intake, [a_row(n, priority=p, policy=b"%d" % ttl_us) for n, (p, ttl_us) in late.items()])
        await ledger.runs.intakes.accept(intake)

        second = await along(ledger, most=2, behind=first.passed)
        assert [each.job.id for each in second.claims] == [9, 8]
        last = await along(ledger, behind=second.passed)
        assert [each.job.id for each in last.claims] == [6]
        assert (await along(ledger, behind=last.passed)).is_at_end


async def test_what_a_row_says_of_its_priority_now_holds_for_a_job_that_is_there(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        await a_run(ledger, [a_row(n) for n in range(1, 4)])
        run = await ledger.runs.named("run")
        assert run is not None
        intake = await ledger.runs.intakes.start(run)
        await added(ledger, intake, [a_row(1), a_row(2), a_row(3, priority=1)])
        await ledger.runs.intakes.accept(intake)

        assert [each.job.id for each in await claim(ledger)] == [3, 1, 2]


async def test_those_who_waited_for_a_time_are_passed_over_by_their_times_and_numbers(
    open_file: OpenLedger,
) -> None:
    async with open_file() as ledger:
        await a_run(ledger, [a_row(n, policy=b"%d" % (TTL_US if n in {4, 6} else n)) for n in range(1, 8)])
        for n in (2, 3, 4):
            await queued(ledger, n, due_at=NOW - S)
        await queued(ledger, 5, due_at=NOW - 2 * S)
        await queued(ledger, 6, due_at=NOW + S)

        first = await along(ledger)
        assert ([each.job.id for each in first.claims], first.passed.due_at, first.is_at_end) == ([4], NOW - S, False)
        last = await along(ledger, behind=first.passed)
        assert (last.claims, last.passed.fresh_job, last.is_at_end) == ([], 7, True)
        assert await ledger.jobs.next_queued_at(run=1, endpoint=1, by_retry=False, now=NOW, after=NOW) == NOW + S


@pytest.mark.slow
async def test_a_look_meets_a_bounded_number_of_late_jobs_and_never_the_same_ones_again(
    open_file: OpenLedger,
) -> None:
    number = 20_000
    async with open_file() as ledger:
        await a_run(ledger, [a_row(n, policy=b"1") for n in range(1, number + 1)])
        behind, looks = HEAD, 0
        while True:
            met: list[Payload] = []
            claimed = await along(ledger, most=4, behind=behind, met=met)
            assert len(met) <= LOOK_MAX
            if claimed.is_at_end:
                break
            behind, looks = claimed.passed, looks + 1
        assert looks == number / LOOK_MAX
        met.clear()
        assert (await along(ledger, most=400, behind=claimed.passed, met=met)).passed == claimed.passed
        assert met == []


async def test_late_jobs_with_large_inputs_are_read_a_few_at_a_time(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        large = b'"' + b"a" * 400_000 + b'"'
        await a_run(ledger, [a_row(n, payload=large, policy=b"%d" % (TTL_US if n == 9 else 1)) for n in range(1, 10)])
        behind, read = HEAD, []
        while True:
            met: list[Payload] = []
            claimed = await along(ledger, behind=behind, met=met)
            read.append(len(met))
            if claimed.claims:
                break
            behind = claimed.passed
        assert [each.job.id for each in claimed.claims] == [9]
        assert max(read[:-1]) <= 3


async def test_behind_those_that_are_passed_over_a_claim_holds_no_more_bytes_than_it_may(
    open_file: OpenLedger,
) -> None:
    async with open_file() as ledger:
        large = b'"' + b"a" * 700_000 + b'"'
        ttls = {1: 1, 2: TTL_US, 3: TTL_US}
        await a_run(ledger, [a_row(n, payload=large if n > 1 else b"1", policy=b"%d" % ttls[n]) for n in ttls])
        first = await along(ledger, most=2)
        assert ([each.job.id for each in first.claims], first.is_at_end) == ([2], False)
        assert [each.job.id for each in (await along(ledger, most=2, behind=first.passed)).claims] == [3]
