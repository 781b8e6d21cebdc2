"""What several checks look up: the input of a row, the true time of an event, and the fate that it is about."""

from orchestrator.core.jobs.reasons import ReasonCode
from tests.simulation.books import Books, EventRow
from tests.simulation.facts import Facts
from tests.simulation.fates import Fate


def input_of(custom_id: str) -> bytes:
    """As its row has it."""
    return b'{"n":%d}' % int(custom_id.removeprefix("job-"))


def true_moment(facts: Facts, row: EventRow) -> int:
    """When it happened, by the true clock."""
    return facts.moments.get(row.at, row.at)


def fate_of(facts: Facts, books: Books, row: EventRow) -> tuple[str | None, Fate | None]:
    """What became of the submission that an event is about; of none that was told another's id, or may have been, since
    that of another brought it by its webhook.
    """
    submission = books.submissions.get(row.submission or 0)
    remote_id = submission.remote_id if submission else None
    if row.code == ReasonCode.REPEATED_ID and facts.plan.faults.other_id_webhook:
        return remote_id, None
    fate = facts.fates.get(remote_id or "")
    (custom_id,) = (job.custom_id for job in books.jobs if job.id == row.job)
    return remote_id, fate if fate is not None and fate.input == input_of(custom_id) else None
