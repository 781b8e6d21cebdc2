"""What is said of the Batch API: batches that programs have posted, their requests, and the room of files."""

from typing import Final

from orchestrator.core.batch_api.posted_batch import POSTED_ENDS, PostedState
from orchestrator.ledger import Ledger
from orchestrator.ledger.posted.posted_batches import BatchEnds
from orchestrator.telemetry.metrics.readings import Readings

_OPEN: Final = tuple(each.value for each in PostedState if each not in POSTED_ENDS)
_ENDS: Final = tuple(each.value for each in PostedState if each in POSTED_ENDS)


async def read_batch_api(ledger: Ledger, into: Readings) -> None:
    """Adds what the ledger says of it, where it was ever served. Raises `StorageError`."""
    posted = ledger.runs.posted
    bytes_max = await posted.files.bytes_max()
    if bytes_max is None:
        return
    into.add("batch_api_files_bytes", value=await posted.files.stored_bytes())
    into.add("batch_api_files_max_bytes", value=bytes_max)
    under_way, ends = await posted.batches.open_by_state(), await posted.batches.ends()
    for state in _OPEN:
        into.add("batch_api_batches", state, value=under_way.get(state, 0))
    for state in _ENDS:
        into.add("batch_api_batch_ends_total", state, value=ends.get(state, BatchEnds()).n)
    into.add("batch_api_requests_total", "completed", value=sum(each.completed for each in ends.values()))
    into.add("batch_api_requests_total", "failed", value=sum(each.failed for each in ends.values()))
