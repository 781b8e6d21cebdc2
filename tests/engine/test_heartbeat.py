"""What the process at work says of its collecting, and what those who look make of it."""

from pathlib import Path

import pytest

from orchestrator.api import status
from orchestrator.clock import SystemClock
from orchestrator.core.lifecycle import State
from orchestrator.engine.upkeep.heartbeat import Pulse
from orchestrator.units import SECOND_US
from orchestrator.views import CollectedBy, Collecting, RunStatus
from tests.engine.rows import empty_ledger
from tests.engine.test_limits_command import at_work
from tests.ledger.ledgers import a_run, brought_to

pytestmark = pytest.mark.anyio

RETENTION_S = 1_800


async def seen(path: Path, *, age_s: int, ended: bool = False) -> RunStatus:
    """How a run with one job at the service looks, while the process that said something `age_s` ago works or after."""
    now = SystemClock().now()
    said = Collecting(at=now - age_s * SECOND_US, by=CollectedBy.WEBHOOKS, safe_until=now + 700 * SECOND_US)
    async with at_work(empty_ledger(path)) as ledger:
        run = await a_run(ledger)
        await brought_to(ledger, State.OUTSTANDING, now)
        await Pulse(ledger=ledger, collecting=dict).beat()  # nothing to say
        await Pulse(ledger=ledger, collecting=lambda: {run.id: said}).beat()
        [found] = await status(path)
    if ended:
        [found] = await status(path)
    return found


async def test_looking_believes_the_process_at_work(tmp_path: Path) -> None:
    found = await seen(tmp_path / "l.db", age_s=1)
    assert found.safe_offline_s == pytest.approx(700, abs=30)
    assert found.collected_by is CollectedBy.WEBHOOKS


@pytest.mark.parametrize(("age_s", "ended"), [(60, False), (1, True)], ids=["stopped", "ended"])
async def test_without_news_looking_goes_through_the_jobs(tmp_path: Path, age_s: int, ended: bool) -> None:
    found = await seen(tmp_path / "l.db", age_s=age_s, ended=ended)
    assert found.safe_offline_s == pytest.approx(RETENTION_S, abs=30)
    assert found.collected_by is None
