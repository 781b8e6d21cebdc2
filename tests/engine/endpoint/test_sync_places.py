"""Whether places for held answers are worth it, which is asked often and said once."""

from pathlib import Path

import pytest

from orchestrator.core.limits.rate_pacer import Limit, Operation
from tests.engine.process import process
from tests.engine.scripted import Scripted

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

FOR_TWO_SECONDS = {Operation.RUN: Limit(10, 1.0, 5), Operation.RUNSYNC: Limit(20, 1.0, 5)}


async def test_what_changes_is_said_by_who_looks_once_and_never_by_who_asks(tmp_path: Path) -> None:
    async with process(tmp_path / "db", Scripted(), limits=FOR_TWO_SECONDS) as p:
        places, whole = p.endpoint.sync_places, p.endpoint.estimates.durations.whole
        whole.observe(5_000)
        found = [places.are_worth]
        assert p.warnings == []
        places.look()
        places.look()
        found.append(places.are_worth)
        for _ in range(10):
            whole.observe(1_000)
        assert len(p.warnings) == 1
        places.look()
        found.append(places.are_worth)
        assert found == [True, False, True]
        assert p.warnings[1:] == ["jobs take 1 s from their submission on by now: they leave by /runsync again, too"]
