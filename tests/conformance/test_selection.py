"""The jobs that a filter means: as `core.filters` means them, page by page; and the kinds of failures."""

from collections.abc import Sequence

import msgspec
import pytest

from orchestrator.core.filters.filter import EVERY, Filter, FilterFacts, matches
from orchestrator.core.filters.filter_parser import cluster_name, parse
from orchestrator.core.jobs import transitions
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.text.error_text import error_key
from orchestrator.ledger import Ledger
from orchestrator.ledger.reports.selected_jobs import SelectedJob
from orchestrator.ledger.runs.runs import Run
from tests.factories import S, a_row, an_outcome
from tests.ledger.ledgers import OpenLedger, a_run, added, brought_to, job_now
from tests.simulation.clock import EPOCH_AT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

AT = EPOCH_AT + 1_000 * S
INPUTS = [
    b'{"lang":"de","n":1}', b'{"lang":"en","n":2.5}', b'{"lang":"de","long":"%s"}' % (b"x" * 9_000), b"{}", b'{"n":[1,{"k":null}]}',
    b'{"lang":"DE"}', b'{"lang":true}', b'{"n":7}', b'{"lang":"fr"}',
]  # fmt: skip
OOM, MISSING = "CUDA out of memory: {} GiB", "no such file: /data/{}.png"


async def failed(ledger: Ledger, job: int, trouble: FailureClass, message: str, *, at: int) -> None:
    outstanding = await brought_to(ledger, State.OUTSTANDING, at, job=job)
    outcome = an_outcome(outstanding, trouble, message=message)
    assert await ledger.writer.step(
        transitions.abandoned(outstanding, outcome, reason="out of attempts", at=at + 9 * S)
    )


async def a_night(ledger: Ledger) -> Run:
    """A run with jobs in many states, beside another one of the same kinds."""
    rows = [a_row(n, f"{'night' if n % 2 else 'Day_'}-{n}", payload=payload) for n, payload in enumerate(INPUTS, 1)]
    run = await a_run(ledger, rows)
    for job, state in ((1, State.SUCCEEDED), (2, State.OUTSTANDING), (3, State.UNCERTAIN), (4, State.CANCELLED)):
        await brought_to(ledger, state, AT + job * 100 * S, job=job)
    await failed(ledger, 5, FailureClass.FAILED, OOM.format(2), at=AT + 500 * S)
    await failed(ledger, 6, FailureClass.TIMED_OUT, "it took 600000 ms", at=AT + 600 * S)
    await failed(ledger, 7, FailureClass.FAILED, OOM.format(31.5), at=AT + 700 * S)
    await failed(ledger, 8, FailureClass.FAILED, MISSING.format(8), at=AT + 800 * S)
    await a_run(ledger, [a_row(1, "night-1")], name="other")
    await failed(ledger, 10, FailureClass.FAILED, OOM.format(5), at=AT + 900 * S)
    return run


async def chosen(ledger: Ledger, run: Run, tree: Filter, *, most: int = 100) -> list[SelectedJob]:
    """All that `tree` means, in pages of `most`."""
    found: list[SelectedJob] = []
    after, is_last = 0, False
    while not is_last:
        page = await ledger.reports.job_queries.page(run.id, tree, after=after, most=most)
        assert len(page.jobs) <= most
        found += page.jobs
        after, is_last = page.after, page.is_last
    return found


def numbers(jobs: Sequence[SelectedJob]) -> list[int]:
    return [job.job for job in jobs]


def facts_of(job: SelectedJob) -> FilterFacts:
    return FilterFacts(
        state=job.state, trouble=job.trouble, error_key=job.error_key, message=job.message, custom_id=job.custom_id,
        attempts=job.attempts, line=job.line, ended_at=job.ended_at, input=msgspec.json.decode(INPUTS[job.line - 1]),
    )  # fmt: skip


OOM_CLUSTER = cluster_name(error_key("failed", OOM.format(1)))
FILTERS = [
    "", "state=failed", "state!=failed", "state=outstanding or state=uncertain", "class=timed_out", "class!=timed_out",
    "class=cancelled", f"cluster={OOM_CLUSTER}", f"not cluster={OOM_CLUSTER}", f"cluster={OOM_CLUSTER} line>5",
    f"cluster={OOM_CLUSTER} or id=night-1", f"(cluster={OOM_CLUSTER} and not error~31) state=failed",
    "error~cuda", "error~CUDA line<6", "error!~cuda", f'error="{OOM.format(2)}"', "error^=CUDA", "error^=cuda",
    "id=night-1", "id=night-1 state=failed", "id=nobody", "id^=night", "id^=NIGHT", "id~NIGHT", "id~_", "id!=night-1",
    "attempts=0", "attempts>=1", "attempts!=1", "line<=3", "line>3 line<6", "ended>0s", f"ended<{10**6}s", "not ended>0s",
    "ended>2000-01-01", "input.lang=de", "input.lang!=de", "input.lang~D state=failed", "input.n>2", "input.n.1.k=null",
    "input.n.0=1", "state=failed (input.n=7 or error~31)", "not (input.lang=de or state=failed)", "input.long^=xxx",
]  # fmt: skip


