"""Rows that are appended to a run: whose turn that is."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from orchestrator.errors import IntakeBusyError
from orchestrator.ledger import intake_lock
from tests.api.desk import desk, numbers
from tests.simulation.world import ENDPOINT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def test_who_appends_by_the_beginning_of_a_name_has_the_turn_of_the_run_that_it_means(tmp_path: Path) -> None:
    async def coming_in_turn() -> AsyncIterator[dict[str, int]]:
        with pytest.raises(IntakeBusyError), intake_lock(d.ledger, "captions", now=d.clock.now()):
            pass
        yield {"n": 1}

    async with desk(tmp_path) as d, d.orchestrator() as orc:
        await orc.submit(numbers(1), endpoint=ENDPOINT, name="captions")
        run = await orc.append("capt", coming_in_turn())
        assert [result.output["n"] async for result in run.results(order="input")] == [0, 1]
