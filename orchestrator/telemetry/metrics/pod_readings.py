"""What is said of pods that work for runs, and that are paid."""

from orchestrator.core.pods.pod_lease import OPEN
from orchestrator.ledger import Ledger
from orchestrator.telemetry.metrics.readings import Readings


async def read_pods(ledger: Ledger, into: Readings) -> None:
    """Adds what the ledger says of pods. Raises `StorageError`."""
    leases = await ledger.runs.pod_leases.all(open_only=True)
    for state in sorted(OPEN):
        into.add("pods", state.value, value=sum(lease.state is state for lease in leases))
    into.add("pods_cost_per_hour", value=sum(lease.per_hour for lease in leases))
