"""What must be true of rows that travel together: each has its own end, and none pays for another."""

from collections import Counter
from collections.abc import Iterator
from itertools import chain, pairwise
from typing import Final

from orchestrator.core.jobs.lifecycle import Event
from orchestrator.core.jobs.reasons import ReasonCode
from tests.engine.chunks.travelling import POISON, said_of_bad
from tests.simulation.books import Books, EventRow
from tests.simulation.facts import Facts
from tests.simulation.looked_up import input_of, number_of

OF_ROWS: Final = frozenset({"failed", "invalid_output"})
"""What a row may be given up for that its handler has seen."""


def is_said_of_row(facts: Facts, books: Books, row: EventRow) -> bool:
    """Whether an event may be what the handler has said of a bad row of a chunk, which is no result."""
    return row.trouble == "failed" and is_bad(facts, books.name_of(row))


def is_bad(facts: Facts, custom_id: str) -> bool:
    """Whether the handler says of that row, whatever travels with it, that it is bad: that is no result."""
    return facts.plan.chunks is not None and number_of(custom_id) in facts.plan.chunks.bad


def no_row_bears_the_trouble_of_another(facts: Facts, books: Books) -> Iterator[str]:
    """What a handler dies of, or calls bad, is that row alone; and a row that fails has failed by itself."""
    chunks = facts.plan.chunks
    if chunks is None:
        return
    names = {job.id: job.custom_id for job in books.jobs}
    told = {POISON, *map(said_of_bad, chunks.bad)}
    for row in books.outcomes:
        name, submission = names[row.job], books.submission_of(row)
        n = number_of(name)
        is_own = {POISON: n in chunks.poisonous, said_of_bad(n): n in chunks.bad}
        if row.trouble is None:
            if any(is_own.values()):
                yield f"{name} has succeeded, which no handler can do"
        elif not is_own.get(row.message or "", row.message not in told):
            yield f"{name} has failed with another's trouble: {row.message}"
        elif row.trouble in OF_ROWS and submission is not None and submission.rows > 1 and not _is_own(facts, name):
            yield f"{name} was given up with the {submission.rows} rows of its chunk: {row.message}"


def _is_own(facts: Facts, custom_id: str) -> bool:
    """Whether a row may fail by itself in whatever chunk: it is bad, or its output can become no file."""
    is_no_file = facts.outputs is not None and facts.outputs.is_never_a_file(number_of(custom_id))
    return is_no_file or is_bad(facts, custom_id)


def a_chunk_that_fails_is_halved(facts: Facts, books: Books) -> Iterator[str]:
    """Rows go again in chunks of half as many, and that costs none of their attempts."""
    sent: dict[int, list[EventRow]] = {
        job: [row for row in rows if row.event == Event.CLAIMED or row.code == ReasonCode.CHUNK_HALVED]
        for job, rows in books.events.items()
    }
    for job, rows in sent.items():
        for row, after in pairwise(rows):
            submission = books.submission_of(row)
            if row.code != ReasonCode.CHUNK_HALVED or submission is None or after.event != Event.CLAIMED:
                continue
            if (n := _rows(books, after)) > max(1, submission.rows // 2):
                yield f"job {job} travelled with {n} after a chunk of {submission.rows} had failed"


def _rows(books: Books, row: EventRow) -> int:
    submission = books.submission_of(row)
    return 0 if submission is None else submission.rows


def what_travels_together_comes_to_its_end(_facts: Facts, books: Books) -> Iterator[str]:
    """Of each chunk that left every row has a step after it: none is left behind by the others."""
    for row in books.submissions.values():
        if row.rows and not any(
            event.submission == row.id and event.event not in {Event.CLAIMED, Event.ACCEPTED, Event.ADOPTED}
            for event in books.events.get(row.job, ())
        ):
            yield f"of job {row.job}, which was sent with {row.rows} rows, nothing was heard"


def nothing_is_executed_that_is_not_counted(facts: Facts, books: Books) -> Iterator[str]:
    """So many submissions of a row as were executed count as possibly paid, at the least, but for those that people
    wanted anew.
    """
    executed = Counter(chain.from_iterable(fate.rows for fate in facts.fates.values() if fate.executions))
    for job in books.jobs:
        is_anew = any(row.event == Event.REOPENED for row in books.events.get(job.id, ()))
        if executed[input_of(job.custom_id)] > job.attempt and not is_anew:
            yield f"{job.custom_id} was executed {executed[input_of(job.custom_id)]} times, and counts {job.attempt}"


OF_CHUNKS = (
    no_row_bears_the_trouble_of_another,
    a_chunk_that_fails_is_halved,
    what_travels_together_comes_to_its_end,
    nothing_is_executed_that_is_not_counted,
)
