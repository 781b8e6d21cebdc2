"""A job, how it ended, and what it is given of its own when it is tried again.

`Job` is the narrow record that the moving parts hold and the ledger guards.
"""

from enum import StrEnum

import msgspec

from orchestrator.core.jobs.lifecycle import TERMINAL, State
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.service.job_record import Record


class Job(msgspec.Struct, frozen=True, kw_only=True, gc=False, array_like=True):
    """The hot record of a job. Times are microseconds UTC."""

    id: int
    run: int
    endpoint: int
    """Which (service URL, endpoint) it is for: the number of a row of the ledger's `endpoints`."""

    state: State
    submission: int | None = None
    """The latest submission; None before the first."""

    attempt: int = 0
    """Executions that may have been paid so far, the current one included. Never reset."""

    failures: int = 0
    """Executions that failed, timed out or gave invalid output; fresh after a reopening, like the next three. With the
    one that brings the result these are the `attempts` of the files, which `--max-attempts` bounds."""

    lost: int = 0
    uncertain: int = 0
    """Submissions that the service did not answer, the latest one included if it is uncertain through that."""

    expired: int = 0
    deferrals: int = 0
    """Requests in a row that came to nothing without effect; sets the backoff."""

    due_at: int = 0
    """Queued: not to be sent before. Uncertain: to be settled then."""

    retry_until: int | None = None
    """Queued or submitting: the attempt is a `/retry` of the latest submission until then; else `/run`."""

    remote_id: str | None = None
    """What the service calls the latest submission, once known."""

    first_attempt: int = 0
    """The attempt with which the latest submission began: after a `/retry`, `attempt` is larger."""

    sent_at: int | None = None
    """When the latest submission was sent; its claim time until that is known."""

    ttl_at: int | None = None
    """When the service deletes the latest submission, whatever its state."""

    unfinished_at: int | None = None
    """The latest time at which the current execution was certainly not finished."""

    attempts_max: int | None = None
    """Executions that may fail, where it was reopened with a number of its own; else the run's number holds."""

    policy: bytes | None = None
    """What it was reopened with, as JSON; each field wins over its line's and the run's policy."""

    priority: int = 0
    """Of jobs that were never sent those with a higher one go first."""

    escalated: bytes | None = None
    """What it was given after its troubles, by the rules of its run, as JSON (`core.jobs.escalation`)."""

    segment: int = 0
    """The number of its latest segment, if it is resumable; each `/run` has another one, whatever became of it."""

    retention_us: int | None = None
    """How long the service keeps the result of the latest submission, in its time, where that is less than agreed for
    the run."""

    batch: int | None = None
    """The batch in which the latest submission is; None where it left by itself."""

    chunk: int | None = None
    """The submission by which the chunk travels in which the latest one is: its own where it leads. None: in none."""

    chunk_rows: int = 0
    """How many rows travel in that."""

    chunk_most: int | None = None
    """With no more rows it travels from now on, since a larger chunk has failed; None for as many as the run wants."""

    @property
    def is_rider(self) -> bool:
        """Whether it travels in a chunk that another job leads."""
        return self.chunk is not None and self.chunk != self.submission

    @property
    def has_riders(self) -> bool:
        """Whether its latest submission carries other jobs."""
        return self.chunk_rows > 1 and self.chunk == self.submission

    @property
    def is_carried(self) -> bool:
        """Whether somebody else finds out what becomes of its latest submission: whoever follows its batch, or the
        lead of its chunk.
        """
        return self.batch is not None or self.is_rider

    @property
    def by_retry(self) -> bool:
        """Whether the current attempt is (or is to be) a `/retry`."""
        return self.retry_until is not None

    @property
    def is_first_execution(self) -> bool:
        """Whether the latest submission has been executed at most once, so that a webhook can only speak of that.

        A deferral gives the attempt back: what it was refused for (a 503) may have been executed all the same.
        """
        return self.attempt <= self.first_attempt


class Unsaved(StrEnum):
    """Why a member of an output is no file. Ledgers count by these words."""

    MEMBER = "unsaved"
    """Nothing can be made of what it holds or leads to."""

    DISK = "unsaved_for_disk"
    """The disk did not take it; it is tried again as the run is gone on with."""

    LATER = "unsaved_yet"
    """A stop came before it was fetched, or nobody wanted files then: it is done as the run is gone on with."""

    @property
    def is_tried_again(self) -> bool:
        """Whether it is, as the run is gone on with."""
        return self is not Unsaved.MEMBER


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a job ended: one row of the results or the errors file."""

    submission: int | None
    remote_id: str | None
    status: str | None
    """What the service last said."""

    output: bytes | None = None
    """Compact JSON. For `invalid_output`, the raw bytes of the answer: nothing paid is thrown away."""

    trouble: FailureClass | None = None
    message: str | None = None
    delay_ms: int | None = None
    execution_ms: int | None = None
    worker: str | None = None
    """Who executed it, where that was told."""

    margin_us: int | None = None
    """Time that was left to the result when it was collected; a lower bound."""

    saved: tuple[str, ...] = ()
    """The members of the output in whose places by now stands what tells of the files that we have made of them."""

    unsaved: Unsaved | None = None
    """Why a member of the output did not become the file that it should have."""


class Escalation(msgspec.Struct, frozen=True):
    """What the next execution of a job gets that the one before had not."""

    endpoint: int
    """Where it is to be."""

    escalated: bytes
    """All that the job was given by then."""

    description: str
    """It in words, for the history; empty where it is nothing new."""

    is_free: bool = False
    """The execution before it has cost no attempt."""


class Overrides(msgspec.Struct, frozen=True, kw_only=True):
    """With which settings of their own jobs are tried again; without them those of their line and run hold again."""

    endpoint: int | None = None
    """Where; None: where they were."""

    policy: bytes | None = None
    attempts_max: int | None = None
    description: str = ""
    """The settings in words, for the history; empty where there are none."""


def is_terminal(job: Job) -> bool:
    """Whether the job is finished (a person may still reopen it)."""
    return job.state in TERMINAL


def outcome_from(
    job: Job, record: Record, *, trouble: FailureClass | None, message: str | None, margin_us: int | None
) -> Outcome:
    """The outcome that a finished record of the latest submission gives."""
    return Outcome(
        submission=job.submission,
        remote_id=record.remote_id or job.remote_id,
        status=record.status or None,
        output=record.output if trouble in (None, FailureClass.INVALID_OUTPUT) else None,
        trouble=trouble,
        message=message,
        delay_ms=record.delay_ms,
        execution_ms=record.execution_ms,
        worker=record.worker_id,
        margin_us=margin_us,
    )


def sure_of(job: Job, now: int) -> tuple[Job, bool]:
    """`job`, and whether nobody knows when it was last unfinished, so that its result may be gone at any time: whoever
    saw it had a clock that was ahead.
    """
    is_unsure = not 0 < (job.unfinished_at or 0) <= now
    return (msgspec.structs.replace(job, unfinished_at=now) if is_unsure else job), is_unsure
