"""How many jobs of each run end in a second, by the samples and by what has ended since the last one."""

from collections.abc import Collection, Mapping

from orchestrator.core.jobs.lifecycle import ended, unfinished
from orchestrator.core.samples.rates import OF_LATE_US, EndsOfLate, ends_of_late, rate_together
from orchestrator.ledger import Ledger
from orchestrator.ledger.reports.run_summaries import RunSummaries
from orchestrator.ledger.runs.runs import Run


async def rates_of_late(ledger: Ledger, seen: RunSummaries, now: int) -> Mapping[int, float]:
    """Those of the runs that are not finished; 0 where nothing has ended of late, and none of a run so young that this
    says nothing. Raises `StorageError`.
    """
    left = [run for run in seen.runs if unfinished(seen.counts.get(run.id, {}))]
    rates = await _ends(ledger, left, seen.counts, now)
    young = now - OF_LATE_US
    return {
        run.id: rates[run.id].per_s if run.id in rates else 0.0
        for run in left
        if run.id in rates or run.created_at < young
    }


async def rate_of_all(
    ledger: Ledger, runs: Collection[Run], counts: Mapping[int, Mapping[str, int]], now: int
) -> float:
    """That of all these runs, also of those that have ended meanwhile; `counts` has their jobs by their states. Raises
    `StorageError`.
    """
    return rate_together((await _ends(ledger, runs, counts, now)).values())


async def _ends(
    ledger: Ledger, runs: Collection[Run], counts: Mapping[int, Mapping[str, int]], now: int
) -> dict[int, EndsOfLate]:
    """Those of the runs of which something tells, and something has ended of late."""
    numbers = [run.id for run in runs]
    latest = await ledger.samples.ends(numbers)
    before = await ledger.samples.ends(numbers, until=now - OF_LATE_US)
    found = {
        run.id: ends_of_late(
            latest.get(run.id),
            before.get(run.id),
            ended=ended(counts.get(run.id, {})),
            created_at=run.created_at,
            now=now,
        )
        for run in runs
    }
    return {number: ends for number, ends in found.items() if ends is not None}
