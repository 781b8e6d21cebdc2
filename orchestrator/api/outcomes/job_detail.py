"""One job with all that was done with it."""

from orchestrator.api.runs.run_lookup import run_named
from orchestrator.errors import UsageError
from orchestrator.ledger import read_ledger
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.views.jobs import WholeJob


async def job_show(ledger: LedgerAddress, name: str | None, custom_id: str) -> WholeJob:
    """The job `custom_id` of the run `name`, with all that happened to it. Raises `UsageError` without such a job."""
    async with read_ledger(ledger) as opened:
        run = await run_named(opened, name)
        found = await opened.reports.job_details.of(run, custom_id)
        if found is None:
            raise UsageError(f"{run.name} has no job {custom_id!r}; its jobs: orchestrator jobs list {run.name}")
        return found
