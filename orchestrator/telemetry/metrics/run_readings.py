"""What is said of runs: of all of them by endpoint, and of those that are watched singly by name."""

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from orchestrator.api.inspect.status import verdicts_now
from orchestrator.core.gates.gates import Hold
from orchestrator.core.jobs.lifecycle import State, unfinished
from orchestrator.ledger import Ledger
from orchestrator.ledger.monitoring.tallies import KnownEndpoint
from orchestrator.ledger.runs.heartbeats import Heartbeat
from orchestrator.ledger.transactions.run_controls import RunControls
from orchestrator.telemetry.metrics.labels import OTHER, RUNS_MAX, ClosedLabel
from orchestrator.telemetry.metrics.readings import Readings
from orchestrator.units import HOUR_US, SECOND_US

SHOWN_AFTER_END_US: Final = 24 * HOUR_US
"""For so long a run is told of that has ended."""


class StandingLabel(StrEnum):
    """How a run stands, in the few words that a label may have."""

    RUNNING = "running"
    """Jobs are left, and nothing stops it for good."""

    PAUSED = "paused"
    ON_HOLD = "held"
    """A brake or a breaker stops it, or what it needs is missing: it goes on once somebody does something."""

    CANCELLING = "cancelling"
    ENDED = "ended"


def standing_of(controls: RunControls, hold: Hold | None) -> StandingLabel:
    """How a run stands that has jobs left; `hold` is what keeps them from being sent."""
    if controls.cancel:
        return StandingLabel.CANCELLING
    if controls.pause:
        return StandingLabel.PAUSED
    return StandingLabel.ON_HOLD if hold is not None and hold.stops else StandingLabel.RUNNING


async def read_standings(
    ledger: Ledger,
    endpoints: Sequence[KnownEndpoint],
    label: ClosedLabel,
    present: Sequence[Heartbeat],
    into: Readings,
) -> None:
    """Adds how many runs stand how at each endpoint; `present` is what processes at work say. Raises `StorageError`."""
    totals, left = await ledger.reports.tallies.runs(), await ledger.reports.tallies.open_runs()
    asked, braked = await ledger.runs.asked(), await ledger.jobs.brakes.holds()
    standings: Counter[tuple[int, StandingLabel]] = Counter()
    for run, endpoint in left.items():
        reports = [beat.report.runs[run] for beat in present if run in beat.report.runs]
        hold = next((each.blocked_by for each in reports), braked.get(run))
        standings[endpoint, standing_of(asked[run].controls if run in asked else RunControls(), hold)] += 1
    for each in endpoints:
        standings[each.id, StandingLabel.ENDED] = totals.get(each.id, 0) - sum(
            standings[each.id, standing] for standing in StandingLabel
        )
        for standing in StandingLabel:
            into.add("runs", label(each.name), standing.value, value=standings[each.id, standing])


async def read_runs(ledger: Ledger, held_by: str | None, *, into: Readings) -> None:
    """Adds what is said of single runs: of those that are not finished and those that ended of late, no stages of
    flows. `held_by` says who works on the ledger. Raises `StorageError`.
    """
    now = ledger.now()
    numbers = await ledger.reports.tallies.single_runs(RUNS_MAX)
    runs = await ledger.runs.all(numbers)
    counts = await ledger.runs.counts_by_run(numbers)
    samples = await ledger.samples.runs.latest(numbers)
    left = [run.id for run in runs if unfinished(counts.get(run.id, {}))]
    verdicts = await verdicts_now(ledger, held_by, among=left)
    for run in runs:
        jobs, sample = counts.get(run.id, {}), samples.get(run.id)
        is_left = unfinished(jobs)
        if not is_left and (sample.at if sample else run.created_at) < now - SHOWN_AFTER_END_US:
            continue
        for state in State:
            into.add("run_jobs", run.name, state.value, value=jobs.get(state.value, 0))
        into.add("run_spend", run.name, value=None if sample is None else sample.spent)
        into.add("run_budget", run.name, value=run.settings.budget or None)
        if is_left:
            into.add("run_finish_by_timestamp_seconds", run.name, value=_seconds(run.settings.finish_by))
        if (verdict := verdicts.get(run.id)) is not None:
            into.add("run_eta_timestamp_seconds", run.name, value=_seconds(verdict.eta_at))
    for name, n in (await ledger.reports.tallies.jobs_beyond(RUNS_MAX)).items():
        into.add("run_jobs", OTHER, name, value=n)


def _seconds(at: int | None) -> float | None:
    return None if not at else at / SECOND_US
