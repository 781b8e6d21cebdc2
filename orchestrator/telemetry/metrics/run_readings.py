"""What is said of runs: of all of them by endpoint, and of those that are watched singly by name."""

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

from orchestrator.core.gates.gates import Hold
from orchestrator.core.jobs.lifecycle import State, unfinished
from orchestrator.ledger import Ledger
from orchestrator.ledger.monitoring.tallies import KnownEndpoint
from orchestrator.ledger.runs.heartbeats import Heartbeat
from orchestrator.ledger.runs.runs import Run
from orchestrator.ledger.samples.samples import RunSample
from orchestrator.ledger.transactions.run_controls import RunControls
from orchestrator.telemetry.metrics.labels import OTHER, RUNS_MAX, ClosedLabel
from orchestrator.telemetry.metrics.readings import Readings
from orchestrator.units import HOUR_US, MINUTE_US, SECOND_US

SHOWN_AFTER_END_US: Final = 24 * HOUR_US
"""For so long a run is told of that has ended."""

PACE_US: Final = 10 * MINUTE_US
"""When a run will be done follows from its pace in this time."""


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


async def read_runs(ledger: Ledger, *, is_at_work: bool, into: Readings) -> None:
    """Adds what is said of single runs: of those that are not finished and those that ended of late, no stages of
    flows. Raises `StorageError`.
    """
    now = ledger.now()
    numbers = await ledger.reports.tallies.single_runs(RUNS_MAX)
    runs = await ledger.runs.all(numbers)
    counts = await ledger.runs.counts_by_run(numbers)
    samples = await ledger.samples.runs.latest(numbers)
    before = await ledger.samples.runs.latest(numbers, until=now - PACE_US)
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
            if is_at_work and sample is not None:
                at = _eta(run, jobs, sample, before.get(run.id), now)
                into.add("run_eta_timestamp_seconds", run.name, value=_seconds(at))
    for name, n in (await ledger.reports.tallies.jobs_beyond(RUNS_MAX)).items():
        into.add("run_jobs", OTHER, name, value=n)


def _eta(run: Run, jobs: Mapping[str, int], sample: RunSample, before: RunSample | None, now: int) -> int | None:
    """When it will be done, at the pace of late; None while nothing moves."""
    since, done = (before.at, before.finished) if before is not None else (run.created_at, 0)
    took, ended = sample.at - since, sample.finished - done
    if took <= 0 or ended <= 0:
        return None
    left = sum(jobs.get(state.value, 0) for state in State if unfinished({state.value: 1}))
    return now + round(left * took / ended)


def _seconds(at: int | None) -> float | None:
    return None if not at else at / SECOND_US
