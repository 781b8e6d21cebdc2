"""Groups of rows: counted by the steps of jobs and by hand-overs, handed over once, and anew where that failed."""

import pytest

from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.jobs.transitions import reopened
from orchestrator.core.pipelines.flow_lifecycle import FlowKind
from orchestrator.ledger import Ledger
from orchestrator.ledger.flows.groups import Group
from orchestrator.ledger.flows.handover_rows import Gathering, HandedOver, Relay
from orchestrator.ledger.runs.input_rows import packed_rows
from orchestrator.ledger.runs.runs import Run
from orchestrator.ledger.schema.handover_tables import By
from orchestrator.units import SECOND_US
from tests.conformance.test_handovers import made, succeeded
from tests.factories import SETTINGS, a_row
from tests.ledger.ledgers import OpenLedger, a_run, brought_to, jobs_now
from tests.ledger.pipelines import applied
from tests.simulation.clock import EPOCH_AT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


class Stages:
    """Runs `first` of two rows and `second`, whose rows `third` is handed together."""

    def __init__(self, ledger: Ledger, flow: int, first: Run, second: Run, third: Run) -> None:
        self.ledger, self.flow = ledger, flow
        self.first, self.second, self.third = first, second, third

    async def gather(self, by: By) -> None:
        begins = [] if by is By.ALL else [self.first.id]
        how = Gathering(by=by, runs=[self.first.id, self.second.id], begins=begins)
        await self.ledger.flows.handovers.follow(
            self.flow, "third", sources=[self.second], to_run=self.third, gathering=how
        )

    async def hand_over(self, *made_of_each: tuple[str, ...]) -> None:
        """What is owed to the second one becomes these rows."""
        owed = await self.ledger.flows.handovers.owed(self.second.id, 500)
        done = [made(of, *ids) for of, ids in zip(owed, made_of_each, strict=True)]
        await self.ledger.flows.handovers.hand_over(await self.relay(self.second), done)

    async def relay(self, to: Run) -> Relay:
        return (await self.ledger.flows.handovers.relays_to([to.id]))[to.id]

    async def ready(self) -> list[Group]:
        return await self.ledger.flows.groups.ready(self.third.id, 10)

    async def open(self) -> dict[str, int]:
        return {group.key: group.open for group in await self.ledger.flows.groups.all_of(self.third.id)}


async def failed(ledger: Ledger, job: int) -> None:
    await brought_to(ledger, State.FAILED, EPOCH_AT + job * 10 * SECOND_US, job=job)


async def stages(ledger: Ledger) -> Stages:
    of = await applied(ledger, now=EPOCH_AT)
    [name] = await ledger.flows.add(of.id, of.name, of.definition, [EPOCH_AT], FlowKind.SCHEDULED)
    flow = await ledger.flows.named(name)
    assert flow is not None
    first = await a_run(ledger, 2, name="first")
    second, third = [
        await ledger.runs.create(
            name=name, endpoint="ep2", service_url="https://api.example", source="first", settings=SETTINGS
        )
        for name in ("second", "third")
    ]
    await ledger.flows.handovers.follow(flow.id, "second", sources=[first], to_run=second)
    return Stages(ledger, flow.id, first, second, third)


@pytest.mark.parametrize("by", By)
async def test_what_is_open_is_counted_by_steps_and_hand_overs_until_a_group_is_ready(
    open_file: OpenLedger, by: By
) -> None:
    async with open_file() as ledger:
        s = await stages(ledger)
        await s.gather(by)
        key1, key2 = [row.custom_id for row in (a_row(1), a_row(2))]
        assert await s.open() == {By.ALL: {"all": 2}, By.INPUT: {key1: 1, key2: 1}, By.STAGE: {}}[by]
        await succeeded(ledger, 1)
        assert await s.open() == {By.ALL: {"all": 2}, By.INPUT: {key1: 1, key2: 1}, By.STAGE: {key1: 1}}[by]
        await s.hand_over(("x", "y"))
        assert await s.open() == {By.ALL: {"all": 3}, By.INPUT: {key1: 2, key2: 1}, By.STAGE: {key1: 2}}[by]
        await failed(ledger, 2)
        await s.hand_over(())
        await succeeded(ledger, 3)
        assert await s.ready() == ([] if by is not By.INPUT else [(await s.ready())[0]])
        await failed(ledger, 4)

        ready = await s.ready()
        assert [group.key for group in ready] == {By.ALL: ["all"], By.INPUT: [key1, key2], By.STAGE: [key1]}[by]
        assert await ledger.flows.groups.runs_ready() == ([] if by is By.ALL else [s.third.id])
        assert await ledger.flows.groups.runs_ready([s.third.id]) == [s.third.id]
        members = await ledger.flows.groups.members(ready[0])
        lost = [(2, False)] if by is By.ALL else []
        assert [(each.job, each.is_in) for each in members] == [*lost, (3, True), (4, False)]


