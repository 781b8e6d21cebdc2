"""With how many workers a plan reckons whose run is to have as many as it needs."""

import msgspec

from orchestrator.core.planning.forecast import Workers
from orchestrator.core.planning.plan_types import Batch, Candidate, Terms
from orchestrator.core.planning.worker_need import JobTimes, WorkerDemand
from orchestrator.core.planning.worker_steps import first_bound


def with_needed(batch: Batch, candidate: Candidate, terms: Terms) -> Candidate:
    """`candidate` with as many workers as `batch` will have there, where these follow what it needs."""
    if terms.worker_range is None:
        return candidate
    known, price = candidate.known, candidate.price
    there = known.workers or Workers(most=1)
    demand = WorkerDemand(
        left=batch.jobs,
        times=None if known.times is None else JobTimes.of(known.times),
        finish_by=terms.finish_within_us,
        range=terms.worker_range,
        per_hour=terms.per_hour,
        price_per_s=0.0 if price is None else price.per_s,
    )
    found = first_bound([demand], 0, start_us=there.start_us)
    workers = msgspec.structs.replace(there, most=found.bound, warm=min(there.warm, found.bound))
    where = f"of {found.least:,} to {found.most:,}: {found.reason}"
    return msgspec.structs.replace(candidate, known=msgspec.structs.replace(known, workers=workers, workers_from=where))
