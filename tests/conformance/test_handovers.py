"""Rows handed from run to run: owed with their last step, handed over once, traced back."""

import pytest
from msgspec.structs import replace

from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.jobs.transitions import reopened
from orchestrator.core.pipelines.flow_lifecycle import FlowEvent, FlowKind
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.ledger import Ledger
from orchestrator.ledger.flows.handover_rows import HandedOver, OwedRow, Relay
from orchestrator.ledger.jobs.results import FinishedJob
from orchestrator.ledger.runs.input_rows import packed_rows
from orchestrator.ledger.runs.runs import Run
from orchestrator.ledger.transitions.handover_debts import NEVER_US
from orchestrator.units import SECOND_US
from tests.factories import SETTINGS, a_row, an_outcome
from tests.ledger.ledgers import OpenLedger, a_run, brought_to, job_now, jobs_now
from tests.ledger.pipelines import applied
from tests.simulation.clock import EPOCH_AT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def two_stages(ledger: Ledger, rows: int = 3) -> tuple[Run, Run]:
    """A run of so many rows, and another one that follows it."""
    of = await applied(ledger, now=EPOCH_AT)
    [name] = await ledger.flows.add(of.id, of.name, of.definition, [EPOCH_AT], FlowKind.SCHEDULED)
    flow = await ledger.flows.named(name)
    assert flow is not None
    first = await a_run(ledger, rows, name="first")
    second = await ledger.runs.create(
        name="second", service_url="https://api.example", endpoint="ep2", source="first", settings=SETTINGS
    )
    await ledger.flows.handovers.follow(flow.id, "second", sources=[first], to_run=second)
    return first, second


async def succeeded(ledger: Ledger, *jobs: int) -> None:
    for job in jobs:
        await brought_to(ledger, State.SUCCEEDED, EPOCH_AT + job * 10 * SECOND_US, job=job)


async def ended(ledger: Ledger, run: Run) -> list[FinishedJob]:
    return await ledger.jobs.results.page(run.id, list(State), after=(0, 0), most=100, bytes_max=1 << 20)


async def the_relay(ledger: Ledger) -> Relay:
    [relay] = await ledger.flows.handovers.relays_owed()
    return relay


def made(of: OwedRow, *custom_ids: str) -> HandedOver:
    return HandedOver(of, packed_rows(a_row(of.line, custom_id=each) for each in custom_ids))


