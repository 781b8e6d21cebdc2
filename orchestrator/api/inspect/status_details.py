"""What of the status of runs is asked of the ledger for some of them alone."""

from collections.abc import Sequence

import msgspec

from orchestrator.api.outcomes.retried_failures import largest_retried
from orchestrator.api.runs.run_costs import members_by_run
from orchestrator.core.jobs.lifecycle import unfinished
from orchestrator.core.lanes.via import Via
from orchestrator.ledger import Ledger
from orchestrator.ledger.runs.runs import Run
from orchestrator.views.batches import batch_status
from orchestrator.views.status import RunStatus


async def with_members(ledger: Ledger, found: Sequence[tuple[Run, RunStatus]]) -> list[tuple[Run, RunStatus]]:
    """Each run with its status, and with what the members of its pool have done, where the process at work does not
    say it.
    """
    members = await members_by_run(ledger, [run for run, status in found if not status.members])
    return [
        (run, msgspec.structs.replace(status, members=members.get(run.id, status.members))) for run, status in found
    ]


async def with_batches(ledger: Ledger, run: Run, status: RunStatus) -> RunStatus:
    """`status` of `run`, with all of its batches at the service where its jobs leave in such, and what the process at
    work says of some.
    """
    if run.settings.via is not Via.BATCH:
        return status
    batches, of_run = ledger.runs.batches, await ledger.runs.batches.of_run(run.id)
    before = max((each.overtakes_before for each in of_run), default=0)
    found = [
        batch_status(each, (await batches.counts(each.id)).named, now=ledger.now(), overtaken_before=before)
        for each in of_run
    ]
    told = {each.batch or "": each for each in status.batches}
    return msgspec.structs.replace(status, batches=tuple(told.get(each.batch or "-", each) for each in found))


async def with_retried(ledger: Ledger, run: Run, status: RunStatus, *, is_counted: bool) -> RunStatus:
    """`status` of `run`, with what its executions failed of that were tried again, as long as it is not finished."""
    if not status.retried_executions or not unfinished(status.jobs):
        return status
    return msgspec.structs.replace(status, largest_retried=await largest_retried(ledger, run, is_counted=is_counted))