async def test_a_group_is_handed_over_once_with_its_lineage_and_as_it_was_put_together(
    open_file: OpenLedger,
) -> None:
    async with open_file() as ledger:
        s = await stages(ledger)
        await s.gather(By.STAGE)
        await succeeded(ledger, 1)
        await s.hand_over(("x", "y"))
        await succeeded(ledger, 3)
        await failed(ledger, 4)
        [group], relay = await s.ready(), await s.relay(s.third)
        members = await ledger.flows.groups.members(group)
        rows = packed_rows([a_row(1, custom_id=group.key)])
        assert await ledger.flows.handovers.is_owed(s.third.id)
        assert not await ledger.flows.groups.hand_over(relay, group, members[:1], rows)
        assert await ledger.flows.groups.hand_over(relay, group, members, rows)
        assert not await ledger.flows.groups.hand_over(relay, group, members, rows)

        assert not await ledger.flows.handovers.is_owed(s.third.id)
        assert await ledger.flows.lineage.children([3, 4], s.third.id) == {3: 1, 4: 0}
        assert await ledger.flows.lineage.parents([5]) == {5: [3]}
        assert await ledger.flows.handovers.stage_names([s.third.id]) == {}


async def test_a_group_that_failed_is_put_together_anew_once_its_job_is_reopened(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        s = await stages(ledger)
        await s.gather(By.STAGE)
        await succeeded(ledger, 1)
        await s.hand_over(("x",))
        await failed(ledger, 3)
        [group], relay = await s.ready(), await s.relay(s.third)
        assert await ledger.flows.groups.hand_over(
            relay, group, await ledger.flows.groups.members(group), error="too few"
        )
        [said] = [job for job in await jobs_now(ledger) if job.run == s.third.id]
        assert said.state is State.FAILED
        assert await ledger.flows.lineage.parents([said.id]) == {said.id: [3]}
        assert await ledger.flows.lineage.children([3], s.third.id) == {3: 0}
        assert await s.ready() == []

        for job in (3, said.id):
            assert await ledger.writer.step(reopened((await ledger.jobs.of([job]))[job], at=EPOCH_AT))
        assert await s.open() == {group.key: 1}
        await succeeded(ledger, 3)
        [group] = await s.ready()
        members = await ledger.flows.groups.members(group)
        assert await ledger.flows.groups.hand_over(relay, group, members, packed_rows([a_row(1, custom_id=group.key)]))
        assert [job.state for job in await jobs_now(ledger) if job.run == s.third.id] == [State.QUEUED]
        assert await ledger.flows.lineage.children([3], s.third.id) == {3: 1}
        assert (await ledger.runs.counts(s.third.id))[State.QUEUED] == 1


async def test_a_row_that_would_have_begun_a_group_and_failed_is_handed_over_as_nothing(
    open_file: OpenLedger,
) -> None:
    async with open_file() as ledger:
        s = await stages(ledger)
        how = Gathering(by=By.STAGE, runs=[s.first.id], begins=[s.first.id])
        await failed(ledger, 1)
        await ledger.flows.handovers.follow(s.flow, "third", sources=[s.first], to_run=s.third, gathering=how)
        await failed(ledger, 2)
        owed = await ledger.flows.handovers.owed(s.third.id, 10)
        relay = await s.relay(s.third)
        assert relay.is_gathering
        assert [of.job for of in owed] == [1, 2]
        await ledger.flows.handovers.hand_over(relay, [HandedOver(of) for of in owed])
        assert await ledger.flows.lineage.children([1, 2], s.third.id) == {1: 0, 2: 0}
        assert await s.open() == {}


async def test_what_ends_otherwise_while_its_step_is_called_is_handed_over_as_it_is_then(
    open_file: OpenLedger,
) -> None:
    async with open_file() as ledger:
        s = await stages(ledger)
        await failed(ledger, 1)
        [before] = await ledger.flows.handovers.owed(s.second.id, 10)
        assert await ledger.writer.step(reopened((await ledger.jobs.of([1]))[1], at=EPOCH_AT))
        await succeeded(ledger, 1)
        relay = await s.relay(s.second)
        assert await ledger.flows.handovers.hand_over(relay, [HandedOver(before)]) == 0
        [owed] = await ledger.flows.handovers.owed(s.second.id, 10)
        assert await ledger.flows.handovers.hand_over(relay, [made(owed, "x")]) == 1
