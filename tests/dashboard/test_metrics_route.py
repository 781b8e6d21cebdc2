"""`/metrics`: open on this machine alone, and to whoever has the key of programs elsewhere."""

from pathlib import Path

import pytest

from orchestrator.core.service.addresses import Address
from orchestrator.dashboard.access.key_file import KeyFolder
from orchestrator.dashboard.access.tokens import Tokens
from orchestrator.settings.monitoring.dashboard_settings import DashboardSettings
from tests.dashboard.harness import dashboard
from tests.engine.rows import empty_ledger
from tests.simulation.clock import VirtualClock
from tests.telemetry.promtool import promtool

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def test_on_this_machine_nothing_is_asked_for(tmp_path: Path) -> None:
    async with dashboard(empty_ledger(tmp_path / "ledger.db"), person=None) as site:
        answer = await site.client.get("/metrics")
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        promtool("check", "metrics", stdin=answer.content)
        opened = await site.client.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
        assert opened.text.endswith("# EOF\n")


@pytest.mark.parametrize(
    ("settings", "peer"),
    [
        (DashboardSettings(listen=Address("0.0.0.0", 8901)), "10.1.2.3"),
        (DashboardSettings(url="https://jobs.example.org"), "127.0.0.1"),
        (DashboardSettings(user_header="X-User", proxies=("127.0.0.1",)), "127.0.0.1"),
    ],
    ids=["elsewhere", "behind a proxy", "signed in by a proxy"],
)
async def test_from_elsewhere_the_key_of_programs_is(tmp_path: Path, settings: DashboardSettings, peer: str) -> None:
    ledger, clock = empty_ledger(tmp_path / "ledger.db"), VirtualClock()
    async with dashboard(ledger, settings, person=None, peer=peer, clock=clock) as site:
        assert (await site.client.get("/metrics")).status_code == 401
        forged = await site.client.get("/metrics", headers={"Authorization": "Bearer nonsense"})
        assert forged.status_code == 401
        key = Tokens(KeyFolder(ledger).key(), clock).program_key()
        known = await site.client.get("/metrics", headers={"Authorization": f"Bearer {key}"})
        assert (known.status_code, b"orchestrator_build_info" in known.content) == (200, True)


async def test_a_ledger_that_is_gone_is_said_to_be(tmp_path: Path) -> None:
    ledger = empty_ledger(tmp_path / "ledger.db")
    async with dashboard(ledger, person=None) as site:
        ledger.unlink()
        answer = await site.client.get("/metrics")
    assert answer.status_code == 503
    assert b"orchestrator_" not in answer.content
