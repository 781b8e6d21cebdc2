"""Long jobs that outlive their submissions: what their workers report (progress, checkpoints), and what the end of a
segment makes of them.

A *segment* is what one submission executes of a resumable job. It is given the newest checkpoint that is known, and
whatever it reports from then on is told from other reports by its mark: the number of its segment, and its own `seq`.
Of two reports the one with the larger mark is newer, in whatever order they come. A checkpoint makes progress where it
is newer than the one that the segment was given, and another: workers repeat theirs with each report.
"""

from typing import Final, NamedTuple

import msgspec

from orchestrator.core.service.job_record import Record
from orchestrator.core.text.durations import EXECUTION_TIMEOUT_MS_MIN, TTL_MS_MAX, Policy
from orchestrator.core.text.durations import format_duration as told_duration
from orchestrator.core.text.json_compact import compact
from orchestrator.units import MILLISECOND_US, MINUTE_US, SECOND_US

CHECKPOINT_BYTES_MAX: Final = 64 * 1024
"""A larger checkpoint is not taken: it belongs into storage, and its address here."""

CHECKPOINTS_KEPT: Final = 20
"""So many of a job's latest checkpoints are kept."""

MESSAGE_CHARS_MAX: Final = 500
"""How much is kept of what a worker says of its progress."""

SEQ_MAX: Final = 2**53
"""A `seq` beyond it is none: numbers of JSON are not exact there."""

RESUME_BYTES: Final = CHECKPOINT_BYTES_MAX + 512
"""How much longer a request's body becomes by what a segment is given."""

RESUME: Final = "resume"
"""The key of the input under which it is given that; rows that have it are refused."""

QUEUE_MS: Final = 86_400_000
"""How long a segment may wait in the queue beside its execution where no TTL was chosen: a day."""

SOFT_SHARE: Final = 20
SOFT_US_MAX: Final = 10 * MINUTE_US
"""A worker ends by itself a twentieth of its execution timeout before that is over, and at most so long before it."""

UNTIL_US: Final = 35 * MINUTE_US
"""And so long before its TTL: the result has to be collected, too."""

NO_PROGRESS: Final = "no progress: the worker gave it back unfinished, without a newer checkpoint than it was given"


class Mark(NamedTuple):
    """Where a report stands among those of its job; the larger one is newer."""

    segment: int = 0
    seq: int = 0


NOTHING: Final = Mark()
"""Older than every report."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker says of a job in its output, while it is in progress or as it gives it back."""

    seq: int | None
    """None where it gives the job back and does not say."""

    share: float | None = None
    """How much of the job is done, 0 to 1."""

    message: str | None = None
    checkpoint: bytes | None = None
    """What another worker can go on from, as compact JSON."""

    too_large: int = 0
    """The size of its checkpoint in bytes, where that was too large to be taken."""


class _WireReport(msgspec.Struct, frozen=True):
    seq: object = None
    progress: object = None
    message: object = None
    checkpoint: msgspec.Raw = msgspec.Raw(b"null")
    unfinished: object = None


_report = msgspec.json.Decoder(_WireReport)


def report_of(record: Record) -> Report | None:
    """What the worker of an unfinished job reports; None where it has not, or its output is something else."""
    wire = _read(record.output)
    seq = None if wire is None else _seq(wire.seq)
    return None if wire is None or seq is None else _report_of(wire, seq)


def given_back(record: Record) -> Report | None:
    """What a worker reports as it gives a job back unfinished; None where its output is a result, or it has failed."""
    wire = _read(record.output) if record.status == "COMPLETED" else None
    return _report_of(wire, _seq(wire.seq)) if wire is not None and wire.unfinished is True else None


def _read(output: bytes | None) -> _WireReport | None:
    try:
        return None if output is None else _report.decode(output)
    except (ValueError, RecursionError):
        return None


def _seq(value: object) -> int | None:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and 0 <= value < SEQ_MAX else None  # type: ignore[operator,return-value]  # it is one


def _report_of(wire: _WireReport, seq: int | None) -> Report:
    share, message, checkpoint = wire.progress, wire.message, compact(bytes(wire.checkpoint))
    is_share = isinstance(share, int | float) and not isinstance(share, bool) and 0 <= share <= 1
    is_taken = checkpoint != b"null" and len(checkpoint) <= CHECKPOINT_BYTES_MAX
    return Report(
        seq=seq,
        share=float(share) if is_share else None,  # type: ignore[arg-type]  # it is a number
        message=message[:MESSAGE_CHARS_MAX] if isinstance(message, str) else None,
        checkpoint=checkpoint if is_taken else None,
        too_large=len(checkpoint) if len(checkpoint) > CHECKPOINT_BYTES_MAX else 0,
    )


def is_same(one: bytes | None, other: bytes | None) -> bool:
    """Whether two checkpoints mean the same: another worker may write its keys in another order."""
    return one == other or (one is not None and other is not None and _sorted(one) == _sorted(other))


_encoder = msgspec.json.Encoder(order="sorted")


