"""In how many places each fire is: one, whatever happened."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection
from typing import Final

from orchestrator.core.pipelines.due_fires import COUNTED_MAX
from orchestrator.ledger import Ledger
from orchestrator.ledger.flows.pipelines import Defined

ALL: Final = 1_000_000


async def misplaced(ledger: Ledger, pipeline: Defined, due: Collection[int]) -> list[str]:
    """What is wrong with a pipeline whose fires were these: nothing, where each was recorded once or lies in one gap, has
    one flow or was skipped, and each gap counts its fires.
    """
    name = pipeline.name
    fires = await ledger.flows.fires.latest(pipeline.id, ALL)
    gaps = await ledger.flows.fires.gaps(pipeline.id, ALL)
    recorded = Counter(row.fire_at for row in fires)
    found = [f"{name}: {at} was recorded and never due" for at in recorded if at not in due]
    for at in due:
        places = recorded[at] + sum(row.after_at < at <= row.until_at for row in gaps)
        if places != 1:
            found.append(f"{name}: the fire {at} is in {places} places")
    found += [f"{name}: {row.fire_at} has no flow" for row in fires if (row.flow is None) == (row.skipped is None)]
    flows = Counter((flow.fire_at, flow.again) for flow in await ledger.flows.latest(None, pipeline=pipeline.id))
    found += [f"{name}: {flow} is there twice" for flow, n in flows.items() if n > 1]
    moments = sorted(due)
    for row in gaps:
        n = bisect_right(moments, row.until_at) - bisect_left(moments, row.after_at + 1)
        if n != row.n and row.n < COUNTED_MAX:
            found.append(f"{name}: a gap of {n} fires counts {row.n}")
    return found
