"""The reads of an audit: what the tables say of each job, whatever happened to it, and that nothing is left out."""

from collections import Counter

import pytest

from orchestrator.core.jobs.lifecycle import TERMINAL, State
from orchestrator.ledger import Ledger
from orchestrator.ledger.reports.audit import JobFacts, JobHistory
from tests.factories import S
from tests.ledger.ledgers import PATHS, OpenLedger, a_run, brought_to, gone, job_now
from tests.simulation.clock import EPOCH_AT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

AT = EPOCH_AT + S
MIB = 2**20


async def every_state(ledger: Ledger) -> None:
    """One job in each state."""
    await a_run(ledger, len(PATHS))
    for number, state in enumerate(PATHS, start=1):
        await brought_to(ledger, state, AT + number * 100 * S, job=number)


async def test_each_job_is_told_with_its_input_its_submission_its_outcome_and_its_events(
    open_file: OpenLedger,
) -> None:
    async with open_file() as ledger:
        await every_state(ledger)
        page = await ledger.reports.audit.jobs_after(0, most=99, bytes_max=MIB)
        assert [State(facts.state) for facts in page.jobs] == list(PATHS)
        assert all(facts.has_input and facts.run == 1 for facts in page.jobs)
        assert [facts.outcome for facts in page.jobs] == [state in TERMINAL for state in PATHS]
        assert [facts.checked for facts in page.jobs] == [True if state in TERMINAL else None for state in PATHS]
        for facts, path in zip(page.jobs, PATHS.values(), strict=True):
            assert facts.submission_job == (facts.job if "claimed" in path else None)
        histories = {story.job: story for story in page.histories}
        assert {job: story.events for job, story in histories.items()} == {
            n: ",".join(path) for n, path in enumerate(PATHS.values(), start=1) if path
        }
        assert page.strays == []


async def test_what_is_told_of_a_job_is_of_its_latest_submission_and_of_its_last_event(
    open_file: OpenLedger,
) -> None:
    async with open_file() as ledger:
        await a_run(ledger)
        again = ("claimed", "unanswered", "retried", "claimed", "accepted", "abandoned")
        job = (await gone(ledger, await job_now(ledger), *again, at=AT))[-1].after
        page = await ledger.reports.audit.jobs_after(0, most=9, bytes_max=MIB)
        [facts] = page.jobs
        last_at = AT + 5 * S
        assert facts == JobFacts(
            job=1, custom_id=facts.custom_id, run=1, state="failed", submission=job.submission, attempt=2,
            ended_at=last_at, has_input=True, submission_job=1, remote_id=job.remote_id, outcome=True,
            outcome_trouble="failed", outcome_submission=job.submission, outcome_submission_job=1, checked=True,
        )  # fmt: skip
        assert page.histories == [
            JobHistory(job=1, events=",".join(again), submission=job.submission, attempt=2, at=last_at),
        ]


async def test_pages_come_to_everything_once_and_the_last_one_is_empty(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        await every_state(ledger)
        jobs: list[int] = []
        events: Counter[int] = Counter()
        while (page := await ledger.reports.audit.jobs_after(jobs[-1] if jobs else 0, most=2, bytes_max=MIB)).jobs:
            assert {story.job for story in page.histories} <= {facts.job for facts in page.jobs}
            jobs += [facts.job for facts in page.jobs]
            events.update({story.job: story.events.count(",") + 1 for story in page.histories})
        assert (page.histories, page.strays) == ([], [])
        assert jobs == list(range(1, len(PATHS) + 1))
        assert events == {n: len(path) for n, path in enumerate(PATHS.values(), start=1) if path}
        assert await ledger.reports.audit.jobs_number() == len(jobs)

        counted, after = 0, 0
        while (found := await ledger.reports.audit.submissions_after(after, most=2)).number:
            assert found.astray == []
            counted, after = counted + found.number, found.last
        assert counted == sum("claimed" in path for path in PATHS.values())


async def test_what_is_counted_beside_the_rows_is_what_they_come_to(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        await every_state(ledger)
        other = await a_run(ledger, 2, name="other")
        totals = await ledger.reports.audit.totals(1)
        assert totals.rows == {state.value: 1 for state in PATHS}
        assert {name: n for name, n in totals.counts.items() if n} == {**totals.rows, "uncertain_seen": 1}
        assert (totals.run, totals.unanswered, totals.pruned) == ("run", 1, False)
        assert (await ledger.reports.audit.totals(other.id)).rows == {"queued": 2}


async def test_a_ledger_of_our_own_is_not_damaged_and_has_a_size(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        before = await ledger.reports.audit.file_bytes()
        await a_run(ledger, 2_000)
        assert await ledger.reports.audit.damage() == []
        assert before < await ledger.reports.audit.file_bytes()
