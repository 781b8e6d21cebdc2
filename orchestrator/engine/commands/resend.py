"""Sends anew what the service has no more (`runs resend`), as a person says: after a purge, or where an endpoint was
made again.
"""

from typing import Final

from orchestrator.core.jobs import transitions
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.text.wording import counted
from orchestrator.ledger import Ledger
from orchestrator.ledger.commands.command_types import NO_RUN, Command, Reply

PAGE: Final = 1_000
REASON: Final = "gone, as somebody says"


async def resend_outstanding(ledger: Ledger, run: int, *, before: int) -> int:
    """Queues the outstanding jobs of `run` again that were sent before that time (microseconds UTC), as lost ones;
    returns how many. What was sent since then is left alone, so whoever carries it out twice sends nothing twice.
    """
    after, resent = (-1, -1), 0
    while page := await ledger.jobs.in_state(State.OUTSTANDING, after=after, most=PAGE):
        after = (page[-1].due_at, page[-1].id)
        now = ledger.now()
        gone = [job for job in page if job.run == run and (job.submission or 0) < before]
        lost = [
            transitions.retried(job, FailureClass.LOST, due_at=now, retry_until=None, reason=REASON, at=now)
            for job in gone
        ]
        resent += len(await ledger.writer.apply(lost)) if lost else 0
    return resent


async def resent(ledger: Ledger, command: Command) -> Reply:
    """Carries out a RESEND."""
    if command.run is None or all(run.id != command.run for run in await ledger.runs.all()):
        return Reply(NO_RUN, is_refused=True)
    if (await ledger.runs.controls(command.run)).cancel:
        return Reply("it is to be cancelled, so nothing of it is sent; continue it first", is_refused=True)
    found = await resend_outstanding(ledger, command.run, before=command.asked_at)
    if not found:
        return Reply("no job of it was outstanding")
    return Reply(f"{counted(found, 'job')} {'is' if found == 1 else 'are'} queued again")