async def test_a_flow_that_has_ended_goes_on_once_a_job_of_its_is_queued_again(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        of = await applied(ledger, now=EPOCH_AT)
        [name] = await ledger.flows.add(of.id, of.name, of.definition, [EPOCH_AT], FlowKind.SCHEDULED)
        run = await a_run(ledger)
        flow = await ledger.flows.named(name)
        assert flow is not None
        await ledger.flows.start([flow.id])
        await ledger.flows.begin_stage(flow.id, "stage", run=run.id, source="", sha256="")
        failed = await brought_to(ledger, State.FAILED, EPOCH_AT)
        await ledger.flows.end(flow.id, FlowEvent.FAILED)
        assert await ledger.flows.live() == []
        assert await ledger.writer.step(reopened(failed, at=EPOCH_AT))
        assert [each.id for each in await ledger.flows.live()] == [flow.id]


async def test_what_is_handed_over_is_at_the_endpoint_that_its_run_has_by_then(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        _, second = await two_stages(ledger)
        await succeeded(ledger, 1)
        relay = await the_relay(ledger)
        [one] = await ledger.flows.handovers.owed(second.id, 10)
        assert await ledger.runs.rebind(second.id, service_url="https://api.example", endpoint="other")
        await ledger.flows.handovers.hand_over(relay, [made(one, "a")])
        there = await ledger.runs.named("second")
        assert there is not None
        assert (await job_now(ledger, 4)).endpoint == there.endpoint_id != second.endpoint_id


async def test_each_row_that_ends_is_owed_with_its_last_step(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        _, second = await two_stages(ledger)
        assert await ledger.flows.handovers.relays_owed() == []
        await succeeded(ledger, 1)
        await brought_to(ledger, State.FAILED, EPOCH_AT, job=2)

        owed = await ledger.flows.handovers.owed(second.id, 500)
        assert [(each.job, each.state) for each in owed] == [(1, State.SUCCEEDED), (2, State.FAILED)]
        assert owed[0].output == an_outcome(await job_now(ledger)).output
        assert owed[1].output is None
        assert owed[0].input == a_row(1).input


async def test_what_had_ended_before_is_owed_as_well_and_following_twice_is_following_once(
    open_file: OpenLedger,
) -> None:
    async with open_file() as ledger:
        first = await a_run(ledger, 2, name="earlier")
        await succeeded(ledger, 1)
        of = await applied(ledger, now=EPOCH_AT)
        [name] = await ledger.flows.add(of.id, of.name, of.definition, [EPOCH_AT], FlowKind.SCHEDULED)
        flow = await ledger.flows.named(name)
        assert flow is not None
        second = await ledger.runs.create(
            name="later", service_url="https://api.example", endpoint="ep2", source="-", settings=SETTINGS
        )
        for _ in range(2):
            await ledger.flows.handovers.follow(flow.id, "later", sources=[first], to_run=second)
        assert [each.job for each in await ledger.flows.handovers.owed(second.id, 500)] == [1]
        found = await ledger.runs.named("later")
        assert found is not None
        assert found.accepted


async def test_rows_arrive_once_with_their_lineage_and_their_counts(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        _, second = await two_stages(ledger)
        await succeeded(ledger, 1, 2, 3)
        relay = await the_relay(ledger)
        one, two, three = await ledger.flows.handovers.owed(second.id, 500)
        became = [made(one, "a"), made(two, "b/0", "b/1"), made(three)]

        told: list[dict[str, int]] = []
        assert await ledger.flows.handovers.hand_over(relay, became, told.append) == 3
        assert told == [{State.QUEUED: 3}]
        assert await ledger.flows.handovers.hand_over(relay, became) == 0
        assert await ledger.flows.handovers.relays_owed() == []
        assert not await ledger.flows.handovers.is_owed(second.id)
        assert await ledger.flows.lineage.children([1, 2, 3], second.id) == {1: 1, 2: 2, 3: 0}
        assert await ledger.flows.lineage.parents([4, 5, 6]) == {4: [1], 5: [2], 6: [2]}
        assert (await ledger.runs.counts(second.id))[State.QUEUED] == 3
        assert [job.run for job in await jobs_now(ledger)][3:] == [second.id] * 3


async def test_a_row_carries_on_what_the_one_carries_that_it_was_made_of(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        of = await applied(ledger, now=EPOCH_AT)
        [name] = await ledger.flows.add(of.id, of.name, of.definition, [EPOCH_AT], FlowKind.SCHEDULED)
        flow = await ledger.flows.named(name)
        assert flow is not None
        carried = b'{"lang":"de"}'
        rows = [replace(a_row(n), metadata=carried if n < 4 else None) for n in range(1, 5)]
        first = await a_run(ledger, rows, name="first")
        second = await ledger.runs.create(
            name="second", service_url="https://api.example", endpoint="ep2", source="first", settings=SETTINGS
        )
        await ledger.flows.handovers.follow(flow.id, "second", sources=[first], to_run=second)
        await succeeded(ledger, 1, 2, 3, 4)

        one, two, three, four = await ledger.flows.handovers.owed(second.id, 500)
        assert [each.metadata for each in (one, two, three, four)] == [carried] * 3 + [None]
        own = HandedOver(two, packed_rows([replace(a_row(2, custom_id="b/0"), metadata=b'{"n":1}')]))
        failed = HandedOver(three, error="the step raised ValueError")
        became = [made(one, "a/0", "a/1"), own, failed, made(four, "d")]
        await ledger.flows.handovers.hand_over(await the_relay(ledger), became)
        found = {
            name: story.metadata and bytes(story.metadata)
            for name in ("a/0", "a/1", "b/0", three.custom_id, "d")
            if (story := await ledger.reports.job_details.of(second, name)) is not None
        }
        assert found == {"a/0": carried, "a/1": carried, "b/0": b'{"n":1}', three.custom_id: carried, "d": None}


async def test_two_rows_of_one_name_are_two(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        _, second = await two_stages(ledger)
        await succeeded(ledger, 1, 2)
        relay = await the_relay(ledger)
        one, two = await ledger.flows.handovers.owed(second.id, 500)
        await ledger.flows.handovers.hand_over(relay, [made(one, "a/0", "a/1")])
        assert await ledger.flows.handovers.hand_over(relay, [made(two, "a/0")]) == 1
        names = [job.custom_id for job in await ended(ledger, second)]
        assert sorted(names) == ["a/0", "a/0-2", "a/1"]


async def test_a_failed_step_is_a_failed_job_which_is_made_anew_once_it_is_reopened(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        _, second = await two_stages(ledger)
        await succeeded(ledger, 1)
        relay = await the_relay(ledger)
        [one] = await ledger.flows.handovers.owed(second.id, 500)
        await ledger.flows.handovers.hand_over(relay, [HandedOver(one, error="KeyError: 'text'")])

        failed = await job_now(ledger, 4)
        assert (failed.run, failed.state) == (second.id, State.FAILED)
        [outcome] = await ended(ledger, second)
        assert (outcome.custom_id, outcome.trouble, outcome.message) == (
            one.custom_id,
            FailureClass.STEP,
            "KeyError: 'text'",
        )
        assert await ledger.flows.lineage.children([1], second.id) == {1: 0}

        assert await ledger.writer.step(reopened(failed, at=EPOCH_AT))
        assert [each.job for each in await ledger.flows.handovers.owed(second.id, 500)] == [1]
        assert (await job_now(ledger, 4)).due_at == NEVER_US

        assert await ledger.flows.handovers.hand_over(relay, [made(one, "a/0", "a/1")]) == 2
        assert (await ledger.runs.counts(second.id))[State.QUEUED] == 2
        assert await ledger.flows.lineage.children([1], second.id) == {1: 2}


async def test_a_row_that_succeeds_late_is_handed_over_after_all(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        _, second = await two_stages(ledger)
        failed = await brought_to(ledger, State.FAILED, EPOCH_AT)
        relay = await the_relay(ledger)
        [one] = await ledger.flows.handovers.owed(second.id, 500)
        await ledger.flows.handovers.hand_over(relay, [made(one)])

        assert await ledger.writer.step(reopened(failed, at=EPOCH_AT))
        assert not await ledger.flows.handovers.is_owed(second.id)
        await succeeded(ledger, 1)
        [one] = await ledger.flows.handovers.owed(second.id, 500)
        assert await ledger.flows.handovers.hand_over(relay, [made(one, "a")]) == 1
        assert await ledger.flows.lineage.children([1], second.id) == {1: 1}


async def test_large_rows_are_owed_a_few_at_a_time(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        _, second = await two_stages(ledger)
        await succeeded(ledger, 1, 2, 3)
        assert len(await ledger.flows.handovers.owed(second.id, 2)) == 2
        assert len(await ledger.flows.handovers.owed(second.id, 500)) == 3


async def test_the_kin_of_a_row_are_all_that_it_was_made_of_and_all_that_was_made_of_it(
    open_file: OpenLedger,
) -> None:
    async with open_file() as ledger:
        first, second = await two_stages(ledger)
        await succeeded(ledger, 1, 2)
        relay = await the_relay(ledger)
        one, two = await ledger.flows.handovers.owed(second.id, 500)
        await ledger.flows.handovers.hand_over(relay, [made(one, "a/0", "a/1"), made(two, "b")])

        both = [first.id, second.id]
        assert [each.job for each in await ledger.flows.lineage.kin(both, one.custom_id)] == [1, 4, 5]
        assert [(each.job, each.custom_id) for each in await ledger.flows.lineage.kin(both, "b")] == [
            (2, two.custom_id),
            (6, "b"),
        ]
        assert await ledger.flows.lineage.kin([first.id], "b") == []
        assert await ledger.flows.lineage.became([1, 2, 3]) == {1: 2, 2: 1}
