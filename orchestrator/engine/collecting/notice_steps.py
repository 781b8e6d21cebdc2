"""What a notice makes of its job, as the job is then: a step, a question, or nothing.

While a job is at the service, a result is taken from a webhook only if it can speak of nothing but the execution at
hand; otherwise the job is to be asked for. Of everything that was given up, a submission or a whole job, a result
counts whenever it comes, and nothing else changes anything.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

import msgspec

from orchestrator.core.jobs import transitions
from orchestrator.core.jobs.cancel_reason import CancelWhy
from orchestrator.core.jobs.deadlines import margin_left
from orchestrator.core.jobs.job import Job, is_terminal, outcome_from
from orchestrator.core.jobs.lifecycle import Event, State, is_legal
from orchestrator.core.jobs.segments import SegmentEnd, SegmentProgress
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.core.service.job_record import Record
from orchestrator.core.service.outcomes import TERMINAL_STATUSES, verdict_of
from orchestrator.core.service.webhook_token import Notice, NoticeKey
from orchestrator.engine.collecting.result_steps import kept_outcome, on_completed, on_finished
from orchestrator.engine.collecting.validation_pool import Validation
from orchestrator.engine.endpoint.endpoint import Endpoint
from orchestrator.engine.endpoint.output_streams import EMPTY
from orchestrator.ledger.transactions.transaction import Settled
from orchestrator.ledger.transitions.segment_writes import Reported

COMPLETED: Final = "COMPLETED"


@dataclass(slots=True, eq=False)
class SortedOut:
    """What a batch of notices comes to, at most one step for each job."""

    taken: list[Transition] = field(default_factory=list)
    by_job: dict[int, Notice] = field(default_factory=dict)
    """The notice that each step is due to."""

    settled: list[Settled] = field(default_factory=list)
    again: list[Notice] = field(default_factory=list)
    later: set[NoticeKey] = field(default_factory=set)
    """Those that come back by themselves: what they wait for is still to come."""

    foreign: list[tuple[int, Notice]] = field(default_factory=list)
    """Notices that are about other jobs, and whose runs they were said to be of: they say nothing of anybody."""

    late: dict[int, Notice] = field(default_factory=dict)
    """By job: submissions that were given up, and ran after all."""

    standings: Mapping[int, SegmentProgress] = field(default_factory=dict)
    """By job: how far it has come, of those that are resumable."""

    reports: list[Reported] = field(default_factory=list)
    """What the workers of earlier segments said as they gave their jobs back: it is too late for any more."""

    unnamed: list[Notice] = field(default_factory=list)
    """Submissions of which the service may tell for the first time what it calls them."""


class Instead(Enum):
    """What follows from a notice that makes no step."""

    NOTHING = auto()
    ASK = auto()
    """Only `/status` can say what became of the job."""


def on_notice(
    endpoint: Endpoint,
    notice: Notice,
    job: Job,
    *,
    validation: Validation,
    cancel_why: CancelWhy | None,
    end: SegmentEnd | None,
    in_chunk: bool = False,
) -> Transition | Instead:
    """What `notice` makes of `job`, whose output was found to be worth `validation`.

    `end`: what it tells of a segment, if the job is resumable; one that was given back is no result. `cancel_why`: why
    we have asked for its submission to be cancelled, if we have. `in_chunk`: its submission carries a chunk, whose
    result is taken elsewhere (`ChunkResults.steps_by_webhook`): what is left to say of it only `/status` can.
    """
    record = notice.record
    if record is None or record.status not in TERMINAL_STATUSES:
        if record is not None and _is_nameless(job, notice.submission) and record.remote_id is not None:
            return transitions.adopted(job, remote_id=record.remote_id, at=endpoint.clock.now())
        return Instead.NOTHING if is_terminal(job) else Instead.ASK
    if is_terminal(job) or notice.submission != job.submission:
        if in_chunk or (end is not None and end.report is not None):
            return Instead.NOTHING
        return _of_given_up(endpoint, notice, job, record, validation)
    return _of_latest(endpoint, notice, job, record, validation, cancel_why=cancel_why, end=end)


def _is_nameless(job: Job, submission: int) -> bool:
    """Whether nobody knows what the service calls `submission`, the latest one of `job`."""
    return job.state is State.UNCERTAIN and job.submission == submission and job.remote_id is None


def _of_given_up(
    endpoint: Endpoint, notice: Notice, job: Job, record: Record, validation: Validation
) -> Transition | Instead:
    """News of a submission that was given up for another, or of a job that was given up altogether: only a result
    counts, and the first one wins.
    """
    if not is_legal(job.state, Event.COMPLETED) or not _is_result(endpoint, job, record, validation):
        return Instead.NOTHING
    if endpoint.output_streams.gathers(job.run) and record.output in EMPTY:
        return Instead.NOTHING  # what its worker has yielded is not in it
    margin_us = margin_of(endpoint, notice, job)
    outcome = outcome_from(job, record, trouble=None, message=None, margin_us=margin_us)
    outcome = kept_outcome(outcome, validation)
    outcome = msgspec.structs.replace(outcome, submission=notice.submission, remote_id=record.remote_id)
    reason = "webhook after it was given up" if is_terminal(job) else "webhook of an earlier submission"
    return on_completed(endpoint, job, outcome, reason=reason, judged=validation)


def _of_latest(
    endpoint: Endpoint,
    notice: Notice,
    job: Job,
    record: Record,
    validation: Validation,
    *,
    cancel_why: CancelWhy | None,
    end: SegmentEnd | None,
) -> Transition | Instead:
    is_told_by_status = job.chunk is not None or endpoint.output_streams.wants(job.run, record)
    is_result = not is_told_by_status and (end is None or end.report is None)
    is_result = is_result and _is_result(endpoint, job, record, validation)
    if not job.is_first_execution and not (is_result and job.state in (State.QUEUED, State.SUBMITTING)):
        return Instead.ASK  # whether it speaks of the execution before or after the /retry, only /status can say
    if job.state is not State.OUTSTANDING and not is_result:
        if job.state is State.QUEUED or record.remote_id is None:
            return Instead.NOTHING
        return transitions.adopted(job, remote_id=record.remote_id, at=endpoint.clock.now())
    if is_told_by_status:
        return Instead.ASK  # what its worker has yielded is asked for once /status says so, too
    margin_us = margin_of(endpoint, notice, job)
    return on_finished(
        endpoint,
        job,
        record,
        reason="webhook",
        margin_us=margin_us,
        cancel_why=cancel_why,
        end=end,
        judged=validation,
    )


def _is_result(endpoint: Endpoint, job: Job, record: Record, validation: Validation) -> bool:
    is_required = endpoint.settings_of[job.run].output_required
    return verdict_of(record, output_required=is_required, rejected=validation.invalid).trouble is None


def margin_of(endpoint: Endpoint, notice: Notice, job: Job) -> int:
    """How much of the time for which results are kept was left as `notice` came."""
    now = endpoint.clock.now()  # which an earlier process may have been ahead of
    return margin_left(min(notice.received_at, now), endpoint.estimates.retention_of(job), now)


def completes(notice: Notice) -> bool:
    """Whether `notice` announces a result."""
    return notice.record is not None and notice.record.status == COMPLETED


def names_job(notice: Notice) -> bool:
    """Whether `notice` says what the service calls something that has not come to an end."""
    record = notice.record
    return record is not None and record.remote_id is not None and record.status not in TERMINAL_STATUSES


def tells_of_end(notice: Notice) -> bool:
    """Whether `notice` tells of an execution that came to an end by itself."""
    return notice.record is not None and notice.record.status in TERMINAL_STATUSES - {"CANCELLED"}