def _sorted(checkpoint: bytes) -> bytes:
    try:
        return _encoder.encode(msgspec.json.decode(checkpoint))
    except (ValueError, RecursionError):  # a number that nobody else can hold
        return checkpoint


# --- the end of a segment


class SegmentLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How often, and for how long in all, a resumable job may be executed."""

    segments: int = 100
    execution_us: int | None = None


class SegmentProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a resumable job has come, as the ledger knows it."""

    segment: int
    """Its latest one."""

    given: Mark = NOTHING
    """The checkpoint that this one began with."""

    newest: Mark = NOTHING
    checkpoint: bytes | None = None
    """The newest one."""

    begun_at: int | None = None
    """When a worker began with this segment, as far as a question has shown."""

    executed_ms: int = 0
    """How long workers have had it, in the segments before this one."""


class SegmentEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How a segment ended."""

    has_progressed: bool
    """Whether there is a checkpoint newer than the one that it was given."""

    report: Report | None
    """What the worker said as it gave the job back; None where it did not."""

    execution_ms: int
    executed_ms: int
    """The execution of this segment, and of all together."""


def segment_end(standing: SegmentProgress, record: Record | None, *, unfinished_at: int | None) -> SegmentEnd:
    """How the latest segment ended, of which `record` tells; None where the service has forgotten it, after it was last
    seen at `unfinished_at`.
    """
    report = None if record is None else given_back(record)
    brings = report is not None and report.checkpoint is not None
    is_newer = brings and report is not None and not is_same(report.checkpoint, standing.checkpoint)
    execution_ms = None if record is None else record.execution_ms
    if execution_ms is None:
        begun_at = standing.begun_at
        execution_ms = 0 if begun_at is None else max(0, (unfinished_at or 0) - begun_at) // MILLISECOND_US
    return SegmentEnd(
        has_progressed=standing.newest > standing.given or is_newer,
        report=report,
        execution_ms=execution_ms,
        executed_ms=standing.executed_ms + execution_ms,
    )


class Continue(msgspec.Struct, frozen=True):
    """Another segment follows, from the newest checkpoint."""


class Exhausted(msgspec.Struct, frozen=True):
    """No other segment; `message` says why."""

    message: str


def after_segment(end: SegmentEnd, *, segments: int, limits: SegmentLimits) -> Continue | Exhausted | None:
    """What follows a segment that has brought no result, after so many of them; None: what would of any other job."""
    if end.report is not None and not end.has_progressed:
        return Exhausted(NO_PROGRESS)
    if limits.execution_us is not None and end.executed_ms * MILLISECOND_US >= limits.execution_us:
        return Exhausted(f"out of execution time ({told_duration(limits.execution_us)} in all its segments)")
    if segments >= limits.segments:
        return Exhausted(f"out of segments ({limits.segments})")
    return Continue() if end.has_progressed else None


# --- what a segment is given


class Resume(msgspec.Struct, frozen=True):
    """From where a segment goes on."""

    segment: int
    checkpoint: bytes | None
    executed_ms: int
    """In the segments before it."""


class _WireResume(msgspec.Struct, frozen=True):
    key: str
    segment: int
    checkpoint: msgspec.Raw
    soft_s: float
    until: int


def long_policy(policy: Policy, *, executed_ms: int = 0, execution_us: int | None = None) -> Policy:
    """The policy of a segment: its TTL leaves a day for the queue, where none was chosen, and its execution timeout no
    more than is left of `execution_us`, the execution that all segments may take.
    """
    timeout_ms = policy.execution_timeout_ms
    ttl_ms = policy.ttl_ms or min(TTL_MS_MAX, policy.timeout_ms + QUEUE_MS)
    if execution_us is not None:
        left_ms = max(execution_us // MILLISECOND_US - executed_ms, EXECUTION_TIMEOUT_MS_MIN)
        timeout_ms = min(policy.timeout_ms, left_ms)
    return msgspec.structs.replace(policy, execution_timeout_ms=timeout_ms, ttl_ms=ttl_ms)


def soft_us(policy: Policy) -> int:
    """How long after its beginning the worker of a segment with this policy should give the job back by itself."""
    timeout_us = policy.timeout_ms * MILLISECOND_US
    return timeout_us - min(timeout_us // SOFT_SHARE, SOFT_US_MAX)


def until_us(ttl_us: int) -> int:
    """How long after its submission it should do so at the latest: half of a TTL that leaves nothing of that."""
    return max(ttl_us - UNTIL_US, ttl_us // 2)


def resumed_input(text: bytes, resume: Resume, *, key: str, soft_us: int, until: int) -> bytes:
    """The stored input `text`, an object, with what the segment is given spliced in. Its own bytes stay as they are.

    `soft_us` is in the worker's time, and `until` a time in microseconds UTC.
    """
    checkpoint = msgspec.Raw(resume.checkpoint or b"null")
    wire = _WireResume(key, resume.segment, checkpoint, round(soft_us / SECOND_US, 3), until // SECOND_US)
    end = text.rindex(b"}")
    comma = b"" if text[:end].rstrip().endswith(b"{") else b","
    return b"".join((text[:end], comma, b'"resume":', msgspec.json.encode(wire), text[end:]))
