"""What several checks look up: the input of a row, the true time of an event, and the fate that it is about."""

from typing import Final

from orchestrator.core.jobs.lifecycle import Event
from orchestrator.core.jobs.reasons import ReasonCode
from tests.simulation.books import Books, EventRow, JobRow
from tests.simulation.facts import Facts
from tests.simulation.fates import Fate
from tests.simulation.pool import lane_at

ASKED: Final = "asked for"
"""Why a job is executed again whatever became of it before: a person wanted it."""

HIDDEN: Final = "failed past the queue"
"""There a 500 may take the place of a result."""

SENT_AGAIN: Final = frozenset({Event.RETRIED, Event.REOPENED, Event.CONTINUED})
"""After these a job is sent once more."""


def input_of(custom_id: str) -> bytes:
    """As its row has it."""
    return b'{"n":%d}' % number_of(custom_id)


def number_of(custom_id: str) -> int:
    """Which row of the world it is."""
    return int(custom_id.removeprefix("job-"))


def true_moment(facts: Facts, row: EventRow) -> int:
    """When it happened, by the true clock."""
    return facts.moments.get(row.at, row.at)


def fate_of(facts: Facts, books: Books, row: EventRow) -> tuple[str | None, Fate | None]:
    """What became of the submission that an event is about; of none that was told another's id, or may have been, since
    that of another brought it by its webhook.
    """
    submission = books.submission_of(row)
    remote_id = submission.remote_id if submission else None
    if row.code == ReasonCode.REPEATED_ID and facts.plan.faults.other_id_webhook:
        return remote_id, None
    fate = facts.fates.get(remote_id or "")
    return remote_id, fate if fate is not None and input_of(books.name_of(row)) in fate.rows else None


def is_carried(books: Books, row: EventRow) -> bool:
    """Whether an event is about a submission that left by that of another row: what is counted are those that left."""
    submission = books.submission_of(row)
    return submission is not None and submission.is_carried


def is_past_queue(facts: Facts, books: Books, job: JobRow, row: EventRow) -> bool:
    """Whether a submission past the queue is what an event of `job` is about."""
    submission = books.submission_of(row)
    return submission is not None and not lane_at(facts.plan, job.run, submission.endpoint).has_queue


def why_again(row: EventRow, *, past_queue: bool) -> str:
    """Why a job is executed again after that."""
    if row.event == Event.REOPENED:
        return ASKED
    return HIDDEN if past_queue and row.trouble == "failed" else row.trouble or row.event
