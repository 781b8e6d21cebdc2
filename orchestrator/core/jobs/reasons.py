"""Why a step was taken: a code with its details where the program itself has the reason, else a text from outside.

The sentence is made here, where somebody is to read it. Nothing compares sentences or takes them apart.
"""

from enum import StrEnum
from typing import Final

import msgspec


class ReasonCode(StrEnum):
    """A reason of the program's own. The values stand in ledgers."""

    RUN = "run"
    """Sent by `/run`."""

    RUNSYNC = "runsync"
    """Sent by `/runsync`."""

    RUNSYNC_ENDED = "runsync_ended"
    """Sent by `/runsync`, and the answer says that it has ended: `/status` tells all about it."""

    BATCH = "batch"
    """Put into a batch of the service."""

    BATCH_DROPPED = "batch_dropped"
    """Its batch was cancelled before it was finalized: nothing of it was executed."""

    BATCH_LEFT = "batch_left"
    """It had not begun when its batch was cancelled, or came to its end."""

    CHUNK = "chunk"
    """Sent by `/run`, with others in a chunk."""

    CHUNK_HALVED = "chunk_halved"
    """Its chunk came to nothing, and nobody knows through which row."""

    RETRY = "retry"
    """Sent by `/retry`."""

    RETRY_UNANSWERED = "retry_unanswered"
    """Nobody knows whether the `/retry` was applied."""

    RETRY_REFUSED = "retry_refused"
    """The service made no `/retry`, though it knows the job."""

    NOT_REUSED = "not_reused"
    """Sent by `/run`, since there was no result to be used again."""

    REUSED = "reused"
    """It has the result of another job."""

    CARRIED_OVER = "carried_over"
    """It has the result that the same row had in an earlier run."""

    REQUESTED = "requested"
    """A person asked for it."""

    RUN_CANCELLED = "run_cancelled"
    """A person cancelled its run."""

    JOB_CANCELLED = "job_cancelled"
    """A person cancelled this job."""

    REVALIDATED = "revalidated"
    """It follows from what the run takes for a result by now."""

    REPEATED_ID = "repeated_id"
    """The service gave it the id of another job."""

    MOVED = "moved"
    """It waited at a member of a pool that is not well, and was cancelled there."""

    NOTHING_YIELDED = "nothing_yielded"
    """It finished without an output, and its stream is read out."""


OF_SUBMISSIONS: Final = frozenset({ReasonCode.RUN, ReasonCode.RUNSYNC, ReasonCode.RUNSYNC_ENDED, ReasonCode.BATCH})
"""Those of a new submission, which has an id of its own once it is accepted."""

RETRIES_IN_DOUBT: Final = frozenset({ReasonCode.RETRY_UNANSWERED, ReasonCode.RETRY_REFUSED})

_SENTENCES: Final = {
    ReasonCode.RUN: "run",
    ReasonCode.RUNSYNC: "runsync",
    ReasonCode.RUNSYNC_ENDED: "runsync, and ended",
    ReasonCode.BATCH: "batch",
    ReasonCode.BATCH_DROPPED: "its batch was cancelled as a draft",
    ReasonCode.BATCH_LEFT: "its batch ended before it had begun",
    ReasonCode.CHUNK: "run, in a chunk",
    ReasonCode.CHUNK_HALVED: "its chunk is halved: {detail.because}",
    ReasonCode.RETRY: "retry",
    ReasonCode.RETRY_UNANSWERED: "retry unanswered",
    ReasonCode.RETRY_REFUSED: "retry refused",
    ReasonCode.NOT_REUSED: "run; not reused: {detail.because}",
    ReasonCode.REUSED: "reused: the result of {detail.custom_id} of {detail.run}",
    ReasonCode.CARRIED_OVER: "taken over from {detail.run}",
    ReasonCode.REQUESTED: "asked for",
    ReasonCode.RUN_CANCELLED: "asked for",
    ReasonCode.JOB_CANCELLED: "asked for",
    ReasonCode.REVALIDATED: "recheck",
    ReasonCode.REPEATED_ID: "the service gives a new job the id of another",
    ReasonCode.MOVED: "cancelled there to go to another member of the pool",
    ReasonCode.NOTHING_YIELDED: (
        "there is neither an output nor a chunk of a stream: the service hands each chunk out once"
    ),
}


class Detail(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What belongs to a reason. The names stand in ledgers."""

    settings: str = ""
    """The settings of its own that the job is given, in words."""

    is_free: bool = False
    """The execution before has cost no attempt."""

    error: str = ""
    """The error with which a job had ended that is tried again."""

    because: str = ""
    """Why no result could be used again, or a chunk came to nothing."""

    run: str = ""
    """The run of the job whose result it has."""

    custom_id: str = ""
    """That job."""


_NOTHING: Final = Detail()

Reason = ReasonCode | str
"""A code, or the words of whoever gave the reason."""


def doubt_of_retry(reason: Reason) -> ReasonCode | None:
    """Why nobody knows whether a `/retry` was made, where a step for that `reason` says so."""
    return reason if isinstance(reason, ReasonCode) and reason in RETRIES_IN_DOUBT else None


def reason_text(reason: Reason, detail: Detail | None = None) -> str:
    """The sentence for people."""
    detail = detail or _NOTHING
    text = _SENTENCES[reason].format(detail=detail) if isinstance(reason, ReasonCode) else reason
    if detail.is_free:
        text += ", which costs no attempt"
    if detail.settings:
        text += f"{',' if reason is ReasonCode.REQUESTED else ';'} with {detail.settings}"
    if detail.error:
        text += f"; it had ended with: {detail.error}"
    return text
