"""Results that are taken again: by whom, of whom, for how long, and what is written of it."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace
from sqlalchemy import bindparam, update

from orchestrator.core.jobs import transitions
from orchestrator.core.jobs.job import Outcome
from orchestrator.core.jobs.lifecycle import State, replay
from orchestrator.core.jobs.result_reuse import NOTHING_YET, REUSED, Reuse
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.ledger import Ledger
from orchestrator.ledger.jobs.claim_queue import ClaimLine
from orchestrator.ledger.jobs.claims import Claimed
from orchestrator.ledger.jobs.result_reuse import BYTES_MAX
from orchestrator.ledger.schema.job_tables import outcomes
from orchestrator.ledger.schema.row_codec import checksum
from orchestrator.settings.run_settings import RunSettings
from orchestrator.units import HOUR_US
from tests.factories import SETTINGS, TTL_US, S, a_row
from tests.ledger.ledgers import OpenLedger, a_run, job_now, taken_in
from tests.simulation.clock import EPOCH_AT, VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

NOW = EPOCH_AT
REUSE = Reuse(young_us=HOUR_US, version="v1")


async def claimed(ledger: Ledger, run: int, reuse: Reuse | None = REUSE, *, most: int = 100) -> Claimed:
    return await ledger.jobs.claims.take(
        ClaimLine(run, endpoint=1, by_retry=False, ttl_of=lambda _: TTL_US),
        most=most,
        settings=RunSettings(reuse=reuse),
    )


async def with_results(ledger: Ledger, outputs: Sequence[bytes | None]) -> None:
    """A run `first`, claimed for reuse, of which these rows succeed; those with None fail."""
    await a_run(ledger, len(outputs), name="first")
    claims = (await claimed(ledger, 1)).claims
    for claim, output in zip(claims, outputs, strict=True):
        job, at = claim.job, ledger.now() + S
        step = transitions.accepted(job, remote_id=f"remote-{job.id}", sent_at=at, at=at)
        assert await ledger.writer.step(step)
        job = step.after
        outcome = Outcome(submission=job.submission, remote_id=job.remote_id, status="COMPLETED", output=output)
        if output is None:
            outcome = replace(outcome, status="FAILED", trouble=FailureClass.FAILED, message="no")
            assert await ledger.writer.step(transitions.abandoned(job, outcome, reason="FAILED", at=at))
        else:
            assert await ledger.writer.step(transitions.completed(job, outcome, reason="status", at=at))


async def test_a_job_of_which_there_is_a_result_has_it_without_being_sent(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        await with_results(ledger, [b'{"a":1}', None, b"null"])
        run = await a_run(ledger, 4, name="second")
        claims = (await claimed(ledger, run.id)).claims

        assert [claim.job.id for claim in claims] == [5, 7]
        found = await ledger.jobs.results.page(run.id, [State.SUCCEEDED], after=(0, 0), most=9, bytes_max=1 << 20)
        assert [(job.job, job.output, job.remote_id) for job in found] == [
            (4, b'{"a":1}', "remote-1"),
            (6, b"null", "remote-3"),
        ]
        for job, line in zip(found, (1, 3), strict=True):
            assert (job.attempts, job.paid_at_most, job.execution_ms) == (0, 0, None)
            assert job.reused is not None
            assert (job.reused.run, job.reused.custom_id) == ("first", a_row(line).custom_id)
        counts = await ledger.runs.counts(run.id)
        assert (counts["succeeded"], counts["submitting"], counts[REUSED]) == (2, 2, 2)


async def test_each_of_it_is_an_event_with_its_reason_and_events_lead_to_the_state(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        await with_results(ledger, [b"1"])
        run = await a_run(ledger, 2, name="second")
        await claimed(ledger, run.id)
        [event] = await ledger.jobs.history.of(2)
        assert (event.event, event.reason) == ("completed", f"reused: the result of {a_row(1).custom_id} of first")
        assert replay([event.event]) is State.SUCCEEDED
        [event] = await ledger.jobs.history.of(3)
        assert (event.event, event.reason) == ("claimed", f"run; not reused: {NOTHING_YET}")
        assert await ledger.jobs.reused.why_not([1, 2, 3]) == {1: NOTHING_YET, 3: NOTHING_YET}
        origins = await ledger.jobs.reused.origins([1, 2, 3])
        assert {job: of.run for job, of in origins.items()} == {2: "first"}


@pytest.mark.parametrize(
    "other", [Reuse(young_us=HOUR_US, version="v2"), Reuse(young_us=HOUR_US), None], ids=["v2", "none", "off"]
)
async def test_results_of_another_version_are_not_taken(open_file: OpenLedger, other: Reuse | None) -> None:
    async with open_file() as ledger:
        await with_results(ledger, [b"1"])
        run = await a_run(ledger, 1, name="second")
        assert len((await claimed(ledger, run.id, other)).claims) == 1


async def test_nor_are_those_of_another_input_or_endpoint_or_service(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        await with_results(ledger, [b"1"])
        for number, (url, endpoint) in enumerate(
            (("https://api.example", "other"), ("https://other.example", "ep")), start=2
        ):
            run = await ledger.runs.create(
                name=endpoint, service_url=url, endpoint=endpoint, source="/in", settings=SETTINGS
            )
            await taken_in(ledger, run, [a_row(1)])
            taken = await ledger.jobs.claims.take(
                ClaimLine(run.id, endpoint=number, by_retry=False, ttl_of=lambda _: TTL_US),
                most=9,
                settings=RunSettings(reuse=REUSE),
            )
            assert len(taken.claims) == 1
        run = await a_run(ledger, [a_row(1, payload=b'{"line":2}')], name="second")
        assert len((await claimed(ledger, run.id)).claims) == 1


async def test_an_old_result_is_not_taken_and_the_claim_says_why(open_file: OpenLedger) -> None:
    clock = VirtualClock()
    async with open_file(clock=clock) as ledger:
        await with_results(ledger, [b"1"])
        clock.jump(HOUR_US + 2 * S)
        run = await a_run(ledger, 1, name="second")
        assert len((await claimed(ledger, run.id)).claims) == 1
        assert await ledger.jobs.reused.why_not([2]) == {
            2: "the latest result is of 2026-01-01T00:00:01+00:00, older than 1 h"
        }


async def test_the_newest_of_several_results_is_taken_and_one_that_was_taken_does_not_grow_younger(
    open_file: OpenLedger,
) -> None:
    clock = VirtualClock()
    async with open_file(clock=clock) as ledger:
        await with_results(ledger, [b"1"])
        clock.jump(HOUR_US // 2)
        run = await a_run(ledger, 1, name="second")
        assert (await claimed(ledger, run.id)).claims == []
        clock.jump(HOUR_US // 2 + 2 * S)
        run = await a_run(ledger, 1, name="third")
        assert len((await claimed(ledger, run.id)).claims) == 1


async def test_a_damaged_result_is_not_taken(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        await with_results(ledger, [b'{"a":1}'])
        await ledger.jobs._access.alone.execute(update(outcomes).values(output=b'{"a":2}'))
        run = await a_run(ledger, 1, name="second")
        assert len((await claimed(ledger, run.id)).claims) == 1
        assert "cannot be read" in (await ledger.jobs.reused.why_not([2]))[2]


async def test_results_that_are_too_much_at_once_are_taken_one_after_the_other(open_file: OpenLedger) -> None:
    large = [b'"%b"' % (b"%d" % n * (3 * BYTES_MAX // 4)) for n in (1, 2)]  # stored as they are
    async with open_file() as ledger:
        await with_results(ledger, [b"1", b"2"])
        change = update(outcomes).where(outcomes.c.job_id == bindparam("of"))
        for job, output in enumerate(large, start=1):
            await ledger.jobs._access.alone.execute(
                change.values(output=output, checksum=checksum(job, output)), {"of": job}
            )
        run = await a_run(ledger, 3, name="second")
        taken = await claimed(ledger, run.id)
        assert ([claim.job.id for claim in taken.claims], taken.is_at_end) == ([5], False)
        assert (await ledger.runs.counts(run.id))["queued"] == 1
        taken = await claimed(ledger, run.id)
        assert (taken.claims, taken.is_at_end) == ([], True)
        assert (await ledger.runs.counts(run.id))[REUSED] == 2


async def test_what_is_claimed_by_nobody_is_taken_by_nobody_twice(open_file: OpenLedger) -> None:
    """A job that was waiting for its second execution has the result, too."""
    async with open_file() as ledger:
        await with_results(ledger, [b"1"])
        run = await a_run(ledger, 1, name="second")
        [claim] = (await claimed(ledger, run.id, None)).claims
        assert await ledger.writer.step(transitions.deferred(claim.job, due_at=NOW, reason="not sent", at=NOW))
        assert (await claimed(ledger, run.id)).claims == []
        job = await job_now(ledger, 2)
        assert (job.state, job.submission) == (State.SUCCEEDED, claim.job.submission)
        assert (await claimed(ledger, run.id)).claims == []


async def test_a_result_whose_job_is_gone_is_taken_by_nobody_and_what_was_taken_stays(
    open_file: OpenLedger,
) -> None:
    async with open_file() as ledger:
        await with_results(ledger, [b"1"])
        second = await a_run(ledger, 1, name="second")
        assert (await claimed(ledger, second.id)).claims == []
        assert await ledger.runs.take_back(1)
        await ledger.runs.intakes.clear("first")
        third = await a_run(ledger, 1, name="third")
        assert len((await claimed(ledger, third.id)).claims) == 1
        [job] = await ledger.jobs.results.page(second.id, [State.SUCCEEDED], after=(0, 0), most=9, bytes_max=1 << 20)
        assert job.output == b"1"
        assert job.reused is not None
        assert job.reused.run == "first"
