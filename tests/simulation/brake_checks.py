"""What must be true of canaries, budgets and breakers, whatever goes wrong: each stops what it should, and nothing else."""

import math
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from orchestrator.core.gates.failure_breaker import BreakerRules
from orchestrator.core.jobs.lifecycle import TERMINAL, TRANSITIONS, Event, State
from orchestrator.core.jobs.run_counters import FAILED_EXECUTIONS
from orchestrator.ledger.commands.command_types import Action
from orchestrator.settings.parsers.brake_parsers import parse_canary, parse_max_failures
from orchestrator.units import SECOND_US, WHOLE
from tests.simulation.books import Books, EventRow
from tests.simulation.clock import EPOCH_AT
from tests.simulation.facts import Facts, RunFacts
from tests.simulation.plan import FailureClass

SOON_US = 2 * SECOND_US
"""So long may it take until what is known is heeded, by whoever claims at that moment."""

CLAIM_CALLS = 20
"""So many calls of a server may lie between the decision to claim and the claim; a file takes it at once."""

OVER = frozenset({Event.COMPLETED, Event.ABANDONED, Event.CANCELLED})


class Story(NamedTuple):
    """The events of a run in their order, up to the moment at which people went past its brakes."""

    run: RunFacts
    events: tuple[EventRow, ...]
    until: float
    """That moment; of what comes after it nothing is said."""


def _stories(facts: Facts, books: Books) -> Iterator[Story]:
    runs = {run.plan.name: run for run in facts.runs}
    for name, run in runs.items():
        went_past = [row.asked_at for row in books.commands if row.run == name and row.action == Action.CONTINUE]
        until = min([*(facts.moments.get(at, at) for at in went_past), *(at for at, _ in run.held)], default=math.inf)
        ids = {job.id for job in books.jobs if job.run == name}
        events = sorted((row for job in ids for row in books.events.get(job, ())), key=lambda row: row.id)
        yield Story(run, tuple(row for row in events if facts.moments.get(row.at, row.at) < until), until)


def the_rest_waits_for_the_canary(facts: Facts, books: Books) -> Iterator[str]:
    """No more than the rows that go first are sent before enough of them have succeeded."""
    if facts.plan.canary is None:
        return
    rules = parse_canary(facts.plan.canary)
    for run, events, _ in _stories(facts, books):
        first = min(rules.rows, run.plan.jobs)
        sent: set[int] = set()
        succeeded: set[int] = set()
        for row in events:
            if row.event == Event.CLAIMED:
                sent.add(row.job)
            elif row.event == Event.COMPLETED:
                succeeded.add(row.job)
            if len(sent) > first and len(succeeded) < math.ceil(first * rules.share / WHOLE):
                yield f"{run.plan.name}: {len(sent)} rows were sent when {len(succeeded)} of {first} had succeeded"
                break


def no_budget_is_passed(facts: Facts, books: Books) -> Iterator[str]:
    """What a run has cost is within its budget, but for what was outstanding when the last job was about to be claimed."""
    if facts.plan.faults.absurd_times:  # of what is told nothing is true
        return
    faults, longest_s = facts.plan.faults, facts.plan.seconds[1]
    if faults.dead_worker or faults.stuck_worker:
        longest_s = max(longest_s, facts.plan.execution_timeout_s + faults.silence_s)
    for run, events, _ in _stories(facts, books):
        budget_s = facts.plan.budget_s(run.plan)
        sent = [number for number, row in enumerate(events) if row.event == Event.CLAIMED]
        if budget_s is None or not sent or run.held or Action.CONTINUE in {row.action for row in books.commands}:
            continue  # what comes after people went past it is not told apart
        before = events[: sent[-1] + 1]
        begun = sum(row.event == Event.CLAIMED for row in before)
        claiming_at = before[-1].at - (0 if facts.engines is None else CLAIM_CALLS * facts.plan.database_s * SECOND_US)
        ended = sum(row.event in {Event.DEFERRED, Event.RETRIED, *OVER} and row.at < claiming_at for row in before)
        bound_s = budget_s + max(1, begun - ended) * longest_s
        spent_s = books.told_s.get(run.plan.name, 0.0)
        if spent_s > bound_s:
            yield f"{run.plan.name} cost {spent_s:.1f} s of a budget of {budget_s:.1f} s with {begun - ended} outstanding"


def nothing_is_sent_that_brakes_hold(facts: Facts, books: Books) -> Iterator[str]:
    """Nothing is sent once more rows have failed than may, or after the time by which all is to be finished."""
    plan = facts.plan
    if plan.of(FailureClass.ASLEEP) or plan.of(
        FailureClass.CLOCK_JUMP
    ):  # who decides may do it later, or at another time
        return
    allowed = None if plan.max_failures is None else parse_max_failures(plan.max_failures)
    late_at = None if plan.finish_by_s is None else EPOCH_AT + round(plan.finish_by_s * SECOND_US) + SOON_US
    for run, events, _ in _stories(facts, books):
        states: defaultdict[int, State] = defaultdict(lambda: State.QUEUED)
        exceeded_at: int | None = None
        for row in events:
            if row.event == Event.CLAIMED and late_at is not None and row.at > late_at:
                yield f"{run.plan.name}: a row was sent {(row.at - late_at + SOON_US) / SECOND_US:.1f} s too late"
            if row.event == Event.CLAIMED and exceeded_at is not None and row.at > exceeded_at + SOON_US:
                yield f"{run.plan.name}: a row was sent though more had failed than {plan.max_failures}"
            states[row.job] = TRANSITIONS[states[row.job]].get(Event(row.event), states[row.job])
            failed = sum(state is State.FAILED for state in states.values())
            ended = sum(state in TERMINAL for state in states.values())
            if allowed is None or not allowed.are_exceeded(failed, ended):
                exceeded_at = None
            elif exceeded_at is None:
                exceeded_at = row.at


def what_is_healthy_is_not_stopped(facts: Facts, books: Books) -> Iterator[str]:
    """A canary has failed where rows have, and so have more than may; a budget is used up where so much can have been
    paid, and none of a day's that is ample; and a breaker has tripped where as many executions have failed as it takes.
    """
    for run, events, until in _stories(facts, books):
        for told in (told for at, told in run.held if at <= until):
            if "the canary failed" in told and not any(row.event in OVER - {Event.COMPLETED} for row in events):
                yield f"{run.plan.name}: nothing has failed, and {told!r}"
            failed = sum(row.event == Event.ABANDONED for row in events)
            if "max-failures" in told and not parse_max_failures(facts.plan.max_failures or "off").are_exceeded(
                failed, failed
            ):
                yield f"{run.plan.name}: {failed} rows have failed, and {told!r}"
            if "the budget of" in told:
                claimed = sum(row.event == Event.CLAIMED for row in events)
                most_s = (claimed + 1) * max(facts.plan.execution_timeout_s, facts.plan.seconds[1])
                if most_s < (facts.plan.budget_s(run.plan) or 0):
                    yield f"{run.plan.name}: {claimed} executions cannot have cost that much, and {told!r}"
    if not facts.plan.faults.absurd_times and any("a day, until 00:00 UTC" in line for line in facts.said):
        yield "the budget of a day was used up, which no executions of this world can cost"
    if any(re.search("breaker has tripped", line) for line in facts.said):
        failed = books.counts.get(FAILED_EXECUTIONS, 0)
        if failed < BreakerRules().first:
            yield f"a breaker has tripped after {failed} failed executions"
