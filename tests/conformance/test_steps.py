"""Steps: guarded, taken once with everything that follows from them, or not at all."""

import random
from typing import Any

import msgspec
import pytest

from orchestrator.core.jobs import transitions
from orchestrator.core.jobs.lifecycle import TERMINAL, Event, State, is_legal
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.ledger import Ledger
from orchestrator.ledger.jobs.results import FinishedJob
from orchestrator.ledger.schema.job_tables import GIVEN_UP
from tests.factories import STEPS, S, an_outcome
from tests.ledger.ledgers import OpenLedger, a_run, brought_to, gone, job_now, jobs_now
from tests.simulation.clock import EPOCH_AT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]
AT = EPOCH_AT + 1_000 * S


async def everything(ledger: Ledger, *, submissions: bool = True) -> list[object]:
    """All that the ledger says of run 1; with or without what stands on the submissions of its jobs."""
    jobs = await jobs_now(ledger)
    if not submissions:
        jobs = [msgspec.structs.replace(job, remote_id=None, sent_at=None, ttl_at=None) for job in jobs]
    return [
        jobs,
        [await ledger.jobs.history.of(job.id) for job in jobs],
        await ledger.runs.counts(1),
        await ledger.jobs.results.page(1, list(TERMINAL), after=(-1, -1), most=99, bytes_max=1 << 20)
        if submissions
        else [],
        await ledger.jobs.cancels.due(now=AT + 10**12, after=(0, 0), most=99),
    ]


POSSIBLE = [
    (name, state)
    for name, (event, _) in STEPS.items()
    for state in State
    if is_legal(state, event) and "for_retry" not in name and (name != "retried_remotely" or state is State.OUTSTANDING)
]


WRONG: list[dict[str, Any]] = [{"submission": 7}, {"submission": None}, {"attempt": 99}, {"id": 2}, {"id": 999}]


def made_for(step: Transition, **wrong: Any) -> Transition:
    """`step`, made for a job that was different."""
    return msgspec.structs.replace(step, before=msgspec.structs.replace(step.before, **wrong))


@pytest.mark.parametrize(("name", "state"), POSSIBLE)
async def test_a_step_is_taken_once_and_only_from_what_it_was_made_for(
    name: str, state: State, open_file: OpenLedger
) -> None:
    async with open_file() as ledger:
        await a_run(ledger, 2)
        other = await gone(ledger, await job_now(ledger, 2), "claimed", at=AT - S)
        job = await brought_to(ledger, state, AT - 100 * S)
        step = STEPS[name][1](job, AT)
        late = step.event is Event.ACCEPTED  # a late answer still tells what its submission is called
        before = await everything(ledger, submissions=not late)
        wrong = [made_for(step, **change) for change in WRONG if change.items() - msgspec.structs.asdict(job).items()]
        wrong += [made_for(step, state=other) for other in State if other is not state]
        for stale in wrong:
            assert not await ledger.writer.step(stale)
            assert await everything(ledger, submissions=not late) == before

        assert await ledger.writer.apply([step]) == {1}
        assert await job_now(ledger) == step.after
        assert await job_now(ledger, 2) == other[0].after
        after = await everything(ledger)
        assert not await ledger.writer.step(step)
        assert await everything(ledger) == after


@pytest.mark.parametrize("name", ["claimed_for_retry", "accepted_for_retry"])
async def test_the_steps_of_a_retry_are_taken_once_too(name: str, open_file: OpenLedger) -> None:
    to = ("retried_remotely",) if name == "claimed_for_retry" else ("retried_remotely", "claimed_for_retry")
    async with open_file() as ledger:
        await a_run(ledger)
        job = await brought_to(ledger, State.OUTSTANDING, AT)
        job = (await gone(ledger, job, *to, at=AT + 10 * S))[-1].after
        step = STEPS[name][1](job, AT + 20 * S)

        assert await ledger.writer.step(step)
        assert await job_now(ledger) == step.after
        after = await everything(ledger)
        assert not await ledger.writer.step(step)
        assert await everything(ledger) == after


@pytest.mark.parametrize("n", [1, 3, 5, 40, 41, 95])
@pytest.mark.parametrize("stale", [(), (1,), (2, 40, 41, 95)])
async def test_a_step_that_is_stale_leaves_those_beside_it_alone(
    open_file: OpenLedger, n: int, stale: tuple[int, ...]
) -> None:
    async with open_file() as ledger:
        await a_run(ledger, n)
        steps = [STEPS["claimed"][1](job, AT + job.id) for job in await jobs_now(ledger)]
        wanted = {number for number in range(1, n + 1) if number not in stale}
        given = [step if step.before.id in wanted else made_for(step, attempt=4) for step in steps]

        assert await ledger.writer.apply(given) == wanted
        assert await jobs_now(ledger) == [step.after if step.before.id in wanted else step.before for step in steps]


