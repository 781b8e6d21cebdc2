"""What people ask of flows and schedules stands among the actions, by whichever way, refusals too."""

from pathlib import Path

import msgspec
import pytest

from orchestrator.api.flows.apply import apply
from orchestrator.api.flows.schedule_changes import schedules_continue, schedules_pause, schedules_remove
from orchestrator.api.flows.triggers import backfill, backfill_preview, flow_rerun, trigger
from orchestrator.api.runs.process_commands import control
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.errors import UsageError
from orchestrator.ledger.actions.asker import ActionWay, Asker
from orchestrator.settings.command_requests import ControlAction
from tests.engine.flowing import a_pipeline
from tests.ledger.ledgers import opened
from tests.ledger.pipelines import applied, every
from tests.simulation.clock import VirtualClock
from tests.simulation.database import async_creator

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

FILE = """
name = "q"
input = "in.jsonl"
[stage.caption]
endpoint = "ep"
"""


async def test_what_the_command_line_asks_is_an_action_in_the_transaction_that_does_it(tmp_path: Path) -> None:
    path, clock = tmp_path / "l.db", VirtualClock()
    given = Dependencies(clock=clock, environ={}, connect=async_creator)
    async with opened(path, clock=clock) as ledger:
        await applied(ledger, a_pipeline(tmp_path, every(1)), now=clock.now())
    await trigger(path, "p", "2026-01-01T00:00:00", given)
    flow = "p@20260101T000000Z"
    with pytest.raises(UsageError, match="it is waiting"):
        await flow_rerun(path, flow, "caption", dependencies=given)
    with pytest.raises(UsageError, match="only a flow that runs can be paused"):
        await control(path, flow, ControlAction.PAUSE, given)
    await control(path, flow, ControlAction.CANCEL, given)
    await control(path, flow, ControlAction.CANCEL, given)
    await flow_rerun(path, flow, "caption", only_failed=True, dependencies=given)
    fires = await backfill_preview(path, "p", "2025-12-31T00:00:00", "2025-12-31T02:00:00", given)
    await backfill(path, fires, parallel=2, dependencies=given)
    await schedules_pause(path, "p", "stocktaking", "2026-02-01", given)
    with pytest.raises(UsageError, match="p is paused already"):
        await schedules_pause(path, "p", "again", None, given)
    await schedules_continue(path, "p", catch_up=True, dependencies=given)
    with pytest.raises(UsageError, match="p is not paused"):
        await schedules_continue(path, "p", catch_up=True, dependencies=given)
    await schedules_remove(path, "p", given)
    (tmp_path / "q.toml").write_text(FILE)
    named = msgspec.structs.replace(given, asked=Asker(way=ActionWay.PAGE, by="anna"))
    await apply([tmp_path / "q.toml"], path, check=False, dependencies=named)

    async with opened(path, clock=clock) as ledger:
        rows = (await ledger.actions.page(most=99))[::-1]
    assert [(row.verb, row.subject, row.is_refused, row.asked_n, row.done_n) for row in rows] == [
        ("fire", "p", False, 1, 1),
        ("rerun", flow, True, None, None),
        ("pause", flow, True, None, None),
        ("cancel", flow, False, None, None),
        ("cancel", flow, False, None, None),
        ("rerun", flow, False, None, None),
        ("backfill", "p", False, 3, 3),
        ("schedule-pause", "p", False, None, None),
        ("schedule-pause", "p", True, None, None),
        ("schedule-continue", "p", False, None, None),
        ("schedule-continue", "p", True, None, None),
        ("schedule-remove", "p", False, None, None),
        ("apply", "q", False, None, None),
    ]
    assert rows[4].outcome == "it had ended, and is cancelled"
    assert {row.way for row in rows[:-1]} == {ActionWay.COMMAND}
    assert (rows[-1].way, rows[-1].asked_by) == (ActionWay.PAGE, "anna")
    assert all("@" in row.asked_by for row in rows[:-1])
    assert msgspec.json.decode(rows[7].options) == {"note": "stocktaking", "until": "2026-02-01T00:00:00+00:00"}
