"""What of a run's status is asked of the ledger for that run alone."""

import msgspec

from orchestrator.api.outcomes.retried_failures import largest_retried
from orchestrator.api.runs.run_costs import run_members
from orchestrator.core.jobs.lifecycle import unfinished
from orchestrator.ledger import Ledger
from orchestrator.ledger.runs.runs import Run
from orchestrator.views.status import RunStatus


async def with_members(ledger: Ledger, run: Run, status: RunStatus) -> RunStatus:
    """`status` of `run`, with what the members of its pool have done, where the process at work does not say it."""
    if status.members or not run.settings.members:
        return status
    return msgspec.structs.replace(status, members=await run_members(ledger, run))


async def with_retried(ledger: Ledger, run: Run, status: RunStatus, *, is_counted: bool) -> RunStatus:
    """`status` of `run`, with what its executions failed of that were tried again, as long as it is not finished."""
    if not status.retried_executions or not unfinished(status.jobs):
        return status
    return msgspec.structs.replace(status, largest_retried=await largest_retried(ledger, run, is_counted=is_counted))
