"""One line of JSON for each job that has ended: the results file and the errors file.

The order of the keys is part of the format. The output is the worker's own text: its numbers, its key order and its
escapes are not touched.
"""

from typing import Final

import msgspec


class ResultLine(msgspec.Struct, frozen=True, kw_only=True):
    """A job that succeeded.

    `output` is one compact JSON document, which has no line breaks, or null when the job had none. It is not looked
    into again: `core.responses` made it so when it was collected, and what was good enough then must not stop the file.
    """

    custom_id: str
    job_id: str | None
    status: str = "COMPLETED"
    output: msgspec.Raw
    attempts: int
    paid_at_most: int
    delay_ms: int | None
    execution_ms: int | None


class ErrorClass(msgspec.Struct, frozen=True):
    """Why a job did not succeed: the error's class, and any text."""

    trouble: str = msgspec.field(name="class")
    message: str


class ErrorLine(msgspec.Struct, frozen=True, kw_only=True):
    """A job that did not succeed.

    `job_id` is None when the service never took the job, `status` (the service's last word) when there was none.
    """

    custom_id: str
    job_id: str | None
    status: str | None
    error: ErrorClass
    attempts: int
    paid_at_most: int


_encoder: Final = msgspec.json.Encoder()


def encoded(line: ResultLine | ErrorLine) -> bytes:
    r"""The line with its `\n`."""
    if isinstance(line, ErrorLine):
        # A text from the operating system can hold lone surrogates, which have no UTF-8 form.
        message = line.error.message.encode(errors="backslashreplace").decode()
        line = msgspec.structs.replace(line, error=ErrorClass(line.error.trouble, message))
    return _encoder.encode(line) + b"\n"
