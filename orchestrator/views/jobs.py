"""Jobs and their failures, as people and programs are shown them."""

import msgspec

from orchestrator.core.diagnosis.failed_executions import FailedExecutionView, RetriedKind
from orchestrator.core.jobs.job_story import CheckpointView, SegmentView, SubmissionView, TimelineStep


class JobRow(msgspec.Struct, frozen=True, kw_only=True, rename={"class_": "class"}):
    """A job in a list. Times are microseconds UTC."""

    job: int
    """Its number in the ledger: no other job ever has it."""

    custom_id: str
    line: int
    state: str
    attempts: int
    """Executions that came to an end, since the job was last opened."""

    class_: str | None
    """Why it failed or was cancelled."""

    error: str | None
    """What it failed with, by type and message."""

    cluster: str | None
    ended_at: int | None


class FoundJobs(msgspec.Struct, frozen=True, kw_only=True):
    """Some of the jobs of a run."""

    run: str
    jobs: list[JobRow]
    count: int
    """How many there are."""

    is_exact: bool
    """Else there are at least so many: the search ended after many inputs."""

    inputs_read: int
    """How many inputs were read for that."""


class ClusterRow(msgspec.Struct, frozen=True, kw_only=True, rename={"class_": "class"}):
    """The failures of one kind. Times are microseconds UTC."""

    number: int
    """Its place in the list, the largest kind first."""

    cluster: str
    """Its name, for filters: it stays the same."""

    count: int
    share: float
    """Of all failures and cancellations of the run."""

    class_: str | None
    sample: str
    """What one of them says, by type and message."""

    first_at: int
    last_at: int
    try_ids: tuple[str, ...]
    """The `custom_id`s of the first ones."""

    try_jobs: tuple[int, ...] = ()
    """The numbers of these."""

    retried: RetriedKind | None = None
    """Executions of that kind that failed besides, and were tried again, or will be."""


class Failures(msgspec.Struct, frozen=True, kw_only=True):
    """The failures and cancellations of a run by their kinds."""

    run: str
    jobs: int
    kinds: int
    clusters: list[ClusterRow]
    """The largest ones first; there may be more."""

    retried_executions: int = 0
    """How many executions failed besides, and were tried again."""


class WholeJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job with all that happened to it."""

    run: str
    job: JobRow
    paid_at_most: int
    """Executions that may have been paid, all in all."""

    max_attempts: int | None
    """Of its own, since it was tried again with that."""

    priority: int
    """Within its run: of jobs that were never sent those with a higher one go first."""

    endpoint: str
    """Where it was sent last, or is to be sent: another than the run's where it was tried again so."""

    policy: msgspec.Raw | None
    remote_id: str | None
    status: str | None
    delay_ms: int | None
    execution_ms: int | None
    error: str | None
    """What it failed with, as it was told."""

    timeline: list[TimelineStep]
    failed_executions: list[FailedExecutionView]
    submissions: list[SubmissionView]
    segments: list[SegmentView]
    checkpoints: list[CheckpointView]
    """Those that are kept, oldest first."""

    input: msgspec.Raw | None
    output: msgspec.Raw | str | None
    """What it gave; as text where that is no JSON."""
    metadata: msgspec.Raw | None = None  # what its row carries unsent
