"""Runs: the endpoint that they are for, and which of them are to be served."""

import pytest
from msgspec.structs import replace

from orchestrator.core.jobs.lifecycle import State
from orchestrator.ledger.commands.command_types import Action, NewPriority
from tests.factories import S, a_row
from tests.ledger.ledgers import OpenLedger, a_run, added, brought_to, gone, job_now, jobs_now, obeyed
from tests.simulation.clock import EPOCH_AT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

AT = EPOCH_AT
OTHER = {"service_url": "https://other.example", "endpoint": "ep2"}


async def test_a_run_gets_another_endpoint_while_no_job_of_it_was_taken(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run, beside = await a_run(ledger, 3), await a_run(ledger, 1, name="beside")
        await gone(ledger, await job_now(ledger, 1), "claimed", "deferred", at=AT)
        await brought_to(ledger, State.CANCELLED, AT, job=2)
        assert await ledger.runs.is_untouched(run.id)
        assert await ledger.runs.rebind(run.id, **OTHER)
    async with open_file() as ledger:
        found = await ledger.runs.named("run")
        assert found is not None
        assert (found.service_url, found.endpoint) == tuple(OTHER.values())
        endpoints = [job.endpoint for job in await jobs_now(ledger)]
        assert endpoints == [*[found.endpoint_id] * 3, beside.endpoint_id]


async def test_what_comes_after_a_run_got_another_endpoint_is_there_too(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run = await a_run(ledger)
        intake = await ledger.runs.intakes.start(run, as_they_come=True)
        assert await ledger.runs.rebind(run.id, **OTHER)
        assert await added(ledger, intake, [a_row(2)]) == []
        one, two = await jobs_now(ledger)
        assert one.endpoint == two.endpoint != run.endpoint_id


@pytest.mark.parametrize("state", [State.SUBMITTING, State.UNCERTAIN, State.OUTSTANDING, State.SUCCEEDED, State.FAILED])
async def test_a_run_of_which_a_job_may_have_been_taken_keeps_its_endpoint(open_file: OpenLedger, state: State) -> None:
    async with open_file() as ledger:
        run = await a_run(ledger, 2)
        await brought_to(ledger, state, AT + S, job=2)
        assert not await ledger.runs.is_untouched(run.id)
        assert not await ledger.runs.rebind(run.id, **OTHER)
        found = await ledger.runs.named("run")
        assert found is not None
        assert found.endpoint_id == run.endpoint_id


async def test_a_run_whose_input_is_read_keeps_its_endpoint(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run = await a_run(ledger)
        await ledger.runs.intakes.start(run)
        assert not await ledger.runs.rebind(run.id, **OTHER)


async def test_what_others_have_changed_since_settings_were_read_stays(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run = await a_run(ledger)
        await obeyed(ledger, Action.PRIORITY, run=run.id, argument=NewPriority(5))
        others = replace(run.settings, max_attempts=9)
        assert others.max_attempts != run.settings.max_attempts
        stored = await ledger.runs.configure(run.id, others, before=run.settings)
        found = await ledger.runs.named("run")
        assert found is not None
        assert found.settings == stored == replace(others, priority=5)


async def test_those_are_to_be_served_that_have_something_to_do_and_that_nobody_has_released(
    open_file: OpenLedger,
) -> None:
    async with open_file() as ledger:
        run = await a_run(ledger, 1)
        beside = await a_run(ledger, 1, name="beside", endpoint="ep2")
        await a_run(ledger, 0, name="empty")
        await ledger.runs.create(**OTHER, name="being read", source="-", settings=run.settings)
        assert await ledger.runs.releases.to_serve() == [run.id, beside.id]
        assert await ledger.runs.releases.to_serve([beside.endpoint_id]) == [beside.id]
        assert await ledger.runs.releases.to_serve([]) == []

        await ledger.runs.releases.set(run.id, is_released=True)
    async with open_file() as ledger:
        assert await ledger.runs.releases.to_serve() == [beside.id]
        assert [found.is_released for found in await ledger.runs.all([run.id, beside.id])] == [True, False]
        await ledger.runs.releases.set(run.id, is_released=False)
        [job] = [job for job in await jobs_now(ledger) if job.run == run.id]
        await brought_to(ledger, State.SUCCEEDED, AT + S, job=job.id)
        assert await ledger.runs.releases.to_serve() == [beside.id]
