"""Steps in the file: guarded, written once with everything that follows from them, or not at all."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from orchestrator.core import job as transitions
from orchestrator.core.job import Job, Transition, counters, is_terminal
from orchestrator.core.lifecycle import TRANSITIONS, Event, State, is_legal
from orchestrator.core.responses import Trouble
from orchestrator.ledger import Ledger
from tests.factories import STEPS, S, an_outcome, makes_sense
from tests.ledger.ledgers import a_run, brought_to, counted, dump, gone, job_now, jobs_now, opened
from tests.simulation.clock import EPOCH_AT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

AT = EPOCH_AT + 1_000 * S

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
async def test_a_step_is_taken_once_and_only_from_what_it_was_made_for(name: str, state: State, tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    async with opened(path) as ledger:
        await a_run(ledger, 2)
        other = await gone(ledger, await job_now(ledger, 2), "claimed", at=AT - S)
        job = await brought_to(ledger, state, AT - 100 * S)
        step = STEPS[name][1](job, AT)
        untouched = {"submissions"} if step.event is Event.ACCEPTED else set()
        before = dump(path, without=untouched)
        wrong = [made_for(step, **change) for change in WRONG if change.items() - msgspec.structs.asdict(job).items()]
        wrong += [made_for(step, state=other) for other in State if other is not state]
        for stale in wrong:
            assert not await ledger.step(stale)
            assert dump(path, without=untouched) == before

        assert await ledger.apply([step]) == {1}
        assert await job_now(ledger) == step.after
        assert await job_now(ledger, 2) == other[0].after
        after = dump(path)
        assert not await ledger.step(step)
        assert dump(path) == after


@pytest.mark.parametrize("name", ["claimed_for_retry", "accepted_for_retry"])
async def test_the_steps_of_a_retry_are_taken_once_too(name: str, tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    to = ("retried_remotely",) if name == "claimed_for_retry" else ("retried_remotely", "claimed_for_retry")
    async with opened(path) as ledger:
        await a_run(ledger)
        job = await brought_to(ledger, State.OUTSTANDING, AT)
        job = (await gone(ledger, job, *to, at=AT + 10 * S))[-1].after
        step = STEPS[name][1](job, AT + 20 * S)

        assert await ledger.step(step)
        assert await job_now(ledger) == step.after
        after = dump(path)
        assert not await ledger.step(step)
        assert dump(path) == after


async def test_a_step_that_is_stale_leaves_those_beside_it_alone(tmp_path: Path) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        await a_run(ledger, 3)
        first, second, third = [STEPS["claimed"][1](job, AT + job.id) for job in await jobs_now(ledger)]

        assert await ledger.apply([first, made_for(second, attempt=4), third]) == {1, 3}
        assert [job.state.value for job in await jobs_now(ledger)] == ["submitting", "queued", "submitting"]


async def test_no_steps_are_no_work(tmp_path: Path) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        assert await ledger.apply([]) == frozenset()


async def test_a_step_made_for_the_first_attempt_is_stale_once_the_second_began(tmp_path: Path) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        await a_run(ledger)
        first = await brought_to(ledger, State.OUTSTANDING, AT)
        late = transitions.abandoned(first, an_outcome(first, Trouble.FAILED), reason="late FAILED", at=AT + 99 * S)
        again = ("retried_remotely", "claimed_for_retry", "accepted_for_retry")
        second = (await gone(ledger, first, *again, at=AT + 10 * S))[-1].after

        assert (second.state, second.submission) == (first.state, first.submission)
        assert not await ledger.step(late)
        assert await job_now(ledger) == second


async def test_a_late_answer_to_run_is_stale_and_leaves_its_remote_id_on_its_submission(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    async with opened(path) as ledger:
        await a_run(ledger)
        sent = await brought_to(ledger, State.SUBMITTING, AT)
        answer = transitions.accepted(sent, remote_id="late", sent_at=AT + S, at=AT + 9 * S)
        await gone(ledger, sent, "unanswered", "retried", "claimed", at=AT + 2 * S)
        before = dump(path, without=["submissions"])

        assert not await ledger.step(answer)
        assert dump(path, without=["submissions"]) == before
        assert [row[3] for row in dump(path)["submissions"]] == ["late", None]


async def test_an_adopted_job_stays_what_the_webhook_said_when_the_answer_follows(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    async with opened(path) as ledger:
        await a_run(ledger)
        sent = await brought_to(ledger, State.SUBMITTING, AT)
        assert await ledger.step(transitions.adopted(sent, remote_id="r", at=AT + S))

        assert not await ledger.step(transitions.accepted(sent, remote_id="r", sent_at=AT + 5, at=AT + 2 * S))
        job = await job_now(ledger)
        assert (job.state, job.remote_id, job.sent_at) == (State.OUTSTANDING, "r", AT + 5)


async def test_the_first_result_wins_whichever_submission_it_is_of(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    async with opened(path) as ledger:
        await a_run(ledger)
        first = await brought_to(ledger, State.UNCERTAIN, AT)
        second = (await gone(ledger, first, "retried", "claimed", "accepted", at=AT + 10 * S))[-1].after
        early = an_outcome(first, remote_id="of-the-first", output=b"1")
        late = an_outcome(second, output=b"2")

        assert await ledger.step(transitions.completed(second, early, reason="webhook", at=AT + 50 * S))
        assert not await ledger.step(transitions.completed(second, late, reason="status", at=AT + 51 * S))
        (outcome,) = dump(path)["outcomes"]
        assert (outcome[1], outcome[2], outcome[4]) == (first.submission, "of-the-first", b"1")
        ended = {row[0]: (row[3], row[8], row[9]) for row in dump(path)["submissions"]}
        assert ended[first.submission] == ("of-the-first", "succeeded", None)
        assert ended[second.submission] == (second.remote_id, "paid_twice", AT + 50 * S)


@pytest.mark.parametrize("end", ["abandoned", "cancelled"])
async def test_a_reopened_job_has_no_outcome_and_fresh_counters(end: str, tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    async with opened(path) as ledger:
        await a_run(ledger, 2)
        job = await brought_to(ledger, State.OUTSTANDING, AT)
        await brought_to(ledger, State.FAILED, AT + 1, job=2)
        lost = (await gone(ledger, job, "retried", "claimed", "accepted", end, "reopened", at=AT + 10 * S))[-1].after

        assert lost == await job_now(ledger)
        assert (lost.failures, lost.lost, lost.attempt) == (0, 0, 2)
        assert [row[0] for row in dump(path)["outcomes"]] == [2]
        assert counted(path)["lost"] == 1


async def test_many_jobs_are_reopened_at_once(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    async with opened(path) as ledger:
        await a_run(ledger, 30)
        found = await jobs_now(ledger)
        await ledger.apply(over := [STEPS["cancelled"][1](job, AT) for job in found])
        await ledger.apply([transitions.reopened(step.after, at=AT + S) for step in over[:20]])

        assert [row[0] for row in dump(path)["outcomes"]] == list(range(21, 31))
        assert counted(path) == {"queued": 20, "cancelled": 10}


async def test_large_outputs_are_kept_as_they_came(tmp_path: Path) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        run = await a_run(ledger, 2)
        outputs = [b'"' + b"a" * 100_000 + b'"', random.Random(1).randbytes(100_000)]
        for job, output in zip(await jobs_now(ledger), outputs, strict=True):
            await ledger.step(transitions.completed(job, an_outcome(job, output=output), reason="status", at=AT))

        page = await ledger.results.page(run.id, [State.SUCCEEDED], after=(0, 0), most=9, bytes_max=10**8)
        assert [row.output for row in page] == outputs


# --- many jobs, many steps


async def walked(ledger: Ledger, chance: random.Random) -> list[Transition]:
    """Random steps of random jobs, some of them made for what the job no longer is. Returns those that were taken."""
    taken: list[Transition] = []
    older: dict[int, Job] = {}
    for permit in range(150):
        at = AT + permit * S
        batch: list[Transition] = []
        for number, job in enumerate(chance.sample(await jobs_now(ledger), 10)):
            seen = older.get(job.id, job) if chance.random() < 0.1 else job
            possible = [
                make for name, (event, make) in STEPS.items() if is_legal(seen.state, event) and makes_sense(name, seen)
            ]
            if possible and not (is_terminal(seen) and chance.random() < 0.9):
                batch.append(chance.choice(possible)(seen, at + number))
            older[job.id] = job
        applied = await ledger.apply(batch)
        taken += [step for step in batch if step.before.id in applied]
    return taken


@pytest.mark.parametrize("seed", range(3))
async def test_events_replayed_through_the_table_give_the_states_and_the_counts(seed: int, tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    async with opened(path) as ledger:
        run = await a_run(ledger, 40)
        taken = await walked(ledger, random.Random(seed))
        for job in await jobs_now(ledger):
            state = State.QUEUED
            history = await ledger.history.of(job=job.id)
            for row in history:
                state = TRANSITIONS[state][Event(row.event)]
            assert state is job.state
            assert [row.reason for row in history] == [step.reason for step in taken if step.before.id == job.id]
            assert [row.at for row in history] == sorted(row.at for row in history)

        found = {name: n for name, n in (await ledger.runs.counts(run=run.id)).items() if n}
        expected = Counter(job.state.value for job in await jobs_now(ledger))
        expected += Counter(name for step in taken for name in counters(step))
        assert found == dict(expected)
        assert sum(found.get(state.value, 0) for state in State) == 40
        rows = dump(path)
        assert {row[0] for row in rows["outcomes"]} == {job.id for job in await jobs_now(ledger) if is_terminal(job)}
        assert sum(row[2] for row in rows["margins"]) == sum(step.event is Event.COMPLETED for step in taken)


async def test_news_that_a_job_is_not_finished_are_for_this_attempt_of_this_submission(tmp_path: Path) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        await a_run(ledger)
        job = await brought_to(ledger, State.OUTSTANDING, AT)
        for change in ({"submission": 5}, {"attempt": 9}, {"id": 9}):
            ledger.seen(msgspec.structs.replace(job, unfinished_at=AT + 50 * S, **change))
        ledger.seen(msgspec.structs.replace(job, unfinished_at=AT + 60 * S))
        await ledger.apply([])
        assert (await job_now(ledger)).unfinished_at == AT + 60 * S

        await gone(ledger, job, "retried", at=AT + 70 * S)
        ledger.seen(msgspec.structs.replace(job, unfinished_at=AT + 80 * S))
        await ledger.apply([])
        assert (await job_now(ledger)).unfinished_at == job.unfinished_at
