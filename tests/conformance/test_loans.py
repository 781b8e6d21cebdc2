"""Loans: the bounds of endpoints' workers that were raised, for whoever has to put them back."""

import pytest

from orchestrator.core.gates.scaling_override import Bounds, ScalingOverride
from orchestrator.settings.run_settings import RunSettings
from tests.ledger.ledgers import OpenLedger
from tests.simulation.clock import VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

LOAN = ScalingOverride(before=Bounds(0, 3), raised=Bounds(2, 10))


async def test_what_was_raised_is_known_until_it_is_forgotten(open_file: OpenLedger) -> None:
    async with open_file(clock=VirtualClock()) as ledger, open_file(clock=VirtualClock()) as other:
        run = await ledger.runs.create(
            name="run", service_url="http://s", endpoint="abc", source="/x", settings=RunSettings()
        )
        assert await ledger.runs.scaling_overrides.all() == []
        await ledger.runs.scaling_overrides.write(run.endpoint_id, "http://rest", LOAN)
        [found] = await other.runs.scaling_overrides.all()
        assert (found.endpoint_id, found.service_url, found.endpoint) == (run.endpoint_id, "http://s", "abc")
        assert (found.rest_url, found.loan) == ("http://rest", LOAN)
        higher = ScalingOverride(before=LOAN.before, raised=Bounds(2, 20), former=LOAN.raised)
        await ledger.runs.scaling_overrides.write(run.endpoint_id, "http://rest", higher)
        [again] = await other.runs.scaling_overrides.all()
        assert again.loan == higher
        done = ScalingOverride(before=LOAN.before, raised=Bounds(2, 20))
        await ledger.runs.scaling_overrides.write(run.endpoint_id, "http://rest", done, at=again.lent_at - 5)
        [known] = await other.runs.scaling_overrides.all()
        assert (known.loan, known.lent_at) == (done, again.lent_at - 5)
        await other.runs.scaling_overrides.forget(run.endpoint_id)
        assert await ledger.runs.scaling_overrides.all() == []
