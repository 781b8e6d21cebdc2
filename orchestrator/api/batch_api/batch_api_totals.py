"""How the Batch API of a ledger stands, all of it together: for pages and metrics."""

from orchestrator.core.batch_api.posted_batch import POSTED_ENDS, PostedState
from orchestrator.ledger import Ledger
from orchestrator.ledger.posted.posted_totals import BatchEnds
from orchestrator.views.batch_api_totals import BatchApiTotals


async def batch_api_totals(ledger: Ledger) -> BatchApiTotals | None:
    """All that; None where the ledger was never served so. Raises `StorageError`."""
    found = await ledger.runs.posted.totals.now()
    if found.bytes_max is None:
        return None
    under_way, ends = found.under_way, found.ends
    return BatchApiTotals(
        files_bytes=found.stored_bytes,
        files_bytes_max=found.bytes_max,
        under_way={each.value: under_way.get(each.value, 0) for each in PostedState if each not in POSTED_ENDS},
        ended={each.value: ends.get(each.value, BatchEnds()).n for each in PostedState if each in POSTED_ENDS},
        requests_completed=sum(each.completed for each in ends.values()),
        requests_failed=sum(each.failed for each in ends.values()),
    )
