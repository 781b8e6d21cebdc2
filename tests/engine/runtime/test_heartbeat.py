"""What the process at work says of its collecting, and what those who look make of it."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from orchestrator.api.inspect.status import status
from orchestrator.clock import SystemClock
from orchestrator.core.jobs.lifecycle import State
from orchestrator.ledger.runs.heartbeats import ProcessReport, RunReport
from orchestrator.units import SECOND_US
from orchestrator.views.status import CollectedBy, Collecting, JanitorSummary, RunStatus, StuckSummary
from tests.engine.commands.test_limits_command import at_work
from tests.engine.rows import empty_ledger
from tests.ledger.ledgers import a_run, brought_to

pytestmark = pytest.mark.anyio

RETENTION_S = 1_800


async def seen(path: Path, *, age_s: int, ended: bool = False) -> RunStatus:
    """How a run with one job at the service looks, while the process that said something `age_s` ago works or after."""
    now = SystemClock().now()
    said = Collecting(by=CollectedBy.WEBHOOKS, safe_until=now + 700 * SECOND_US)
    async with at_work(empty_ledger(path)) as ledger:
        run = await a_run(ledger)
        await brought_to(ledger, State.OUTSTANDING, now)
        news = RunReport(collecting=said, stuck=StuckSummary(in_queue=3))
        await ledger.runs.heartbeats.beat(ProcessReport(runs={run.id: news}, janitor=JanitorSummary(at=now)))
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("UPDATE heartbeats SET beaten_at = beaten_at - ?", (age_s * SECOND_US,))
            connection.commit()
        [found] = await status(path)
    if ended:
        [found] = await status(path)
    assert found.janitor is not None, "that it ran once stays true"
    return found


async def test_looking_believes_the_process_at_work(tmp_path: Path) -> None:
    found = await seen(tmp_path / "l.db", age_s=0)
    assert found.safe_offline_s == pytest.approx(700, abs=30)
    assert found.collected_by is CollectedBy.WEBHOOKS
    assert found.stuck.in_queue == 3


@pytest.mark.parametrize(("age_s", "ended"), [(60, False), (1, True)], ids=["stopped", "ended"])
async def test_without_news_looking_goes_through_the_jobs(tmp_path: Path, age_s: int, ended: bool) -> None:
    found = await seen(tmp_path / "l.db", age_s=age_s, ended=ended)
    assert found.safe_offline_s == pytest.approx(RETENTION_S, abs=30)
    assert found.collected_by is None
    assert found.stuck == StuckSummary()


async def test_what_a_newer_program_says_otherwise_is_no_news(tmp_path: Path) -> None:
    async with at_work(empty_ledger(tmp_path / "l.db")) as ledger:
        await ledger.runs.heartbeats.beat(ProcessReport())
        with closing(sqlite3.connect(tmp_path / "l.db")) as connection:
            connection.execute("UPDATE heartbeats SET said = ?", (b'{"runs": [1]}',))
            connection.commit()
        [beat] = await ledger.runs.heartbeats.all()
    assert beat.report == ProcessReport()
