"""What the Batch API answers, in the form of OpenAI's interface, in which times are whole seconds."""

from collections.abc import Sequence
from typing import Final

import msgspec

from orchestrator.core.batch_api.posted_file import PostedFile
from orchestrator.units import SECOND_US

PROCESSED: Final = "processed"


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


class DeletedObject(msgspec.Struct, frozen=True, kw_only=True):
    """What was removed."""

    id: str
    object: str
    deleted: bool = True


class ListPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some of a list."""

    object: str = "list"
    data: Sequence[msgspec.Struct]
    first_id: str | None
    last_id: str | None
    has_more: bool


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
        expires_at=None if file.expires_at is None else unix_seconds(file.expires_at),
        filename=file.filename,
        purpose=file.purpose.value,
    )


def unix_seconds(at: int) -> int:
    """Microseconds UTC as whole seconds."""
    return at // SECOND_US
