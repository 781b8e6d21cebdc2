"""What is said of the Batch API: batches that programs have posted, their requests, and the room of files."""

from orchestrator.api.batch_api.batch_api_totals import batch_api_totals
from orchestrator.ledger import Ledger
from orchestrator.telemetry.metrics.readings import Readings


async def read_batch_api(ledger: Ledger, into: Readings) -> None:
    """Adds what the ledger says of it, where it was ever served. Raises `StorageError`."""
    totals = await batch_api_totals(ledger)
    if totals is None:
        return
    for state, n in totals.under_way.items():
        into.add("batch_api_batches", state, value=n)
    for state, n in totals.ended.items():
        into.add("batch_api_batch_ends_total", state, value=n)
    into.add("batch_api_requests_total", "completed", value=totals.requests_completed)
    into.add("batch_api_requests_total", "failed", value=totals.requests_failed)
    into.add("batch_api_files_bytes", value=totals.files_bytes)
    into.add("batch_api_files_max_bytes", value=totals.files_bytes_max)
