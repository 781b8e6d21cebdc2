"""The members of a run's pool, on its page."""

from pathlib import Path

import pytest

from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.lanes.via import Via
from orchestrator.core.pools.member import MemberSettings
from orchestrator.settings.run_settings import RunSettings
from tests.dashboard.harness import dashboard
from tests.ledger.ledgers import a_run, brought_to, opened
from tests.simulation.clock import VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def test_each_member_of_a_pool_has_a_line(tmp_path: Path) -> None:
    path, clock = tmp_path / "l.db", VirtualClock()
    members = (MemberSettings("ep", 0.1), MemberSettings("big"))
    async with opened(path, clock=clock) as ledger:
        made = await a_run(ledger, 3, settings=RunSettings(members=members))
        await ledger.runs.at_endpoint(made, "big")
        await brought_to(ledger, State.OUTSTANDING, clock.now(), job=1)
    async with dashboard(path, clock=clock) as site:
        page = await site.get(f"/runs/{made.id}")
        assert "at the 2 members of its pool" in page.text
        assert "Pool Member Is Outstanding Done Failed Speed Execution Cost ep – 1 0 0" in page.text
        found = (await site.json(f"/runs/{made.id}"))["status"]["members"]
        assert [(each["endpoint"], each["outstanding"], each["cost"]) for each in found] == [
            ("ep", 1, 0.0),
            ("big", 0, None),
        ]


async def test_where_members_have_different_lanes_each_is_told(tmp_path: Path) -> None:
    path, clock = tmp_path / "l.db", VirtualClock()
    members = (MemberSettings("ep"), MemberSettings("https://host/v1", via=Via.OPENAI))
    async with opened(path, clock=clock) as ledger:
        made = await a_run(ledger, 3, settings=RunSettings(members=members))
        await ledger.runs.at_endpoint(made, "https://host/v1")
    async with dashboard(path, clock=clock) as site:
        page = await site.get(f"/runs/{made.id}")
        assert "Pool Member Via Is Outstanding" in page.text
        assert "https://host/v1 openai –" in page.text
