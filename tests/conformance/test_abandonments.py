"""What is left at the service, and what is owed of it: once, by whoever is first, and to nobody where somebody works."""

import pytest

from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.pipelines.abandonment import SAME_US, RunLeft, tellings
from orchestrator.ledger import Ledger
from orchestrator.ledger.monitoring.abandonments import OwedNumbers
from orchestrator.ledger.runs.heartbeats import ProcessReport
from orchestrator.settings.run_settings import RunSettings
from orchestrator.units import MINUTE_US
from tests.factories import S
from tests.ledger.ledgers import OpenLedger, a_run, brought_to
from tests.simulation.clock import VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

CLAIMED_US = 3 * MINUTE_US


async def owed(ledger: Ledger, left: list[RunLeft], heard_at: int, *asking: str) -> OwedNumbers:
    return await ledger.flows.abandonments.owe(
        tellings(left, asking),
        heard_at=heard_at,
        expires_at={each.run: ledger.now() + each.run * S for each in left},
        why="it was killed",
        until=ledger.now() + CLAIMED_US,
    )


async def test_what_is_left_is_what_is_at_the_service(open_file: OpenLedger) -> None:
    async with open_file(clock=VirtualClock()) as ledger:
        await a_run(ledger, 3, name="one", settings=RunSettings(notify="ops"))
        await a_run(ledger, 2, name="two")
        for job in (1, 2):
            await brought_to(ledger, State.OUTSTANDING, ledger.now(), job=job)
        await brought_to(ledger, State.SUCCEEDED, ledger.now(), job=4)
        [left] = await ledger.flows.abandonments.left()
        assert (left.run, left.name, left.notify, left.waiting, left.stage) == (1, "one", "ops", 2, None)


async def test_it_is_owed_once_and_is_his_who_was_first_for_a_while(open_file: OpenLedger) -> None:
    clock = VirtualClock()
    async with open_file(clock=clock) as ledger:
        await a_run(ledger, 1, settings=RunSettings(notify="ops:abandoned"))
        await brought_to(ledger, State.OUTSTANDING, ledger.now())
        await ledger.runs.heartbeats.beat(ProcessReport())
        left, heard_at = await ledger.flows.abandonments.left(), ledger.now()
        first = await owed(ledger, left, heard_at)
        assert (len(first.of_runs), first.of_pipelines) == (1, ())
        assert await owed(ledger, left, heard_at, "pager") == OwedNumbers(), "whoever comes second, with whatever file"
        outbox, abandonments = ledger.flows.run_outbox, ledger.flows.abandonments
        assert await outbox.first_due(0, "ops", ledger.now()) is None
        assert await abandonments.due() == OwedNumbers()
        clock.jump(CLAIMED_US)
        assert (await abandonments.due()).of_runs == first.of_runs
        assert (await outbox.first_due(0, "ops", ledger.now())) is not None
        await outbox.delivered(first.of_runs[0])
        clock.jump(SAME_US)
        await ledger.runs.heartbeats.beat(ProcessReport())
        again = await owed(ledger, left, ledger.now())
        assert again.of_runs
        assert again != first


async def test_nothing_is_owed_where_somebody_was_heard_of_since_it_was_looked_at(open_file: OpenLedger) -> None:
    async with open_file(clock=VirtualClock()) as ledger:
        await a_run(ledger, 1, settings=RunSettings(notify="ops:abandoned"))
        await brought_to(ledger, State.OUTSTANDING, ledger.now())
        left, before = await ledger.flows.abandonments.left(), ledger.now() - 1
        await ledger.runs.heartbeats.beat(ProcessReport())
        assert await owed(ledger, left, before) == OwedNumbers()
        assert (await owed(ledger, left, ledger.now())).of_runs


async def test_what_was_claimed_and_not_sent_is_due_as_it_was(open_file: OpenLedger) -> None:
    async with open_file(clock=VirtualClock()) as ledger:
        await a_run(ledger, 1, settings=RunSettings(notify="ops"))
        outbox, now = ledger.flows.run_outbox, ledger.now()
        [message] = await outbox.of(1)
        assert await outbox.claim(message.id, message.due_at, now + CLAIMED_US)
        assert not await outbox.claim(message.id, message.due_at, now + CLAIMED_US), "it is somebody's"
        await outbox.give_back(message.id, now + CLAIMED_US - 1, message.due_at)
        assert await outbox.of(1) != [message], "that was another's claim"
        await outbox.give_back(message.id, now + CLAIMED_US, message.due_at)
        assert await outbox.of(1) == [message]
