"""The story of a job as people see it: what happened to it, what was sent for it, and its segments."""

import msgspec


class TimelineStep(msgspec.Struct, frozen=True, kw_only=True, rename={"class_": "class"}):
    """One event in the life of a job. Times are microseconds UTC."""

    at: int
    after_us: int
    """Since the event before it."""

    event: str
    reason: str
    class_: str | None
    attempt: int
    remote_id: str | None
    """What the service calls the submission that it is about."""

    settings: str | None = None
    """Where an attempt begins, the settings of its own that the job was tried again with, in words."""


class SubmissionView(msgspec.Struct, frozen=True, kw_only=True):
    """One submission of a job. Times are microseconds UTC."""

    endpoint: str
    remote_id: str | None
    sent_at: int
    answered_at: int | None
    ended_at: int | None
    ended: str | None
    """The event or class of failure that ended it."""

    ttl_at: int
    """When the service forgets it, whatever has become of it; of one in a batch nobody knows, and this is far off."""

    batch: str | None = None
    """What the service calls the batch that it is in; None where it left by itself."""


class SegmentView(msgspec.Struct, frozen=True, kw_only=True):
    """One execution of a resumable job. Times are microseconds UTC."""

    segment: int
    given: str | None
    """The checkpoint that it began with, by the segment and the `seq` of its report, as in "2.41"."""

    begun_at: int | None
    share: float | None
    message: str | None
    reported_at: int | None
    execution_ms: int | None


class CheckpointView(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint of a resumable job."""

    checkpoint: str
    """By the segment and the `seq` of its report."""

    at: int
