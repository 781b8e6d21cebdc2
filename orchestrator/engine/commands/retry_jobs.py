"""Queues jobs again that have failed or were cancelled: what `retry` and `--retry-failed` ask for.

A page is one transaction, in which the command says how far it has come: a process that ends in between leaves the
count true, and the next one goes on. Nothing is reopened twice: what is reopened and fails again ends later. Whoever
cancels the run meanwhile does not wait for it: it stops there, and says so.
"""

from collections import Counter
from typing import Final

import msgspec

from orchestrator.core.filters.filter import And, Filter, Or, StateIs
from orchestrator.core.filters.filter_parser import FilterError, parse
from orchestrator.core.jobs import transitions
from orchestrator.core.jobs.job import Overrides
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.text.durations import Policy, encode_policy, format_duration, policy_problems
from orchestrator.core.text.wording import counted
from orchestrator.ledger import Ledger
from orchestrator.ledger.commands.command_types import Command, Reply
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings.command_requests import RetryChoice
from orchestrator.units import MILLISECOND_US

PAGE: Final = 1_000

GIVEN_UP: Final = Or((StateIs(State.FAILED), StateIs(State.CANCELLED)))


async def retry_chosen(ledger: Ledger, command: Command, there: Run, *, page: int = PAGE) -> Reply:
    """Carries out a RETRY, so many jobs to a transaction; `there` is the run as it is at the endpoint for them."""
    try:
        asked = msgspec.json.decode(command.argument, type=RetryChoice)
        chosen, overrides = parse(asked.where, now=command.asked_at), overrides_of(asked, there.endpoint_id)
    except (msgspec.MsgspecError, FilterError, ValueError) as error:
        return Reply(f"it cannot be understood here: {error}", is_refused=True)
    reopened, is_whole = await _reopen(ledger, command, And((GIVEN_UP, chosen)), overrides, most=page)
    total = command.progress + reopened.total()
    if not total and not is_whole:
        return Reply("it is to be cancelled, so nothing of it is reopened; continue it first", is_refused=True)
    if not total:
        return Reply(f"no {'such ' if asked.where else ''}job of it has failed or was cancelled")
    found = [f"{reopened[state]:,} {state}" for state in (State.FAILED, State.CANCELLED) if reopened[state]]
    told = f"{total:,}" if command.progress else " and ".join(found)
    cut = "" if is_whole else "; then it was to be cancelled, and the others are not reopened"
    return Reply(f"{told} {'job is' if total == 1 else 'jobs are'} queued again{_with(overrides)}{cut}")


async def _reopen(
    ledger: Ledger, command: Command, chosen: Filter, overrides: Overrides, *, most: int
) -> tuple[Counter[State], bool]:
    """Reopens what `chosen` means of the jobs that had ended when it was asked for; returns how many of which state,
    and whether it came to the end: not where the run is to be cancelled.
    """
    assert command.run is not None
    after, is_last, reopened = 0, False, Counter[State]()
    while not is_last:
        if (await ledger.runs.controls(command.run)).cancel:
            return reopened, False
        page = await ledger.reports.job_queries.page(command.run, chosen, after=after, most=most)
        after, is_last = page.after, page.is_last
        meant = [each.job for each in page.jobs if each.ended_at is not None and each.ended_at <= command.asked_at]
        found = [job for job in (await ledger.jobs.of(meant)).values() if job.state in {State.FAILED, State.CANCELLED}]
        if found:
            now = ledger.now()
            steps = [transitions.reopened(job, at=now, overrides=overrides) for job in found]
            taken = await ledger.commands.apply(command.id, steps)
            reopened.update(job.state for job in found if job.id in taken)
    return reopened, True


def overrides_of(asked: RetryChoice, endpoint: int) -> Overrides:
    """The settings of their own that jobs are tried again with, at the endpoint of that number. Raises `ValueError` for
    what the service refuses.
    """
    policy = Policy(execution_timeout_ms=asked.execution_timeout_ms, ttl_ms=asked.ttl_ms)
    if problems := policy_problems(policy):
        raise ValueError("; ".join(problems))
    told = [
        f"{named} {format_duration(ms * MILLISECOND_US)}"
        for named, ms in (("execution timeout", asked.execution_timeout_ms), ("TTL", asked.ttl_ms))
        if ms is not None
    ]
    if asked.max_attempts is not None:
        told.append(counted(asked.max_attempts, "attempt"))
    if asked.endpoint is not None:
        told.append(f"endpoint {asked.endpoint}")
    return Overrides(
        endpoint=endpoint,
        policy=None if policy == Policy() else encode_policy(policy),
        attempts_max=asked.max_attempts,
        description=" and ".join(told),
    )


def _with(overrides: Overrides) -> str:
    return f", with {overrides.description}" if overrides.description else ""
