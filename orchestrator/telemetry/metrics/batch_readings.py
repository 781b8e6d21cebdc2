"""What is said of the service's own batches."""

from collections import Counter
from collections.abc import Sequence

from orchestrator.core.batches.stuck import AT_SERVICE
from orchestrator.ledger import Ledger
from orchestrator.ledger.monitoring.tallies import KnownEndpoint
from orchestrator.telemetry.metrics.labels import ClosedLabel
from orchestrator.telemetry.metrics.readings import Readings
from orchestrator.units import SECOND_US


async def read_batches(ledger: Ledger, endpoints: Sequence[KnownEndpoint], label: ClosedLabel, into: Readings) -> None:
    """Adds what the ledger says of those that have not ended, where there are any. Raises `StorageError`."""
    now, at = ledger.now(), await ledger.runs.batches.open_by_endpoint()
    for each in endpoints:
        found = at.get(each.id, ())
        for stage, n in Counter(batch.stage for batch in found).items():
            into.add("batches", label(each.name), stage.value, value=n)
        quiet_us = [now - batch.quiet_since for batch in found if batch.stage in AT_SERVICE]
        into.latest("batch_quiet_seconds", label(each.name), value=max(quiet_us) / SECOND_US if quiet_us else None)
