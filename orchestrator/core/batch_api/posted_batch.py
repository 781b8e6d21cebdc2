"""A batch that a program has posted: its states, which are OpenAI's, and what comes next for it.

It is a run like any other. Its state follows from how that stands, from the clock, and from what its program asks.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec


class PostedState(StrEnum):
    """Where it is."""

    VALIDATING = "validating"
    """Its file is read: it becomes a run, or is refused."""

    IN_PROGRESS = "in_progress"
    FINALIZING = "finalizing"
    """Nothing more of it is begun: what is under way ends, and its files are written."""

    CANCELLING = "cancelling"
    """The same, since its program wants that."""

    COMPLETED = "completed"
    FAILED = "failed"
    """It never became a run, or its run was taken away."""

    EXPIRED = "expired"
    CANCELLED = "cancelled"


POSTED_ENDS: Final = frozenset({PostedState.COMPLETED, PostedState.FAILED, PostedState.EXPIRED, PostedState.CANCELLED})
"""The states that nothing leaves."""

CANCELLABLE: Final = frozenset({PostedState.VALIDATING, PostedState.IN_PROGRESS})
"""What can be cancelled: of what is finalized, nothing more is begun anyway."""


class PostedError(msgspec.Struct, frozen=True, kw_only=True):
    """Why a batch was refused: what is wrong, and on which line of its file."""

    code: str
    message: str
    param: str | None = None
    line: int | None = None


class PostedBatch(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One of them; nothing has become of it unless that is said. Times are microseconds UTC, and each is that at which
    it came into the state of that name.
    """

    id: str
    owner: str
    endpoint: str
    """The path that all its requests are for, as `/v1/chat/completions`."""

    completion_window: str
    input_file: str
    metadata: bytes | None = None
    """As JSON."""

    keep_output_us: int | None = None
    """For how long its files are to be kept; None: nobody said."""

    state: PostedState = PostedState.VALIDATING
    is_late: bool = False
    """Whether its window has ended before it has."""

    model: str | None = None
    run: int | None = None
    errors: bytes | None = None
    """A list of `PostedError` as JSON."""

    total: int = 0
    completed: int = 0
    failed: int = 0
    """How many requests it has, as far as they are known, and, once it has ended, how they have ended."""

    usage: bytes | None = None
    """What the requests have taken, once it has ended: a `TokenUsage` as JSON; None where none of the answers says."""

    output_file: str | None = None
    error_file: str | None = None
    created_at: int
    expires_at: int
    in_progress_at: int | None = None
    finalizing_at: int | None = None
    completed_at: int | None = None
    failed_at: int | None = None
    expired_at: int | None = None
    cancelling_at: int | None = None
    cancelled_at: int | None = None


class BatchRunStanding(msgspec.Struct, frozen=True, kw_only=True):
    """How the run of a batch stands."""

    is_over: bool
    is_cancelled: bool
    """Whether somebody has asked for its end: its program, by us, or whoever runs this."""


class PostedStep(StrEnum):
    """What comes next for a batch."""

    VALIDATE = "validate"
    BEGIN = "begin"
    """Its run is taken in."""

    CANCEL_RUN = "cancel_run"
    """Its run is to end, and what is at the service with it."""

    FINALIZE = "finalize"
    """It comes to its end: its files are written."""

    GIVE_UP = "give_up"
    """It has failed: its run is gone."""

    END_EMPTY = "end_empty"
    """It ends without a run, and so without files."""

    WAIT = "wait"


def next_posted_step(batch: PostedBatch, run: BatchRunStanding | None, *, now: int) -> PostedStep:
    """What comes next for a batch that has not ended; `run` is None where it has none, or not any more."""
    if run is None:
        return _step_without_run(batch, is_late=now >= batch.expires_at)
    if batch.state is PostedState.VALIDATING:
        return PostedStep.BEGIN
    if run.is_over:
        return PostedStep.FINALIZE
    is_to_end = batch.state is not PostedState.IN_PROGRESS or now >= batch.expires_at
    return PostedStep.CANCEL_RUN if is_to_end and not run.is_cancelled else PostedStep.WAIT


def _step_without_run(batch: PostedBatch, *, is_late: bool) -> PostedStep:
    if batch.state is PostedState.VALIDATING:
        return PostedStep.END_EMPTY if is_late else PostedStep.VALIDATE
    return PostedStep.END_EMPTY if batch.state is PostedState.CANCELLING else PostedStep.GIVE_UP


def end_of(batch: PostedBatch) -> PostedState:
    """In which state a batch ends that comes to its end now."""
    if batch.cancelling_at is not None:
        return PostedState.CANCELLED
    return PostedState.EXPIRED if batch.is_late else PostedState.COMPLETED


ROW_CODES: Final[Mapping[PostedState, tuple[str, str]]] = {
    PostedState.EXPIRED: (
        "batch_expired",
        "This request could not be executed before the completion window expired.",
    ),
    PostedState.CANCELLED: ("batch_cancelled", "This request was not executed, since the batch was cancelled."),
}
"""What is said of a request that was not executed, by how its batch has ended."""
