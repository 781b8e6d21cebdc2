"""One line of JSON for each job that has ended: the results file and the errors file.

The order of the keys is part of the format. The output is the worker's own text: its numbers, its key order and its
escapes are not touched.
"""

from typing import Final

import msgspec


class _Result(msgspec.Struct, frozen=True, kw_only=True):
    custom_id: str
    job_id: str | None
    status: str
    output: msgspec.Raw
    attempts: int
    paid_at_most: int
    delay_ms: int | None
    execution_ms: int | None


class _Trouble(msgspec.Struct, frozen=True, kw_only=True):
    trouble: str = msgspec.field(name="class")
    message: str


class _Error(msgspec.Struct, frozen=True, kw_only=True):
    custom_id: str
    job_id: str | None
    status: str | None
    error: _Trouble
    attempts: int
    paid_at_most: int


_encoder: Final = msgspec.json.Encoder()


def result_line(
    *,
    custom_id: str,
    job_id: str | None,
    output: bytes | None,
    attempts: int,
    paid_at_most: int,
    delay_ms: int | None,
    execution_ms: int | None,
) -> bytes:
    r"""The line of a job that succeeded, with its `\n`.

    `output` is one compact JSON document, which has no line breaks, or None when the job had none. It is not looked
    into again: `core.outcome` made it so when it was collected, and what was good enough then must not stop the file.
    """
    result = _Result(
        custom_id=custom_id,
        job_id=job_id,
        status="COMPLETED",
        output=msgspec.Raw(b"null" if output is None else output),
        attempts=attempts,
        paid_at_most=paid_at_most,
        delay_ms=delay_ms,
        execution_ms=execution_ms,
    )
    return _encoder.encode(result) + b"\n"


def error_line(
    *,
    custom_id: str,
    job_id: str | None,
    status: str | None,
    trouble: str,
    message: str,
    attempts: int,
    paid_at_most: int,
) -> bytes:
    r"""The line of a job that did not succeed, with its `\n`.

    `job_id` is None when the service never took the job, `status` (the service's last word) when there was none.
    `trouble` is the error's class, `message` any text.
    """
    # A text from the operating system can hold lone surrogates, which have no UTF-8 form.
    text = message.encode(errors="backslashreplace").decode()
    error = _Error(
        custom_id=custom_id,
        job_id=job_id,
        status=status,
        error=_Trouble(trouble=trouble, message=text),
        attempts=attempts,
        paid_at_most=paid_at_most,
    )
    return _encoder.encode(error) + b"\n"
