"""The reads: margins, pages in input order, what is due next."""

from collections.abc import Iterable
from functools import partial

import pytest

from orchestrator.core.jobs import transitions
from orchestrator.core.jobs.lifecycle import TERMINAL, State
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.ledger import Ledger
from orchestrator.ledger.jobs.margins import Margins
from orchestrator.ledger.jobs.submissions import Sent
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.words_and_defaults import OnUncertain
from tests.factories import STEPS, S, a_row, an_outcome
from tests.ledger.ledgers import OpenLedger, a_run, brought_to, gone, job_now, jobs_now
from tests.simulation.clock import EPOCH_AT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

AT = EPOCH_AT + 1_000 * S


async def finish(ledger: Ledger, margins_us: Iterable[int | None]) -> None:
    """Completes the jobs, one for each margin."""
    found = await jobs_now(ledger)
    await ledger.writer.apply(
        [
            transitions.completed(job, an_outcome(job, margin_us=margin_us), reason="status", at=AT)
            for job, margin_us in zip(found, margins_us, strict=False)
        ]
    )


async def test_results_are_safe_until_the_first_outstanding_job_may_lose_its_own(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run = await a_run(ledger, 3)

        async def safe_until() -> int | None:
            return await ledger.jobs.margins.safe_until(run=run.id, retention_us=1_800 * S, now=EPOCH_AT + 60 * S)

        assert await safe_until() is None
        for at, ttl_us in ((10 * S, 86_400 * S), (20 * S, 100 * S)):
            queued = next(job for job in await jobs_now(ledger) if job.state is State.QUEUED)
            claimed = transitions.claimed(queued, submission=EPOCH_AT + at, ttl_us=ttl_us, at=EPOCH_AT + at)
            accepted = transitions.accepted(claimed.after, remote_id="r", sent_at=EPOCH_AT + at, at=EPOCH_AT + at)
            assert await ledger.writer.step(claimed)
            assert await ledger.writer.step(accepted)
            assert await safe_until() == EPOCH_AT + min(10 * S + 1_800 * S, at + ttl_us)


@pytest.mark.parametrize(
    ("margins_us", "expected"),
    [
        ([], Margins()),
        ([None], Margins()),
        ([1_234_567], Margins(1.235, 1.235)),
        ([-2_500_000, 10 * S], Margins(-2.5, -2.5)),
        ([3 * S] + [600 * S] * 99, Margins(3.0, 3.0)),
        ([3 * S] + [600_123_456] * 100, Margins(3.0, 600.1)),
        ([3 * S, 4 * S] + [600 * S] * 198, Margins(3.0, 4.0)),
    ],
)
async def test_the_margins_of_a_run_are_its_least_and_its_first_percentile(
    margins_us: list[int | None], expected: Margins, open_file: OpenLedger
) -> None:
    async with open_file() as ledger:
        run = await a_run(ledger, max(1, len(margins_us)))
        await finish(ledger, margins_us)

        assert await ledger.jobs.margins.of(run=run.id) == expected


async def test_the_margins_of_several_transactions_add_up(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run = await a_run(ledger, 3)
        for job, margin_us in zip(await jobs_now(ledger), (150_000, 120_000, 190_000), strict=True):
            await ledger.writer.step(
                transitions.completed(job, an_outcome(job, margin_us=margin_us), reason="status", at=AT)
            )

        assert await ledger.jobs.margins.of(run=run.id) == Margins(0.12, 0.12)


async def test_pages_go_through_the_finished_jobs_in_input_order(open_file: OpenLedger) -> None:
    lines = [5, 1, 5, 3, 5, 2, 4]
    async with open_file() as ledger:
        run = await a_run(ledger, [a_row(line, f"job-{n}") for n, line in enumerate(lines, start=1)])
        await finish(ledger, [S] * 6)
        found: list[tuple[int, int]] = []
        after = (0, 0)
        while page := await ledger.jobs.results.page(
            run=run.id, states=[State.SUCCEEDED], after=after, most=2, bytes_max=10**6
        ):
            assert len(page) <= 2
            found += [(row.line, row.job) for row in page]
            after = found[-1]

        assert found == [(1, 2), (2, 6), (3, 4), (5, 1), (5, 3), (5, 5)]


async def test_pages_hold_inputs_where_they_are_asked_for_and_count_them(open_file: OpenLedger) -> None:
    payloads = [b'{"n":%d,"t":"%b"}' % (n, bytes(100 * n)) for n in (1, 2, 3)]
    payloads = [payload.replace(b"\0", b"x") for payload in payloads]
    async with open_file() as ledger:
        run = await a_run(ledger, [a_row(n, payload=payload) for n, payload in enumerate(payloads, start=1)])
        await finish(ledger, [S] * 3)
        page = partial(ledger.jobs.results.page, run.id, [State.SUCCEEDED], most=9)
        assert [job.input for job in await page(after=(0, 0), bytes_max=1_000)] == [None] * 3
        assert [job.input for job in await page(after=(0, 0), bytes_max=1_000, inputs=True)] == payloads
        assert [job.input for job in await page(after=(0, 0), bytes_max=400, inputs=True)] == payloads[:2]
        [first, *_] = await page(after=(0, 0), bytes_max=1_000)
        assert (first.worker, first.sent_at) == (None, None), "of no submission"


async def test_pages_hold_only_so_many_bytes_of_outputs_and_at_least_one(open_file: OpenLedger) -> None:
    sizes = [300, 300, 300, 2_000, 10, 10]
    async with open_file() as ledger:
        run = await a_run(ledger, len(sizes))
        for job, size in zip(await jobs_now(ledger), sizes, strict=True):
            output = b'"' + b"a" * (size - 2) + b'"'
            await ledger.writer.step(transitions.completed(job, an_outcome(job, output=output), reason="status", at=AT))
        finished = partial(ledger.jobs.results.page, run.id, [State.SUCCEEDED], most=9, bytes_max=1_000)
        pages, facts, after, last = [], [], (0, 0), 0
        while page := await finished(after=after):
            pages.append([len(row.output or b"") for row in page])
            after = (page[-1].line, page[-1].job)
        while found := (await ledger.reports.audit.jobs_after(last, most=9, bytes_max=1_000)).jobs:
            facts.append(len(found))
            last = found[-1].job

    assert pages == [[300, 300, 300], [2_000], [10, 10]]
    assert facts == [3, 1, 2]


async def test_a_finished_job_has_what_its_row_needs(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run = await a_run(ledger, [a_row(1, "good"), a_row(2, "bad")])
        good = await brought_to(ledger, State.OUTSTANDING, AT, job=1)
        bad = await brought_to(ledger, State.OUTSTANDING, AT + 1, job=2)
        await ledger.writer.step(
            transitions.completed(good, an_outcome(good, delay_ms=3, execution_ms=4), reason="status", at=AT + 9 * S)
        )
        await ledger.writer.step(
            transitions.abandoned(bad, an_outcome(bad, FailureClass.TIMED_OUT), reason="out of attempts", at=AT + 9 * S)
        )
        first, second = await ledger.jobs.results.page(
            run=run.id, states=list(TERMINAL), after=(0, 0), most=9, bytes_max=10**6
        )

        assert (first.custom_id, first.state, first.attempts) == ("good", State.SUCCEEDED, 1)
        assert (first.remote_id, first.status, first.output) == (good.remote_id, "COMPLETED", b'{"n":1}')
        assert (first.delay_ms, first.execution_ms, first.trouble, first.message) == (3, 4, None, None)
        assert (second.custom_id, second.state, second.output) == ("bad", State.FAILED, None)
        assert (second.trouble, second.message) == ("timed_out", "it broke")


async def test_the_next_due_job_is_told_for_each_operation(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run = await a_run(ledger, 3)

        async def next_at(*, by_retry: bool) -> int | None:
            return await ledger.jobs.next_queued_at(run=run.id, endpoint=run.endpoint_id, by_retry=by_retry, now=AT)

        assert (await next_at(by_retry=False), await next_at(by_retry=True)) == (0, None)
        for number, until in ((1, AT + 60 * S), (2, None), (3, AT)):
            job = await brought_to(ledger, State.OUTSTANDING, AT - 100 * S + number, job=number)
            due_at = AT + number * S
            await ledger.writer.step(
                transitions.retried(
                    job, FailureClass.FAILED, due_at=due_at, retry_until=until, reason="FAILED", at=AT - S
                )
            )
        assert (await next_at(by_retry=False), await next_at(by_retry=True)) == (AT + 2 * S, AT + S)


async def test_uncertain_jobs_come_in_the_order_in_which_they_are_to_be_settled(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        await a_run(ledger, 3)
        sent = [await brought_to(ledger, State.SUBMITTING, AT + n, job=n) for n in (1, 2, 3)]
        for job, settle_at in zip(sent, (AT + 30 * S, AT + 10 * S, AT + 20 * S), strict=True):
            await ledger.writer.step(transitions.unanswered(job, settle_at=settle_at, reason="cut", at=AT + S))

        page = await ledger.jobs.in_state(state=State.UNCERTAIN, after=(0, 0), most=9)

        assert [(job.id, job.due_at) for job in page] == [(2, AT + 10 * S), (3, AT + 20 * S), (1, AT + 30 * S)]


async def test_jobs_in_a_state_are_paged_even_while_they_leave_it(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        await a_run(ledger, 5)
        for number in range(1, 6):
            await brought_to(ledger, State.SUBMITTING, AT + number, job=number)
        seen: list[int] = []
        after = (0, 0)
        while page := await ledger.jobs.in_state(state=State.SUBMITTING, after=after, most=2):
            after = (page[-1].due_at, page[-1].id)
            seen += [job.id for job in page]
            await ledger.writer.apply([STEPS["unanswered"][1](job, AT + 9 * S) for job in page])

        assert seen == [1, 2, 3, 4, 5]


async def test_the_jobs_of_submissions_are_found_for_old_submissions_too(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        await a_run(ledger, 2)
        first = await brought_to(ledger, State.UNCERTAIN, AT)
        second = (await gone(ledger, first, "retried", "claimed", at=AT + 10 * S))[-1].after
        assert first.submission is not None
        assert second.submission is not None
        ids = [first.submission, second.submission, 12345]

        found = await ledger.jobs.of_submissions(ids=ids)
        assert found.job_of == {first.submission: 1, second.submission: 1}
        assert found.jobs == {1: await job_now(ledger)}


async def test_the_times_of_what_was_sent_lately_hold_slots_after_a_restart(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run = await a_run(ledger, 3)
        for number in (1, 2, 3):
            await brought_to(
                ledger, State.OUTSTANDING if number < 3 else State.SUBMITTING, AT + number * 10 * S, job=number
            )

        async def sent(endpoint: int, since: int, now: int = AT + 99 * S) -> Sent:
            return await ledger.jobs.submissions.sent_since(since, endpoint_id=endpoint, now=now, answer_us=7 * S)

        # The third was never answered: the service may have seen it until its time-out.
        assert await sent(run.endpoint_id, AT + 10 * S) == Sent([AT + 21 * S], [AT + 37 * S])
        # A clock that was set back must not hold slots in the future.
        assert await sent(run.endpoint_id, AT + 10 * S, now=AT + 25 * S) == Sent([AT + 21 * S], [AT + 25 * S])
        assert await sent(run.endpoint_id + 1, 0) == Sent([], [])


async def test_the_ids_that_were_given_lately_are_known_with_their_jobs(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run = await a_run(ledger, 3)
        for number in (1, 2, 3):
            state = State.OUTSTANDING if number < 3 else State.SUBMITTING  # the third was given none
            await brought_to(ledger, state, AT + number * 10 * S, job=number)

        async def given(since: int, most: int = 9, endpoint: int = run.endpoint_id) -> list[int]:
            found = await ledger.jobs.submissions.ids_given(since, endpoint_id=endpoint, most=most)
            assert {(await job_now(ledger, number)).remote_id for _, number in found} == {each for each, _ in found}
            return [number for _, number in found]

        assert await given(0) == [1, 2]
        assert await given(0, most=1) == await given(AT + 10 * S) == [2]
        assert await given(0, endpoint=run.endpoint_id + 1) == []


async def test_runs_are_created_listed_and_configured(open_file: OpenLedger) -> None:
    settings = RunSettings(max_attempts=7)
    async with open_file() as ledger:
        one = await a_run(ledger, 2, name="one", settings=settings)
        two = await a_run(ledger, 1, name="two")
        assert EPOCH_AT <= ledger.now() < EPOCH_AT + S
        assert one.settings == settings
        assert (one.service_url, one.endpoint, one.source) == ("https://api.example", "ep", "/in.jsonl")
        assert one.endpoint_id == two.endpoint_id

        changed = RunSettings(max_attempts=1, on_uncertain=OnUncertain.HOLD)
        await ledger.runs.configure(one.id, changed, before=one.settings)
        found = await ledger.runs.all()
        assert [(run.name, run.settings.max_attempts, run.rows) for run in found] == [("one", 1, 2), ("two", 3, 1)]
        assert await ledger.runs.named("three") is None
