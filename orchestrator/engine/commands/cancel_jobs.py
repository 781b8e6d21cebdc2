"""Cancels the jobs of a run that a filter means (`cancel --where`), when somebody asks for that.

What waits here ends at once, a page to a transaction; what is at the service is owed a `/cancel`, which the canceller
sends within the limit. Of a request that is under way nothing can be said before it is answered: that is waited for.
"""

from collections.abc import Callable, Sequence
from typing import Final

import anyio
import msgspec

from orchestrator.core.filters.filter import And, Filter, Not, Or, StateIs
from orchestrator.core.filters.filter_parser import FilterError, parse
from orchestrator.core.jobs.lifecycle import TERMINAL
from orchestrator.core.text.wording import counted
from orchestrator.ledger import Ledger
from orchestrator.ledger.commands.command_types import NO_RUN, CancelledJobs, Command, Reply
from orchestrator.ledger.jobs.cancels import CancelProgress

PAGE: Final = 1_000
ANSWERED_S_MAX: Final = 60.0
"""Longer than any request for a job can be under way."""

LOOK_S: Final = 0.25

IN_BATCHES: Final = (
    "; {} in batches cannot be taken out of these: what is executed of it is billed, and a result counts"
)

IN_COMPANY: Final = "; {} in chunks with rows that are wanted still, and of those the service ends all or none"

IS_UNFINISHED: Final = Not(Or(tuple(StateIs(state) for state in sorted(TERMINAL))))


async def cancel_chosen(ledger: Ledger, owed: Callable[[], None], command: Command, *, page: int = PAGE) -> Reply:
    """Carries out a CANCEL_JOBS, so many jobs to a transaction. `owed` is called when something is to be cancelled at
    the service.
    """
    if command.run is None or all(run.id != command.run for run in await ledger.runs.all()):
        return Reply(NO_RUN, is_refused=True)
    try:
        where = msgspec.json.decode(command.argument, type=CancelledJobs).where
        chosen = And((IS_UNFINISHED, parse(where, now=command.asked_at)))
    except (msgspec.MsgspecError, FilterError) as error:
        return Reply(f"it cannot be understood here: {error}", is_refused=True)
    found = await _cancel_all(ledger, owed, command, chosen, most=page)
    total = command.progress + found.ended + found.owed
    if not total:
        return Reply("no such job of it is unfinished")
    some = "" if found.owed == total else f"{found.owed:,} of them "
    there = f", {some}at the service" if found.owed else ""
    left = (
        f"; {counted(len(found.submitting), 'request')} under way could not be waited for" if found.submitting else ""
    )
    billed = IN_BATCHES.format(counted(found.in_batches, "job")) if found.in_batches else ""
    if found.in_company:
        billed += IN_COMPANY.format(counted(found.in_company, "job travels", "jobs travel"))
    return Reply(f"{counted(total, 'job')} {'is' if total == 1 else 'are'} being cancelled{there}{billed}{left}")


async def _cancel_all(
    ledger: Ledger, owed: Callable[[], None], command: Command, chosen: Filter, *, most: int
) -> CancelProgress:
    assert command.run is not None
    whole = CancelProgress(0, 0, ())
    after, is_last = 0, False
    while not is_last:
        page = await ledger.reports.job_queries.page(command.run, chosen, after=after, most=most)
        after, is_last = page.after, page.is_last
        whole = await _cancel(ledger, owed, command, [job.job for job in page.jobs], whole)
    with anyio.move_on_after(ANSWERED_S_MAX):
        while whole.submitting:
            await anyio.sleep(LOOK_S)
            again, whole = whole.submitting, msgspec.structs.replace(whole, submitting=())
            whole = await _cancel(ledger, owed, command, again, whole)
    return whole


async def _cancel(
    ledger: Ledger, owed: Callable[[], None], command: Command, ids: Sequence[int], so_far: CancelProgress
) -> CancelProgress:
    if not ids:
        return so_far
    found = await ledger.jobs.cancels.cancel(ids, command=command.id)
    if found.owed:
        owed()
    return so_far.plus(found)
