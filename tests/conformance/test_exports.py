"""The files that runs were exported to: the last one's of each path, until it is deleted."""

import pytest

from orchestrator.ledger.reports.exports import Writing
from orchestrator.settings.words_and_defaults import ResultOrder
from tests.ledger.ledgers import OpenLedger, a_run
from tests.simulation.clock import VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def test_whose_results_stand_in_a_file_is_known_until_the_run_is_gone(open_file: OpenLedger) -> None:
    async with open_file(clock=VirtualClock()) as ledger:
        first, second = await a_run(ledger, name="first"), await a_run(ledger, name="second")
        assert await ledger.reports.exports.of("/x") is None
        await ledger.reports.exports.note("/x", first.id, Writing(where="line>3"))
        await ledger.reports.exports.note("/x", second.id, Writing(order=ResultOrder.COMPLETION))
        found = await ledger.reports.exports.of("/x")
        assert found is not None
        assert (found.run, found.writing.where, found.writing.order) == (second.id, "", ResultOrder.COMPLETION)
        assert found.writing.at == found.exported_at
        assert await ledger.runs.take_back(second.id)
        await ledger.runs.intakes.clear("second")
        assert await ledger.reports.exports.of("/x") is None
