"""What is paid of the runs of a ledger beside executions: their pods, and workers that were raised for them."""

from collections.abc import Sequence
from typing import NamedTuple

from orchestrator.api.runs.run_costs import AT_SERVICE
from orchestrator.core.gates.scaling_override import RaisedWorkers
from orchestrator.core.pods.paid_pod import PaidPod, paid_pod
from orchestrator.ledger import Ledger, read_ledger
from orchestrator.settings.addresses.ledger_address import LedgerAddress


async def paid_pods(ledger: Ledger) -> list[PaidPod]:
    """The pods that may be there, oldest first."""
    leases = await ledger.runs.pod_leases.all(open_only=True)
    if not leases:
        return []
    runs = {run.id: run.name for run in await ledger.runs.all({lease.run for lease in leases})}
    counts = await ledger.runs.counts_by_run(runs)
    at_service = {run: sum(of_run.get(each.value, 0) for each in AT_SERVICE) for run, of_run in counts.items()}
    return [
        paid_pod(lease, runs.get(lease.run, "a run that was deleted"), at_service=at_service.get(lease.run, 0))
        for lease in leases
    ]


class LeftPaid(NamedTuple):
    """What processes have left that is paid."""

    workers: Sequence[RaisedWorkers]
    pods: Sequence[PaidPod]


async def left_paid(path: LedgerAddress) -> LeftPaid:
    """What is paid of the runs of the ledger at `path`, where nobody is at work who puts it back. Raises `UsageError`
    where there is no ledger.
    """
    async with read_ledger(path) as ledger:
        if await ledger.holder() is not None:
            return LeftPaid([], [])
        raised = [each.shown for each in await ledger.runs.scaling_overrides.all()]
        return LeftPaid(raised, await paid_pods(ledger))
