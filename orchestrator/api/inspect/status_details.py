"""What of the status of runs is asked of the ledger for some of them alone."""

from collections.abc import Sequence

import msgspec

from orchestrator.api.outcomes.retried_failures import largest_retried
from orchestrator.api.runs.run_costs import members_by_run
from orchestrator.core.batch_api.posted_batch import PostedBatch
from orchestrator.core.batches.batch_record import ENDED, BatchRecord
from orchestrator.core.jobs.lifecycle import unfinished
from orchestrator.core.lanes.via import Via
from orchestrator.ledger import Ledger
from orchestrator.ledger.runs.runs import Run
from orchestrator.views.batches import BatchStatus, batch_status
from orchestrator.views.posted_status import PostedStatus
from orchestrator.views.status import RunStatus


async def with_members(ledger: Ledger, found: Sequence[tuple[Run, RunStatus]]) -> list[tuple[Run, RunStatus]]:
    """Each run with its status, and with what the members of its pool have done, where the process at work does not
    say it.
    """
    members = await members_by_run(ledger, [run for run, status in found if not status.members])
    return [
        (run, msgspec.structs.replace(status, members=members.get(run.id, status.members))) for run, status in found
    ]


async def with_posted(ledger: Ledger, found: Sequence[tuple[Run, RunStatus]]) -> list[tuple[Run, RunStatus]]:
    """Each run with its status, and with whose batch it is, where a program has posted it."""
    posted = await ledger.runs.posted.batches.of_runs([run.id for run, _ in found])
    return [
        (run, msgspec.structs.replace(status, posted=_posted(posted[run.id])) if run.id in posted else status)
        for run, status in found
    ]


def _posted(batch: PostedBatch) -> PostedStatus:
    return PostedStatus(by=batch.owner or None, model=batch.model, state=batch.state.value)


async def with_batches(ledger: Ledger, run: Run, status: RunStatus) -> RunStatus:
    """`status` of `run`, with all of its batches at the service where its jobs leave in such, and what the process at
    work says of some.
    """
    if run.settings.via is not Via.BATCH:
        return status
    of_run = await ledger.runs.batches.of_run(run.id)
    told: dict[str | None, BatchStatus] = {each.batch: each for each in status.batches if each.batch is not None}
    before = max((each.overtakes_before for each in of_run), default=0)
    found = [told.get(each.remote_id) or await _counted(ledger, each, before) for each in of_run]
    return msgspec.structs.replace(status, batches=tuple(found))


async def _counted(ledger: Ledger, batch: BatchRecord, overtaken_before: int) -> BatchStatus:
    """One of which no process says how it stands. Its rows are counted only while it is open: of two hundred batches
    most have ended, and each has thousands.
    """
    has_ended = batch.stage in ENDED
    rows = batch.total if has_ended else (await ledger.runs.batches.counts(batch.id)).named
    return batch_status(batch, rows, now=ledger.now(), overtaken_before=overtaken_before)


async def with_retried(ledger: Ledger, run: Run, status: RunStatus, *, is_counted: bool) -> RunStatus:
    """`status` of `run`, with what its executions failed of that were tried again, as long as it is not finished."""
    if not status.retried_executions or not unfinished(status.jobs):
        return status
    return msgspec.structs.replace(status, largest_retried=await largest_retried(ledger, run, is_counted=is_counted))
