"""Which jobs have the result of another, since the service said so, and nothing could show that it was not true."""

import math
from itertools import groupby, pairwise
from operator import attrgetter
from typing import Final

from orchestrator.core.jobs.lifecycle import Event
from tests.simulation.books import Books
from tests.simulation.facts import Facts
from tests.simulation.looked_up import input_of

NAMING: Final = frozenset({Event.ACCEPTED, Event.ADOPTED})
"""What tells the id of a submission."""

_PLACE: Final = attrgetter("place")


def mistaken_in(facts: Facts, books: Books) -> set[str]:
    """The jobs that have another one's result, since the service answered their `/run` with its id, and nobody else had been
    told of that id by then: by polling alone nothing shows such a lie. With webhooks each job has its own, and the one
    whose id it is bears it; but one that brings the record of another job instead tells nothing, and which ids are in
    doubt in one process the next one at that endpoint does not know.
    """
    names = {job.id: job.custom_id for job in books.jobs}
    found: set[str] = set()
    if not facts.plan.faults.repeated_id:
        return found
    begun = [began for began, _ in facts.lives]
    for _, at_place in groupby(sorted(facts.engines.sent if facts.engines else (), key=_PLACE), key=_PLACE):
        begun += [after.at for before, after in pairwise(at_place) if after.process != before.process]
    for outcome in books.outcomes:
        fate = facts.fates.get(outcome.remote_id or "")
        if fate is None or input_of(names[outcome.job]) in fate.rows or outcome.trouble is not None:
            continue
        of_job = books.events[outcome.job]
        taken_at = next(row.at for row in of_job if row.event == Event.COMPLETED)
        named_at = max((row.at for row in of_job if row.event in NAMING and row.at <= taken_at), default=taken_at)
        has_own = any(
            row.submission is not None and facts.own_webhooks.get(row.submission, math.inf) <= facts.moments[taken_at]
            for row in of_job
        )
        others = [row for row in books.submissions.values() if row.remote_id == outcome.remote_id]
        learned = [
            row.at
            for other in others
            if other.job != outcome.job
            for row in books.events[other.job]
            if row.submission == other.id and row.event in {*NAMING, Event.COMPLETED}
        ]
        taken = facts.moments[taken_at]
        is_forgotten = any(facts.moments[named_at] < each <= taken for each in begun)
        if facts.plan.webhooks and has_own and not is_forgotten:
            continue
        if all(at > taken_at for at in learned):
            found.add(names[outcome.job])
    return found
