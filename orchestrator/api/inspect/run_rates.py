"""How many jobs of each run end in a second, by the samples and by what has ended since the last one."""

from collections.abc import Mapping

from orchestrator.core.jobs.lifecycle import ended, unfinished
from orchestrator.core.samples.rates import OF_LATE_US, rate_of_late
from orchestrator.ledger import Ledger
from orchestrator.ledger.reports.run_summaries import RunSummaries


async def rates_of_late(ledger: Ledger, seen: RunSummaries, now: int) -> Mapping[int, float]:
    """Those of the runs that are not finished; 0 where nothing has ended of late, and none of a run so young that this
    says nothing. Raises `StorageError`.
    """
    left = [run for run in seen.runs if unfinished(seen.counts.get(run.id, {}))]
    numbers = [run.id for run in left]
    latest = await ledger.samples.ends(numbers)
    before = await ledger.samples.ends(numbers, until=now - OF_LATE_US)
    found: dict[int, float] = {}
    for run in left:
        ends = ended(seen.counts.get(run.id, {}))
        rate = rate_of_late(latest.get(run.id), before.get(run.id), ended=ends, created_at=run.created_at, now=now)
        if rate is not None or now - run.created_at > OF_LATE_US:
            found[run.id] = rate or 0.0
    return found
