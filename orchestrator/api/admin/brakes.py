"""Shows the brakes of a run (budget, canary, failures, deadline), and changes them, beside whoever works on it."""

from collections.abc import Mapping

import msgspec

from orchestrator.api.runs.process_commands import ask_process, asker_of, beside
from orchestrator.api.runs.run_costs import RunCosts, run_costs
from orchestrator.api.runs.run_lookup import run_named
from orchestrator.core.gates.failure_breaker import BreakerPhase
from orchestrator.core.jobs.lifecycle import State
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.ledger import Ledger, read_ledger
from orchestrator.ledger.commands.command_types import Action, NewBrakes
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings import run_settings
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.units import MILLISECOND_US, SECOND_US
from orchestrator.views.costs import CostView


class RunBrakeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How the brakes of a run stand."""

    run: str
    holder: str | None = msgspec.field(name="held_by")
    """Who works on the ledger, if anybody does."""

    settings: Mapping[str, str]
    """By key, as they are written; `off` for none."""

    why_blocked: str | None = msgspec.field(name="held_up")
    """Why nothing is sent, or single jobs only, as whoever works on it says."""

    gate: str | None = None
    """Which one that is: `breaker`, `budget` ..."""

    breaker: str
    """`closed`, `open`, `half-open`, or `off`."""

    breaker_why: str | None
    """Why it tripped, while it is not closed."""

    canary: str | None
    """How the rows stand that go first; None where none were chosen."""

    failed: int
    """Rows that have failed for good."""

    executions: int
    """Those that have ended, failed ones included."""

    failed_executions: int
    execution_s: float
    """For how long workers had them, as far as that was told."""

    outstanding: int
    spent: CostView | None = None
    """None without a price."""

    expected: CostView | None = None
    """Of what is outstanding; None without a price."""

    outcome: str | None = None
    """What came of asking for others; None where nothing was asked, or is not acknowledged yet."""


async def brakes(ledger: LedgerAddress, name: str | None) -> RunBrakeStatus:
    """How the brakes of the run `name` stand, or of the only one. Raises `UsageError`."""
    async with read_ledger(ledger) as opened:
        return await brakes_of(opened, await run_named(opened, name))


async def brakes_set(
    ledger: LedgerAddress, name: str, settings: Mapping[str, str], dependencies: Dependencies | None = None
) -> RunBrakeStatus:
    """Changes brakes of the run `name`, given as texts by the keys of their settings; whoever works on it goes by them
    within a second. Raises `UsageError` where there is no such run, and for what is refused.
    """
    async with beside(ledger, dependencies) as opened:
        run = await run_named(opened, name, not_accepted=True)
        done = await ask_process(
            opened, Action.BRAKES, run=run.id, argument=NewBrakes(settings), asked=asker_of(dependencies)
        )
        [run] = await opened.runs.all([run.id])
        return await brakes_of(opened, run, outcome=done.outcome)


async def brakes_of(ledger: Ledger, run: Run, *, outcome: str | None = None) -> RunBrakeStatus:
    """How the brakes of `run` stand; `outcome` is what came of asking for others."""
    counts = await ledger.runs.counts(run.id)
    return await brakes_beside(ledger, run, counts, await run_costs(ledger, run, counts), outcome=outcome)


async def brakes_beside(
    ledger: Ledger, run: Run, counts: Mapping[str, int], costs: RunCosts, *, outcome: str | None = None
) -> RunBrakeStatus:
    """The same, where it is known how many jobs of `run` there are by state, and what it costs."""
    kept, own = await ledger.jobs.brakes.of(run.id), costs.own
    held_by, state = await ledger.holder(run.endpoint_id), kept.kept.breaker
    beats = await ledger.beats_at_work(held_by)
    holds = (beat.report.of(run.id).blocked_by for beat in beats)
    hold = next((each for each in holds if each is not None), None)
    return RunBrakeStatus(
        run=run.name,
        holder=held_by,
        outcome=outcome,
        settings={each.key: _text(run, each.name) for each in run_settings.BRAKES},
        breaker=state.phase if run.settings.breaker.first else "off",
        breaker_why=state.why or None if state.phase is not BreakerPhase.CLOSED else None,
        why_blocked=None if hold is None else hold.sentence,
        gate=None if hold is None else hold.gate,
        canary=await _canary(ledger, kept.canary),
        failed=counts.get(State.FAILED.value, 0),
        executions=own.ended,
        failed_executions=own.failed,
        execution_s=own.total_ms * MILLISECOND_US / SECOND_US,
        outstanding=costs.outstanding,
        spent=costs.spent,
        expected=costs.expected,
    )


def _text(run: Run, name: str) -> str:
    [setting] = [each for each in run_settings.BRAKES if each.name == name]
    value = getattr(run.settings, name)
    if isinstance(value, bool):
        return "on" if value else "off"
    return "off" if value is None else " ".join(setting.value_type.write(value))


async def _canary(ledger: Ledger, chosen: tuple[int, ...] | None) -> str | None:
    if chosen is None:
        return None
    jobs = (await ledger.jobs.of(chosen)).values()
    succeeded = sum(job.state is State.SUCCEEDED for job in jobs)
    return f"{succeeded:,} of {len(chosen):,} succeeded"
