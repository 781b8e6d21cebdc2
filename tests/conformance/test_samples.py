"""Samples: how runs, endpoints and the process stood, of a time, of late, and for as long as they are kept."""

from collections.abc import Sequence
from itertools import pairwise

import pytest

from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.samples.buckets import Histogram
from orchestrator.core.samples.sample_spacing import POINTS_MAX, longest_step
from orchestrator.ledger import Ledger
from orchestrator.ledger.samples.samples import EndpointSample, OperationUse, ProcessTotals, RunSample
from orchestrator.ledger.transactions.transaction import Transaction
from orchestrator.units import DAY_US, HOUR_US, SECOND_US
from tests.ledger.ledgers import OpenLedger, a_run, brought_to
from tests.simulation.clock import VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

NOON = 1_700_049_600 * SECOND_US


async def written(ledger: Ledger, run: int, times: Sequence[int]) -> None:
    """A sample of `run` at each of these times, which says when it was."""

    async def block(transaction: Transaction) -> None:
        for at in times:
            sample = RunSample(ends={"succeeded": at // SECOND_US})
            await ledger.samples.runs.write(transaction, longest_step(at - 1, at), at, {run: sample})

    await ledger.writer.run(block)


async def test_a_ledger_that_nobody_worked_on_has_none(open_file: OpenLedger) -> None:
    async with open_file(clock=VirtualClock()) as ledger:
        assert list((await ledger.samples.of_run(1, 0, NOON)).samples) == []
        assert list((await ledger.samples.of_endpoint(1, 0, NOON)).samples) == []
        assert list((await ledger.samples.of_processes(0, NOON)).samples) == []
        assert await ledger.samples.runs.latest([1, 2]) == {}
        assert await ledger.samples.runs.latest([]) == {}
        assert await ledger.samples.latest_of_processes() == {}
        assert await ledger.samples.forget_expired(NOON, most=10) == 0


async def test_what_is_written_is_read_as_it_was(open_file: OpenLedger) -> None:
    run = RunSample(
        counts={"succeeded": 3, "paid_twice": 1},
        hold="paused",
        hold_by="root@vm",
        spent=3.12,
        safe_until=7,
        submissions={"accepted": 4, "unanswered": 1},
        ends={"succeeded": 3, "failed": 1},
        margin=Histogram((0, 3), 40.0),
    )
    used = OperationUse(
        allowance=1000, used=901, window_s=10.0, codes={"2xx": 5, "429": 1}, latency=Histogram((6,), 0.1)
    )
    endpoint = EndpointSample(workers={"running": 3}, operations={"run": used}, spent=1.5, paid_twice=1)
    process = ProcessTotals(
        process="vm 7", begins=2, cpu_s=1.5, commits=Histogram((0, 9), 0.2), webhooks={"accepted": 3}
    )

    async def block(transaction: Transaction) -> None:
        await ledger.samples.runs.write(transaction, 600, NOON, {1: run, 2: RunSample()})
        await ledger.samples.endpoints.write(transaction, 600, NOON, {4: endpoint})
        await ledger.samples.processes.write(transaction, 600, NOON, {0: process})

    async with open_file(clock=VirtualClock()) as ledger:
        await ledger.writer.run(block)
        [found] = (await ledger.samples.of_run(1, NOON - HOUR_US, NOON)).samples
        assert (found.at, found.counts, found.hold, found.hold_by) == (NOON, run.counts, "paused", "root@vm")
        assert (found.spent, found.safe_until, found.margin) == (3.12, 7, run.margin)
        assert (found.sent, found.finished) == (5, 4)
        [at_endpoint] = (await ledger.samples.of_endpoint(4, NOON - 1, NOON)).samples
        assert at_endpoint.operations == {"run": used}
        assert (at_endpoint.workers, at_endpoint.spent, at_endpoint.paid_twice) == ({"running": 3}, 1.5, 1)
        total = (await ledger.samples.latest_of_processes())[0]
        assert (total.at, total.process, total.begins, total.cpu_s) == (NOON, "vm 7", 2, 1.5)
        assert (total.commits, total.webhooks) == (process.commits, process.webhooks)


async def test_the_same_moment_is_written_over(open_file: OpenLedger) -> None:
    async with open_file(clock=VirtualClock()) as ledger:
        await written(ledger, 1, [NOON])

        async def again(transaction: Transaction) -> None:
            await ledger.samples.runs.write(transaction, 600, NOON, {1: RunSample(hold="paused")})

        await ledger.writer.run(again)
        [found] = (await ledger.samples.of_run(1, NOON - 1, NOON)).samples
        assert (found.hold, found.finished) == ("paused", 0)


async def test_the_latest_is_found_whatever_its_step(open_file: OpenLedger) -> None:
    async with open_file(clock=VirtualClock()) as ledger:
        await written(ledger, 1, [NOON, NOON + 60 * SECOND_US, NOON + 70 * SECOND_US])
        await written(ledger, 2, [NOON - 10 * SECOND_US, NOON])
        found = await ledger.samples.runs.latest([1, 2, 3])
        assert {run: each.at - NOON for run, each in found.items()} == {1: 70 * SECOND_US, 2: 0}
        before = await ledger.samples.runs.latest([1, 2], until=NOON + 69 * SECOND_US)
        assert {run: each.at - NOON for run, each in before.items()} == {1: 60 * SECOND_US, 2: 0}


async def test_a_longer_time_has_no_more_points(open_file: OpenLedger) -> None:
    times = range(NOON - 6 * HOUR_US, NOON + 1, 10 * SECOND_US)
    async with open_file(clock=VirtualClock()) as ledger:
        await written(ledger, 1, times)
        await written(ledger, 2, times)
        for hours, spacing in ((0.5, 10), (1, 60), (4, 60), (6, 600)):
            found = await ledger.samples.of_run(1, NOON - round(hours * HOUR_US), NOON)
            assert found.spacing_s == spacing
            assert len(found.samples) <= POINTS_MAX + 1
            ats = [each.at for each in found.samples]
            assert ats == list(range(ats[0], NOON + 1, spacing * SECOND_US))
            assert ats[0] <= NOON - hours * HOUR_US < ats[1]  # from the one before it counters have grown


async def test_of_a_year_no_more_is_read_than_a_chart_has_points(open_file: OpenLedger) -> None:
    times = range(NOON - 20 * DAY_US, NOON + 1, 600 * SECOND_US)
    async with open_file(clock=VirtualClock()) as ledger:
        await written(ledger, 1, [at for at in times if not NOON - 9 * DAY_US < at < NOON - 7 * DAY_US])
        since, until = NOON - 19 * DAY_US, NOON - 1
        found = await ledger.samples.of_run(1, since, until)
        assert found.spacing_s == 7_200
        width = 7_200 * SECOND_US
        ats = [each.at for each in found.samples]
        assert ats[0] <= since < ats[1]
        assert all(at % width == 0 for at in ats[:-1])
        assert ats[-1] == NOON - 600 * SECOND_US
        assert max(after - before for before, after in pairwise(ats)) == 24 * width  # two days, to the end of a stretch
        assert [each.ends["succeeded"] * SECOND_US for each in found.samples] == ats


async def test_a_run_that_is_deleted_takes_its_samples_along(open_file: OpenLedger) -> None:
    async with open_file(clock=VirtualClock()) as ledger:
        run, other = await a_run(ledger, 1), await a_run(ledger, 1, name="other")
        for each in (run, other):
            await written(ledger, each.id, [NOON, NOON + 10 * SECOND_US])
        assert await ledger.runs.take_back(run.id)
        await ledger.runs.removals.clear(run.name)
        assert set(await ledger.samples.runs.latest([run.id, other.id])) == {other.id}


async def test_each_step_is_forgotten_after_its_time(open_file: OpenLedger) -> None:
    steps = {10: 6 * HOUR_US, 60: 7 * DAY_US, 600: 400 * DAY_US}
    offsets = {10: 10, 60: 60, 600: 0}
    async with open_file(clock=VirtualClock()) as ledger:
        run = await a_run(ledger, 1)
        ages = {step: NOON + offsets[step] * SECOND_US - kept for step, kept in steps.items()}
        await written(ledger, run.id, [at + d * 600 * SECOND_US for at in ages.values() for d in (-1, 0)])
        assert await ledger.samples.forget_expired(NOON, most=9) == 3
        assert await ledger.samples.forget_expired(NOON + 61 * SECOND_US, most=9) == 3
        assert await ledger.samples.forget_expired(NOON + 61 * SECOND_US, most=9) == 0


async def test_of_samples_of_a_clock_that_was_ahead_the_last_one_stands_now(open_file: OpenLedger) -> None:
    """So that counters go on from it, and no chart ends in the future."""
    clock = VirtualClock()
    now = clock.now()
    async with open_file(clock=clock) as ledger:
        run = await a_run(ledger, 1)
        await brought_to(ledger, State.SUCCEEDED, now + HOUR_US)
        await written(ledger, run.id, [now - HOUR_US, now + HOUR_US // 2, now + HOUR_US])
    async with open_file(clock=clock) as ledger:
        assert ledger.was_ahead_us > 0
        [before, last] = (await ledger.samples.of_run(run.id, now - 2 * HOUR_US, now + 2 * HOUR_US)).samples
        assert before.at == now - HOUR_US
        assert last.at <= clock.now()
        assert last.ends == {"succeeded": (now + HOUR_US) // SECOND_US}
