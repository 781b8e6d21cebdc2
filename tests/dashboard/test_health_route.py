"""What monitoring is told without a key: whether all is well, and no name; and the metrics, to whom they are for."""

from pathlib import Path

import pytest

from orchestrator.dashboard.access.key_file import KeyFolder
from orchestrator.dashboard.access.tokens import Tokens
from orchestrator.settings.monitoring.dashboard_settings import DashboardSettings
from tests.dashboard.harness import dashboard
from tests.dashboard.nights import looking
from tests.engine.rows import empty_ledger
from tests.simulation.clock import VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def test_all_is_well_where_nothing_needs_a_person(tmp_path: Path) -> None:
    async with dashboard(empty_ledger(tmp_path / "ledger.db"), person=None) as site:
        for path in ("/healthz", "/healthz/work"):
            answer = await site.get(path, Host="anything.example")
            assert (answer.status, answer.json) == (200, {"status": "ok"})


async def test_what_needs_a_person_is_named_to_who_is_known_only(tmp_path: Path) -> None:
    async with looking(tmp_path) as site:
        known = await site.get("/healthz/work")
        assert known.status == 503
        assert known.json["needs"]
        site.client.cookies.clear()
        stranger = await site.get("/healthz/work")
        assert (stranger.status, stranger.json) == (503, {"status": "something needs a person"})
        assert (await site.get("/healthz")).status == 200, "the dashboard itself is well"


async def test_a_ledger_that_is_not_there_is_not_well(tmp_path: Path) -> None:
    ledger = empty_ledger(tmp_path / "ledger.db")
    async with dashboard(ledger, person=None) as site:
        ledger.unlink()
        for path in ("/healthz", "/healthz/work"):
            answer = await site.get(path)
            assert (answer.status, answer.json) == (503, {"status": "the ledger cannot be read"})


@pytest.mark.parametrize(
    ("peer", "settings", "status"),
    [
        ("127.0.0.1", DashboardSettings(), 200),
        ("10.0.0.7", DashboardSettings(), 401),
        ("127.0.0.1", DashboardSettings(url="https://x.example"), 401),
        ("127.0.0.1", DashboardSettings(user_header="X-User", proxies=("127.0.0.1",)), 401),
    ],
)
async def test_metrics_are_for_this_machine_and_who_has_the_key(
    tmp_path: Path, peer: str, settings: DashboardSettings, status: int
) -> None:
    ledger = empty_ledger(tmp_path / "ledger.db")
    async with dashboard(ledger, settings, person=None, peer=peer) as site:
        found = await site.get("/metrics")
        assert (found.status, "orchestrator_" in found.html) == (status, status == 200)
        key = Tokens(KeyFolder(ledger).key(), VirtualClock()).program_key()
        assert (await site.get("/metrics", Authorization=f"Bearer {key}")).status == 200
