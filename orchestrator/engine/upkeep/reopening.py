"""Queues jobs again that have failed or were cancelled: what `retry` and `--retry-failed` ask for."""

from collections import Counter
from typing import Final

from orchestrator.core import job as transitions
from orchestrator.core.lifecycle import State
from orchestrator.ledger import Ledger
from orchestrator.ledger.commands import NO_RUN, Command, Reply

PAGE: Final = 1_000


async def reopen(ledger: Ledger, run: int, *, before: int) -> Counter[State]:
    """Queues the jobs of `run` again that had failed, or were cancelled, by `before` (microseconds UTC), with fresh
    counters; returns how many were in which state.

    Whoever asks twice for the same time reopens nothing twice: what is reopened and fails again ends later.
    """
    after, reopened = 0, Counter[State]()
    while page := await ledger.jobs.given_up(run, before=before, after=after, most=PAGE):
        after = page[-1].id
        taken = await ledger.apply([transitions.reopened(job, at=ledger.now()) for job in page])
        reopened.update(job.state for job in page if job.id in taken)
    return reopened


async def retried(ledger: Ledger, command: Command) -> Reply:
    """Carries out a RETRY."""
    if command.run is None or all(run.id != command.run for run in await ledger.runs.all()):
        return Reply(NO_RUN, is_refused=True)
    if (await ledger.runs.wishes(command.run)).cancel:
        return Reply("it is to be cancelled, so nothing of it is reopened; continue it first", is_refused=True)
    reopened = await reopen(ledger, command.run, before=command.asked_at)
    if not reopened.total():
        return Reply("no job of it has failed or was cancelled")
    found = [f"{reopened[state]} {state}" for state in (State.FAILED, State.CANCELLED) if reopened[state]]
    return Reply(f"{' and '.join(found)} {'job is' if reopened.total() == 1 else 'jobs are'} queued again")
