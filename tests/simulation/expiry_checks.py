"""Whether results were collected that somebody could collect."""

from collections.abc import Iterator
from itertools import chain

from orchestrator.client.http.transport import REQUEST_S_MAX
from orchestrator.client.jobs.allowance import for_a_batch, for_an_owner
from orchestrator.core.jobs.lifecycle import Event
from orchestrator.core.limits.rate_pacer import Limit, Operation
from orchestrator.units import SECOND_US
from tests.simulation.books import Books, EventRow
from tests.simulation.chunk_checks import is_said_of_row
from tests.simulation.facts import Facts
from tests.simulation.looked_up import fate_of, true_moment
from tests.simulation.plan import Plan
from tests.simulation.save_checks import is_never_a_file

BUDGET_US = 90 * SECOND_US
"""Who could reach the service for this long, or a third of the retention, had the budget to collect a result: requests
that come to nothing are repeated within a minute at the latest, and a world has few jobs."""

HUNG_US = 2 * round(REQUEST_S_MAX * SECOND_US)
"""Where answers may come later than we wait for them, two questions in a row may do nothing but hang."""

LAST_US = 5 * SECOND_US
"""Where the service wants no question, single ones are asked all the same so soon before results go."""

GIVEN_UP = frozenset({"expired", "lost", "timed_out", "invalid_output", "failed"})
"""What may be said of a submission whose result nobody has."""

WITHHELD_ASKED = 3
"""A result that nobody got by so many questions, one of them in the last third of its time, was kept by the service."""


def nothing_expired(facts: Facts, books: Books) -> Iterator[str]:
    """A result that was there long enough for a program that ran was collected, if it could know how long that was, and
    unless the service answered one question after the other with something else.
    """
    if facts.plan.is_untold:
        return
    faults = facts.plan.faults
    hung_us = HUNG_US if faults.slow_answer and faults.slow_answer_s > REQUEST_S_MAX else 0
    enough_us = min(BUDGET_US, facts.plan.retention_s * SECOND_US / 3) + hung_us
    places = _places(facts.plan)
    for row in chain.from_iterable(books.events.values()):
        if row.trouble not in GIVEN_UP or row.event not in {Event.RETRIED, Event.ABANDONED}:
            continue
        remote_id, fate = fate_of(facts, books, row)
        end = fate.end_by(true_moment(facts, row)) if fate else None
        if fate is None or end is None or not end.is_result or fate.is_of_batch or is_no_result(facts, books, row):
            continue
        until = min(fate.forgotten_at or row.at, true_moment(facts, row))
        up_us = facts.up_us(end.at, until, at=fate.at)
        if facts.up_us(until - LAST_US, until, at=fate.at) < LAST_US:
            up_us -= facts.paused_up_us(end.at, until, at=fate.at)
        barred_us = sum(end.at <= at < until for at in facts.unanswered) * facts.plan.status_rate.window_s * SECOND_US
        if up_us > enough_us + barred_us / places and not _is_withheld(facts, remote_id or "", end.at, until):
            yield (
                f"job {row.job} ({remote_id}): a result that was there for {(until - end.at) / SECOND_US:.1f} s, "
                f"of which we could ask for {up_us / SECOND_US:.1f} s, was given up as {row.trouble}"
            )


def _places(plan: Plan) -> int:
    """How many questions a process may have at once: each that comes to nothing bars others from its place for as long
    as a window is, since the service may still be at it.
    """
    limits = {Operation.STATUS: Limit(1, 1.0, plan.status_rate.concurrent)}
    if plan.engines is not None:
        limits = for_an_owner(limits)
    return for_a_batch(limits)[Operation.STATUS].concurrent or 1


def _is_withheld(facts: Facts, remote_id: str, since: int, until: int) -> bool:
    """Whether a result was asked for often enough, and late enough, while it was there, and was never told."""
    asked = [at for at in facts.questions.get(remote_id, ()) if since <= at < until]
    is_told = any(since <= at < until for at in facts.told.get(remote_id, ()))
    return not is_told and len(asked) >= WITHHELD_ASKED and asked[-1] >= until - (until - since) // 3


def is_no_result(facts: Facts, books: Books, row: EventRow) -> bool:
    return is_said_of_row(facts, books, row) or is_never_a_file(facts, books, row)
