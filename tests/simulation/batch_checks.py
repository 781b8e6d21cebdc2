"""What must be true of runs whose jobs leave in batches of the service."""

from collections.abc import Iterator
from itertools import chain

from orchestrator.core.jobs.lifecycle import Event
from orchestrator.core.jobs.reasons import ReasonCode
from orchestrator.emulator.contract.answers import ServiceRefusal
from orchestrator.emulator.jobs.jobs import ServiceStatus
from orchestrator.units import SECOND_US
from tests.simulation.books import Books, EventRow
from tests.simulation.facts import Facts
from tests.simulation.looked_up import fate_of, true_moment
from tests.simulation.world import ENDPOINT

UNBEGUN = frozenset({ReasonCode.BATCH_LEFT, ReasonCode.BATCH_DROPPED})


def is_left_unbegun(row: EventRow) -> bool:
    """Whether a job goes elsewhere of which its batch has executed nothing."""
    return row.event == Event.DEFERRED and row.code in UNBEGUN


def what_a_batch_leaves_had_not_begun(facts: Facts, books: Books) -> Iterator[str]:
    """What is sent anew after its batch, and counts as sent once, was executed by nobody: not then, and never after."""
    for row in chain.from_iterable(books.events.values()):
        if is_left_unbegun(row):
            remote_id, fate = fate_of(facts, books, row)
            if fate is not None and fate.executions:
                yield f"job {row.job} ({remote_id}) was sent anew as if nothing had begun: it ended as {fate.ends}"


def nothing_of_a_batch_is_given_up_too_soon(facts: Facts, books: Books) -> Iterator[str]:
    """A result that was kept for as long as agreed, while the program ran and could ask, was collected."""
    if facts.plan.batches is None:
        return
    enough_us = facts.plan.batches.kept_s * SECOND_US
    for row in chain.from_iterable(books.events.values()):
        if row.trouble not in {"expired", "lost"} or row.event not in {Event.RETRIED, Event.ABANDONED}:
            continue
        remote_id, fate = fate_of(facts, books, row)
        end = fate.end_by(true_moment(facts, row)) if fate is not None else None
        if fate is None or end is None or end.status is not ServiceStatus.COMPLETED or fate.lost:
            continue
        until = min(fate.forgotten_at or row.at, true_moment(facts, row))
        up_us = facts.up_us(end.at, until, at=fate.at)
        if up_us > enough_us:
            yield f"job {row.job} ({remote_id}) was given up as {row.trouble}, and its result was there for {up_us} µs"


def what_is_somebody_elses_is_left_alone(facts: Facts, _books: Books) -> Iterator[str]:
    """No batch of another program gets a row, is finalized or cancelled."""
    for left in facts.strange:
        try:
            found = facts.batches_here.get(ENDPOINT, left.id, facts.true.now())
        except ServiceRefusal:  # the service has forgotten it, as it may
            continue
        if found.request_total != left.total or (
            found.status is not left.status and not facts.plan.faults.failed_batch
        ):
            yield f"{left.id} of another program was {left.status} with {left.total} rows, and is {found}"


def no_draft_of_ours_is_left(facts: Facts, books: Books) -> Iterator[str]:
    """Once all is over, what is still a draft at the service is somebody else's, empty, or unknown to its own ledger."""
    if facts.plan.batches is None or not facts.finished:
        return
    theirs = {left.id for left in facts.strange}
    for batch in facts.batches_here.newest(ENDPOINT, 0, None, facts.true.now()).batches:
        is_known = batch.id in books.batches
        if batch.status == "DRAFT" and batch.id not in theirs and (batch.request_total or is_known):
            yield f"{batch.id}, a draft with {batch.request_total} rows, is left"


OF_BATCHES = (
    what_a_batch_leaves_had_not_begun,
    nothing_of_a_batch_is_given_up_too_soon,
    what_is_somebody_elses_is_left_alone,
    no_draft_of_ours_is_left,
)
