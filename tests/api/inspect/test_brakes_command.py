"""`orchestrator brakes` at a ledger: what it shows of a run, and what it changes while nobody works, and while it runs."""

from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from orchestrator.api.admin.brakes import brakes, brakes_set
from orchestrator.api.inspect.doctor import doctor
from orchestrator.api.inspect.status import status
from orchestrator.api.runs.process_commands import control
from orchestrator.core.diagnosis.causes import Cause
from orchestrator.core.gates.brake_gates import Canary
from orchestrator.core.jobs.lifecycle import State
from orchestrator.errors import UsageError
from orchestrator.settings.command_requests import ControlAction, DoctorRequest
from orchestrator.settings.connection_settings import ConnectionSettings
from tests.engine.process import Process
from tests.engine.sending.test_served_brakes import SMALL, Handler, played
from tests.simulation.run import run as run_world
from tests.simulation.world import SimulatedService


def test_what_was_spent_is_shown_and_a_changed_budget_holds_from_the_next_start(tmp_path: Path) -> None:
    path = tmp_path / "db"
    given: dict[str, Any] = {"works": True, "jobs": 20, "price_per_second": 0.5, "canary": Canary(3)}

    async def first(p: Process, service: SimulatedService, _: Handler) -> None:
        await p.until(State.SUCCEEDED, 10)

    run_world(lambda: played(path, first, **given))
    anyio.run(shown_and_changed, path)


async def shown_and_changed(path: Path) -> None:
    found = await brakes(path, None)
    assert (found.run, found.breaker, found.canary, found.holder) == ("run", "closed", "3 of 3 succeeded", None)
    assert found.settings["canary"] == "3"
    assert found.settings["stop-late"] == "off"
    assert found.spent is not None
    assert (
        found.spent.amount == pytest.approx(found.execution_s * 0.5) == pytest.approx(found.executions * 0.5, rel=0.01)
    )
    assert found.executions >= 10
    changed = await brakes_set(path, "run", {"budget": "100", "canary": "off"})
    assert (changed.settings["budget"], changed.settings["canary"]) == ("100", "off")
    assert changed.outcome == "they are in force"
    with pytest.raises(UsageError, match="is no amount"):
        await brakes_set(path, "run", {"budget": "much"})
    with pytest.raises(UsageError, match="there is no run"):
        await brakes_set(path, "nobody", {"budget": "1"})
    assert (await brakes(path, "run")).settings["budget"] == "100"


@pytest.mark.parametrize(
    ("brakes_of_run", "why", "lift"),
    [
        ({"breaker": SMALL, "jobs": 40}, "the first 4 executions failed", "orchestrator unpause run"),
        ({"canary": Canary(3), "jobs": 10}, "the canary failed", "orchestrator unpause run"),
        (
            {"budget": 2.0, "price_per_second": 0.5, "works": True, "jobs": 30},
            "reach the budget of 2",
            "a larger amount, by the flag of: orchestrator brakes set run",
        ),
    ],
)
def test_after_a_brake_has_stopped_a_run_and_nobody_works_it_is_named_with_what_lifts_it(
    tmp_path: Path, brakes_of_run: dict[str, Any], why: str, lift: str
) -> None:
    async def story(p: Process, service: SimulatedService, _: Handler) -> None:
        await p.wait(lambda: p.session.is_over)

    path = tmp_path / "db"
    run_world(lambda: played(path, story, **brakes_of_run))
    [shown] = anyio.run(status, path)
    assert why in (shown.held_up or "")
    assert why in (shown.finding or "")
    request = DoctorRequest(ledger=path, connection=ConnectionSettings(api_key=""))
    [finding] = anyio.run(doctor, request).findings
    assert finding.cause is Cause.RUN_BLOCKED
    assert finding.advice.count("orchestrator resume run") == 1
    assert lift in finding.advice.partition("; then ")[0]
    anyio.run(partial(control, path, "run", ControlAction.CONTINUE))
    lifted = anyio.run(doctor, request).findings[0].cause
    assert lifted is Cause.NO_PROCESS


def test_a_breaker_that_has_tripped_says_why(tmp_path: Path) -> None:
    async def story(p: Process, service: SimulatedService, _: Handler) -> None:
        await p.wait(lambda: any("tripped" in each for each in p.warnings))

    run_world(lambda: played(tmp_path / "db", story, breaker=SMALL, jobs=10))
    found = anyio.run(brakes, tmp_path / "db", "run")
    assert (found.breaker, found.failed_executions, found.spent) == ("open", 4, None)
    assert "the first 4 executions failed" in (found.breaker_why or "")
