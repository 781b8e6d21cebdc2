"""What must be true of a run whose jobs several endpoints share, whichever of them were well."""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Final

from orchestrator.core.jobs.lifecycle import Event
from orchestrator.core.jobs.reasons import ReasonCode
from orchestrator.core.lanes.via import Via
from orchestrator.emulator.jobs.jobs import ServiceStatus
from orchestrator.settings.words_and_defaults import OnUncertain
from tests.simulation.books import Books, EventRow
from tests.simulation.facts import MEMBERS, Facts
from tests.simulation.looked_up import fate_of, input_of, true_moment


def is_moved_unbegun(row: EventRow) -> bool:
    """Whether a job went from one member of its pool to another, and had not begun there."""
    return row.event == Event.DEFERRED and row.code == ReasonCode.MOVED


def what_was_moved_had_not_begun(facts: Facts, books: Books) -> Iterator[str]:
    """What is sent anew, and counts as sent once, was cancelled before any worker had it."""
    for row in chain.from_iterable(books.events.values()):
        if not is_moved_unbegun(row):
            continue
        remote_id, fate = fate_of(facts, books, row)
        if fate is None:
            continue
        before = sum(end.status is not ServiceStatus.CANCELLED for end in fate.ends)  # each by a `/retry` undone
        if fate.executions > before or fate.end_by(true_moment(facts, row)) is None:
            yield (
                f"job {row.job} ({remote_id}) was moved as if nothing had begun: "
                f"it ended as {fate.ends}, after {fate.executions} executions"
            )


def nobody_in_doubt_is_sent_anew_unasked(facts: Facts, books: Books) -> Iterator[str]:
    """What is uncertain is sent anew where the run wants that; where it is held, only once the service has deleted it."""
    wishes = {run.plan.name: run.plan.on_uncertain for run in facts.runs}
    for job in books.jobs:
        wish = wishes[job.run]
        for row in books.events.get(job.id, ()):
            if row.event != Event.RETRIED or row.trouble != "uncertain" or wish is OnUncertain.RESUBMIT:
                continue
            submission = books.submission_of(row)
            until = None if submission is None else submission.ttl_at
            is_early = until is not None and row.at < until and not any(facts.plan.clocks)  # else waits are cut short
            if wish is OnUncertain.FAIL or is_early:
                yield f"{job.custom_id} was sent anew though it was uncertain, and its run would {wish}"


def nothing_is_left_at_a_member(facts: Facts, books: Books) -> Iterator[str]:
    """Once all is over, whatever still is at a member of the pool is to be cancelled there, as the ledger says."""
    if facts.plan.pool is None or not facts.finished:
        return
    known = {row.remote_id: row for row in books.submissions.values() if row.remote_id is not None}
    for remote_id, fate in facts.fates.items():
        row = known.get(remote_id)
        if row is None or fate.lost or fate.ends or fate.forgotten_at is not None:
            continue
        if row.cancel_at is None:
            yield f"{remote_id} of job {row.job} is at {fate.at} still, and nobody is to cancel it"


BY_OPERATIONS: Final[Mapping[Via, frozenset[str]]] = {
    Via.QUEUE: frozenset({"run", "retry"}),
    Via.SYNC: frozenset({"runsync", "retry"}),
    Via.BOTH: frozenset({"run", "runsync", "retry"}),
    Via.OPENAI: frozenset({"openai"}),
    Via.HTTP: frozenset({"openai"}),
}
"""By what the jobs of each lane leave; simulated servers at URLs are below `/openai`."""


def each_member_is_sent_jobs_by_its_own_lane(facts: Facts, _books: Books) -> Iterator[str]:
    """Where members have lanes of their own, no job of the run leaves for one by that of another."""
    pool = facts.plan.pool
    if pool is None or not pool.vias:
        return
    of_run = {input_of(f"job-{n}") for n in facts.runs[0].numbers}
    for at, operation, raw_input in sorted(facts.ways):
        if at in MEMBERS and raw_input in of_run:
            via = pool.via(MEMBERS.index(at)) or facts.plan.via
            alone = BY_OPERATIONS[facts.plan.via] if 1 in pool.named and at == MEMBERS[0] else frozenset()
            if operation not in BY_OPERATIONS[via] | alone:
                yield f"{raw_input.decode()} left by /{operation} for {at}, whose lane is {via}"
