"""Numbers of jobs on a server have gaps, and those of others between them: nothing counts on from a first one."""

from typing import Any

import pytest

from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.pipelines.flow_lifecycle import FlowKind
from orchestrator.ledger.flows.handover_rows import HandedOver
from orchestrator.ledger.postgres.connection import LineBounds
from orchestrator.ledger.runs.input_rows import packed_rows
from tests.factories import SETTINGS, a_row
from tests.ledger.ledgers import PATHS, a_run, added, gone
from tests.ledger.pipelines import applied
from tests.postgres.ledgers import opened_on_server, waited_for
from tests.simulation.clock import EPOCH_AT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

OF_RUN = "SELECT id, custom_id, line FROM jobs WHERE run_id = $1 ORDER BY id"
INPUTS = "SELECT job_id, convert_from(input, 'UTF8') FROM payloads ORDER BY job_id"


async def with_strangers_between(url: str) -> Any:
    """As if others took two numbers for each of ours."""
    connection = await waited_for(url)({}, LineBounds())
    await connection.execute("ALTER SEQUENCE jobs_id_seq INCREMENT BY 3")
    return connection


async def test_each_row_has_its_input_and_a_refused_intake_takes_nothing_of_others(url: str) -> None:
    async with opened_on_server(url) as ledger:
        server = await with_strangers_between(url)
        run = await a_run(ledger, 3)
        assert [tuple(row) for row in await server.fetch(INPUTS)] == [
            (1 + 3 * n, f'{{"line":{n + 1}}}') for n in range(3)
        ]

        first, second = [
            await ledger.runs.create(
                name=name, service_url="https://api.example", endpoint="ep", source="-", settings=SETTINGS
            )
            for name in ("first", "second")
        ]
        refused, taken = [await ledger.runs.intakes.start(each) for each in (first, second)]
        for line in (1, 2, 3):
            for intake in (refused, taken):
                assert await added(ledger, intake, [a_row(line), a_row(10 + line, payload=b"{}")]) == []
        await ledger.runs.intakes.accept(taken)
        await ledger.runs.intakes.clear("first")
        assert [len(await server.fetch(OF_RUN, each.id)) for each in (run, first, second)] == [3, 0, 6]
        repeats = [row["custom_id"] for row in await server.fetch(OF_RUN, second.id) if row["line"] > 10]
        assert [each.removeprefix(repeats[0]) for each in repeats] == ["", "-2", "-3"]
        await server.execute("ALTER SEQUENCE jobs_id_seq INCREMENT BY 1")
        await server.close()


async def test_rows_that_are_handed_over_are_traced_to_their_own(url: str) -> None:
    async with opened_on_server(url) as ledger:
        server = await with_strangers_between(url)
        of = await applied(ledger, now=EPOCH_AT)
        [name] = await ledger.flows.add(of.id, of.name, of.definition, [EPOCH_AT], FlowKind.SCHEDULED)
        flow = await ledger.flows.named(name)
        assert flow is not None
        first = await a_run(ledger, 2, name="first")
        second = await ledger.runs.create(
            name="second", service_url="https://api.example", endpoint="ep2", source="first", settings=SETTINGS
        )
        await ledger.flows.handovers.follow(flow.id, "second", sources=[first], to_run=second)
        one, two = [row["id"] for row in await server.fetch(OF_RUN, first.id)]
        for job in (one, two):
            await gone(ledger, (await ledger.jobs.of([job]))[job], *PATHS[State.SUCCEEDED], at=EPOCH_AT + job)
        [relay] = await ledger.flows.handovers.relays_owed()
        owed = await ledger.flows.handovers.owed(second.id, 500)
        became = [
            HandedOver(each, packed_rows(a_row(each.line, custom_id=f"{each.job}/{n}") for n in range(2)))
            for each in owed
        ]
        assert await ledger.flows.handovers.hand_over(relay, became) == 4
        made = {row["id"]: row["custom_id"] for row in await server.fetch(OF_RUN, second.id)}
        parents = await ledger.flows.lineage.parents(made)
        assert {custom_id: parents[job] for job, custom_id in made.items()} == {
            f"{parent}/{n}": [parent] for parent in (one, two) for n in range(2)
        }
        await server.execute("ALTER SEQUENCE jobs_id_seq INCREMENT BY 1")
        await server.close()