@pytest.mark.parametrize("most", [pytest.param(1, marks=pytest.mark.slow), 100])
async def test_the_ledger_chooses_the_jobs_that_a_filter_means(most: int, open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run = await a_night(ledger)
        every = await chosen(ledger, run, EVERY)
        assert numbers(every) == list(range(1, 10))

        for text in FILTERS:
            tree = parse(text, now=AT + 10_000 * S)
            expected = [job for job in every if matches(tree, facts_of(job))]

            assert await chosen(ledger, run, tree, most=most) == expected, text
            counted = await ledger.reports.job_queries.count(run.id, tree)
            assert (counted.n, counted.is_exact) == (len(expected), True), text


async def test_a_chosen_job_tells_how_it_stands(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run = await a_night(ledger)
        first, *_, last = await chosen(ledger, run, EVERY)
        failed_job = (await chosen(ledger, run, parse("class=timed_out", now=AT)))[0]

    assert (first.custom_id, first.line, first.state, first.attempts) == ("night-1", 1, State.SUCCEEDED, 1)
    assert (first.trouble, first.message, first.error_key) == (None, None, None)
    assert (last.state, last.attempts, last.paid_at_most, last.ended_at) == (State.QUEUED, 0, 0, None)
    assert (failed_job.trouble, failed_job.message) == ("timed_out", "it took 600000 ms")
    assert failed_job.error_key == error_key("timed_out", "it took 1 ms")
    assert (failed_job.attempts, failed_job.paid_at_most, failed_job.ended_at) == (1, 1, AT + 609 * S)


async def test_a_count_of_many_inputs_stops_with_at_least(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run = await a_night(ledger)
        by_input = parse("input.lang=de", now=AT)

        whole = await ledger.reports.job_queries.count(run.id, by_input, inputs_max=9)
        assert (whole.n, whole.is_exact, whole.looked_at) == (2, True, 9)
        some = parse("line<5 input.lang=de", now=AT)
        assert (await ledger.reports.job_queries.count(run.id, some, inputs_max=1)).looked_at == 4


async def kinds(ledger: Ledger, run: Run) -> list[tuple[str, int, int, int, int]]:
    """The kinds of failures of `run`: message of the sample, how many, first, last, sample."""
    return [
        (each.message or "", each.n, (each.first_at - AT) // S, (each.last_at - AT) // S, each.sample_job)
        for each in await ledger.reports.job_queries.clusters(run.id, most=10)
    ]


async def test_failures_of_a_kind_are_a_cluster(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run = await a_night(ledger)

        found = await kinds(ledger, run)
        assert found[:3] == [
            (OOM.format(2), 2, 509, 709, 5),
            (MISSING.format(8), 1, 809, 809, 8),
            ("it took 600000 ms", 1, 609, 609, 6),
        ]
        assert await ledger.reports.job_queries.clustered(run.id) == (4, 5)
        assert [each.n for each in await ledger.reports.job_queries.clusters(run.id, most=1)] == [2]
        assert await ledger.reports.job_queries.clusters(99, most=10) == []


async def test_a_failure_leaves_its_cluster_when_it_is_reopened_or_has_a_result_after_all(
    open_file: OpenLedger,
) -> None:
    async with open_file() as ledger:
        run = await a_night(ledger)

        await ledger.writer.step(transitions.reopened(await job_now(ledger, 5), at=AT + 5_000 * S))
        late = await job_now(ledger, 8)
        await ledger.writer.step(transitions.completed(late, an_outcome(late), reason="late", at=AT + 5_000 * S))

        found = await kinds(ledger, run)
        assert (OOM.format(31.5), 1, 509, 709, 7) in found
        assert not any("no such file" in message for message, *_ in found)
        assert await ledger.reports.job_queries.clustered(run.id) == (3, 3)

        await failed(ledger, 5, FailureClass.FAILED, OOM.format(80), at=AT + 6_000 * S)
        assert (OOM.format(80), 2, 509, 6_009, 5) in await kinds(ledger, run)


async def test_jobs_are_chosen_by_a_kind_after_which_they_were_tried_again_whatever_has_become_of_them(
    open_file: OpenLedger,
) -> None:
    async with open_file() as ledger:
        run = await a_night(ledger)
        for job in (5, 7, 8):
            await ledger.writer.step(transitions.reopened(await job_now(ledger, job), at=AT + 5_000 * S))
        await failed(ledger, 5, FailureClass.FAILED, MISSING.format(5), at=AT + 6_000 * S)
        await brought_to(ledger, State.SUCCEEDED, AT + 7_000 * S, job=8)

        of_kind = f"retried={OOM_CLUSTER}"
        for text, expected in (
            (of_kind, [5, 7]),
            (f"{of_kind} state=queued", [7]),
            (f"not {of_kind}", [1, 2, 3, 4, 6, 8, 9]),
            (f"{of_kind} input.lang=true", [7]),
            (f"input.n=7 or {of_kind}", [5, 7, 8]),
        ):
            tree = parse(text, now=AT)
            assert numbers(await chosen(ledger, run, tree)) == expected, text
            assert (await ledger.reports.job_queries.count(run.id, tree)).n == len(expected), text
        for text in (of_kind, f"{of_kind} not input.n=0"):
            ended = await ledger.reports.ended_jobs.page(run.id, parse(text, now=AT), most=9)
            assert numbers(ended.jobs) == [5], text
        key = error_key("failed", OOM.format(1))
        by_job = await ledger.reports.failed_executions.kinds_by_job(run.id)
        assert sorted(job for job, of in by_job.items() if key in of) == [5, 7]
        assert await ledger.reports.failed_executions.kinds_by_job(99) == {}


async def test_rows_of_an_intake_that_was_not_accepted_are_not_chosen(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run = await a_run(ledger, 2)
        intake = await ledger.runs.intakes.start(run)
        await added(ledger, intake, [a_row(3)])

        assert numbers(await chosen(ledger, run, EVERY)) == [1, 2]
        assert (await ledger.reports.job_queries.count(run.id, EVERY)).n == 2
