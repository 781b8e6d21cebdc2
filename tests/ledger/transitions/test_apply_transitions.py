"""Steps in the file, by its rows: guarded, written once with everything that follows from them, or not at all."""

import random
from collections import Counter
from pathlib import Path

import pytest

from orchestrator.core.jobs import transitions
from orchestrator.core.jobs.job import Job, is_terminal
from orchestrator.core.jobs.lifecycle import TRANSITIONS, Event, State, is_legal
from orchestrator.core.jobs.reasons import reason_text
from orchestrator.core.jobs.run_counters import counters
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.ledger import Ledger
from tests.factories import STEPS, S, an_outcome, makes_sense
from tests.ledger.ledgers import a_run, brought_to, counted, dump, gone, job_now, jobs_now, opened
from tests.simulation.clock import EPOCH_AT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]
AT = EPOCH_AT + 1_000 * S


async def test_a_late_answer_to_run_is_stale_and_leaves_its_remote_id_on_its_submission(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    async with opened(path) as ledger:
        await a_run(ledger)
        sent = await brought_to(ledger, State.SUBMITTING, AT)
        answer = transitions.accepted(sent, remote_id="late", sent_at=AT + S, at=AT + 9 * S)
        await gone(ledger, sent, "unanswered", "retried", "claimed", at=AT + 2 * S)
        before = dump(path, without=["submissions"])

        assert not await ledger.writer.step(answer)
        assert dump(path, without=["submissions"]) == before
        assert [row[3] for row in dump(path)["submissions"]] == ["late", None]


async def test_the_first_result_wins_whichever_submission_it_is_of(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    async with opened(path) as ledger:
        await a_run(ledger)
        first = await brought_to(ledger, State.UNCERTAIN, AT)
        second = (await gone(ledger, first, "retried", "claimed", "accepted", at=AT + 10 * S))[-1].after
        early = an_outcome(first, remote_id="of-the-first", output=b"1")
        late = an_outcome(second, output=b"2")

        assert await ledger.writer.step(transitions.completed(second, early, reason="webhook", at=AT + 50 * S))
        assert not await ledger.writer.step(transitions.completed(second, late, reason="status", at=AT + 51 * S))
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
        await ledger.writer.apply(over := [STEPS["cancelled"][1](job, AT) for job in found])
        await ledger.writer.apply([transitions.reopened(step.after, at=AT + S) for step in over[:20]])

        assert [row[0] for row in dump(path)["outcomes"]] == list(range(21, 31))
        assert counted(path) == {"queued": 20, "cancelled": 10}


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
        applied = await ledger.writer.apply(batch)
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
            history = await ledger.jobs.history.of(job=job.id)
            for row in history:
                state = TRANSITIONS[state][Event(row.event)]
            assert state is job.state
            reasons = [row.reason.partition("; it had ended with: ")[0] for row in history]
            assert reasons == [reason_text(step.reason, step.detail) for step in taken if step.before.id == job.id]
            assert [row.at for row in history] == sorted(row.at for row in history)

        found = {name: n for name, n in (await ledger.runs.counts(run=run.id)).items() if n}
        expected = Counter(job.state.value for job in await jobs_now(ledger))
        expected += Counter(name for step in taken for name in counters(step))
        assert found == dict(expected)
        assert sum(found.get(state.value, 0) for state in State) == 40
        rows = dump(path)
        assert {row[0] for row in rows["outcomes"]} == {job.id for job in await jobs_now(ledger) if is_terminal(job)}
        assert sum(row[2] for row in rows["margins"]) == sum(step.event is Event.COMPLETED for step in taken)