async def test_no_steps_are_no_work(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        assert await ledger.writer.apply([]) == frozenset()


async def test_a_step_made_for_the_first_attempt_is_stale_once_the_second_began(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        await a_run(ledger)
        first = await brought_to(ledger, State.OUTSTANDING, AT)
        late = transitions.abandoned(
            first, an_outcome(first, FailureClass.FAILED), reason="late FAILED", at=AT + 99 * S
        )
        again = ("retried_remotely", "claimed_for_retry", "accepted_for_retry")
        second = (await gone(ledger, first, *again, at=AT + 10 * S))[-1].after

        assert (second.state, second.submission) == (first.state, first.submission)
        assert not await ledger.writer.step(late)
        assert await job_now(ledger) == second


async def test_an_adopted_job_stays_what_the_webhook_said_when_the_answer_follows(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        await a_run(ledger)
        sent = await brought_to(ledger, State.SUBMITTING, AT)
        assert await ledger.writer.step(transitions.adopted(sent, remote_id="r", at=AT + S))

        assert not await ledger.writer.step(transitions.accepted(sent, remote_id="r", sent_at=AT + 5, at=AT + 2 * S))
        job = await job_now(ledger)
        assert (job.state, job.remote_id, job.sent_at) == (State.OUTSTANDING, "r", AT + 5)


async def test_large_outputs_are_kept_as_they_came(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run = await a_run(ledger, 2)
        outputs = [b'"' + b"a" * 100_000 + b'"', random.Random(1).randbytes(100_000)]
        for job, output in zip(await jobs_now(ledger), outputs, strict=True):
            await ledger.writer.step(transitions.completed(job, an_outcome(job, output=output), reason="status", at=AT))

        page = await ledger.jobs.results.page(run.id, [State.SUCCEEDED], after=(0, 0), most=9, bytes_max=10**8)
        assert [row.output for row in page] == outputs


async def test_news_that_a_job_is_not_finished_are_for_this_attempt_of_this_submission(
    open_file: OpenLedger,
) -> None:
    async with open_file() as ledger:
        await a_run(ledger)
        job = await brought_to(ledger, State.OUTSTANDING, AT)
        for change in ({"submission": 5}, {"attempt": 9}, {"id": 9}):
            ledger.writer.record_unfinished(msgspec.structs.replace(job, unfinished_at=AT + 50 * S, **change))
            await ledger.writer.apply([])
            assert (await job_now(ledger)).unfinished_at == job.unfinished_at
        ledger.writer.record_unfinished(msgspec.structs.replace(job, unfinished_at=AT + 60 * S))
        await ledger.writer.apply([])
        assert (await job_now(ledger)).unfinished_at == AT + 60 * S

        await gone(ledger, job, "retried", at=AT + 70 * S)
        ledger.writer.record_unfinished(msgspec.structs.replace(job, unfinished_at=AT + 80 * S))
        await ledger.writer.apply([])
        assert (await job_now(ledger)).unfinished_at == job.unfinished_at


async def test_a_job_that_is_cancelled_after_it_was_reopened_keeps_its_error(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run = await a_run(ledger, 2)
        await gone(ledger, await job_now(ledger, 1), "claimed", "accepted", "abandoned", at=AT)
        message = (await finished(ledger, run.id))[0].message
        assert message
        for n in (1, 2):  # whatever is reopened twice, too
            later = AT + 100 * n * S
            for job in [job for job in await jobs_now(ledger) if job.state in GIVEN_UP]:
                await gone(ledger, job, "reopened", at=later)
            for job in await jobs_now(ledger):
                assert await ledger.writer.step(transitions.cancelled_on_request(job, at=later + 50 * S))
            found = {job.line: (job.trouble, job.message) for job in await finished(ledger, run.id)}
            assert found == {1: ("cancelled", message), 2: ("cancelled", "the run was cancelled")}


async def finished(ledger: Ledger, run: int) -> list[FinishedJob]:
    return await ledger.jobs.results.page(run, list(State), after=(-1, -1), most=9, bytes_max=1_000)
