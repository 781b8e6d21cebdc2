"""What the Batch API answers, in the form of OpenAI's interface, in which times are whole seconds."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from orchestrator.core.batch_api.posted_batch import POSTED_ENDS, PostedBatch, PostedError, PostedState
from orchestrator.core.batch_api.posted_file import PostedFile
from orchestrator.core.batch_api.token_usage import TokenUsage
from orchestrator.units import SECOND_US

PROCESSED: Final = "processed"

_MOMENTS: Final = tuple(f"{state}_at" for state in PostedState if state is not PostedState.VALIDATING)
_errors: Final = msgspec.json.Decoder(list[PostedError])
_usage: Final = msgspec.json.Decoder(TokenUsage)


class FileObject(msgspec.Struct, frozen=True, kw_only=True):
    """A file."""

    id: str
    object: str = "file"
    bytes: int
    created_at: int
    expires_at: int | None
    filename: str
    purpose: str
    status: str = PROCESSED
    status_details: None = None


class BatchCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How the requests of a batch stand."""

    total: int
    completed: int
    failed: int


class InputTokens(msgspec.Struct, frozen=True, kw_only=True):
    """What those of the inputs were."""

    cached_tokens: int


class OutputTokens(msgspec.Struct, frozen=True, kw_only=True):
    """What those of the outputs were."""

    reasoning_tokens: int


class BatchUsage(msgspec.Struct, frozen=True, kw_only=True):
    """How many tokens the requests of a batch have taken together."""

    input_tokens: int
    input_tokens_details: InputTokens
    output_tokens: int
    output_tokens_details: OutputTokens
    total_tokens: int


class ErrorList(msgspec.Struct, frozen=True, kw_only=True):
    """Why a batch was refused."""

    object: str = "list"
    data: Sequence[PostedError]


class BatchObject(msgspec.Struct, frozen=True, kw_only=True):
    """A batch."""

    id: str
    object: str = "batch"
    endpoint: str
    model: str | None
    errors: ErrorList | None
    input_file_id: str
    completion_window: str
    status: str
    output_file_id: str | None
    error_file_id: str | None
    created_at: int
    in_progress_at: int | None
    expires_at: int
    finalizing_at: int | None
    completed_at: int | None
    failed_at: int | None
    expired_at: int | None
    cancelling_at: int | None
    cancelled_at: int | None
    request_counts: BatchCounts
    usage: BatchUsage | None
    metadata: msgspec.Raw


class ListPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some of a list."""

    object: str = "list"
    data: Sequence[FileObject | BatchObject]
    first_id: str | None
    last_id: str | None
    has_more: bool


class ModelObject(msgspec.Struct, frozen=True, kw_only=True):
    """A model that is served."""

    id: str
    object: str = "model"
    created: int
    owned_by: str
    shutdown_date: None = None


class ModelList(msgspec.Struct, frozen=True, kw_only=True):
    """The models that are served."""

    object: str = "list"
    data: Sequence[ModelObject]


class DeletedObject(msgspec.Struct, frozen=True, kw_only=True):
    """What was removed."""

    id: str
    object: str
    deleted: bool = True


class ErrorBody(msgspec.Struct, frozen=True, kw_only=True):
    """Why something is refused."""

    message: str
    type: str
    param: str | None = None
    code: str | None = None


def file_object(file: PostedFile) -> FileObject:
    """A file as it is shown."""
    return FileObject(
        id=file.id,
        bytes=file.size,
        created_at=unix_seconds(file.created_at),
        expires_at=_seconds_or_none(file.expires_at),
        filename=file.filename,
        purpose=file.purpose.value,
    )


def batch_object(batch: PostedBatch, counts: BatchCounts) -> BatchObject:
    """A batch as it is shown, with `counts` as they are now."""
    has_ended = batch.state in POSTED_ENDS
    moments: dict[str, Any] = {name: _seconds_or_none(getattr(batch, name)) for name in _MOMENTS}
    return BatchObject(
        id=batch.id,
        endpoint=batch.endpoint,
        model=batch.model,
        errors=None if batch.errors is None else ErrorList(data=_errors.decode(batch.errors)),
        input_file_id=batch.input_file,
        completion_window=batch.completion_window,
        status=batch.state.value,
        output_file_id=batch.output_file if has_ended else None,
        error_file_id=batch.error_file if has_ended else None,
        request_counts=counts,
        usage=None if batch.usage is None else _usage_shown(_usage.decode(batch.usage)),
        metadata=msgspec.Raw(batch.metadata or b"null"),
        created_at=unix_seconds(batch.created_at),
        expires_at=unix_seconds(batch.expires_at),
        **moments,
    )


def _usage_shown(usage: TokenUsage) -> BatchUsage:
    return BatchUsage(
        input_tokens=usage.input,
        input_tokens_details=InputTokens(cached_tokens=usage.cached),
        output_tokens=usage.output,
        output_tokens_details=OutputTokens(reasoning_tokens=usage.reasoning),
        total_tokens=usage.input + usage.output,
    )


def _seconds_or_none(at: int | None) -> int | None:
    return None if at is None else unix_seconds(at)


def unix_seconds(at: int) -> int:
    """Microseconds UTC as whole seconds."""
    return at // SECOND_US
