"""One line of JSON for each job that has ended: the results file and the errors file.

The order of the keys is part of the format. The output is the worker's own text: its numbers, its key order and its
escapes are not touched.
"""

from typing import Final

import msgspec
from msgspec import UNSET, UnsetType


class OutcomeDetails(msgspec.Struct, frozen=True, kw_only=True):
    """What a line carries besides where that was asked for, behind everything else; times are ISO 8601, UTC."""

    line: int | UnsetType = UNSET
    worker: str | UnsetType | None = UNSET
    endpoint: str | UnsetType | None = UNSET
    sent_at: str | UnsetType | None = UNSET
    ended_at: str | UnsetType | None = UNSET
    input: msgspec.Raw | UnsetType = UNSET


class ReusedFrom(msgspec.Struct, frozen=True, kw_only=True):
    """The job of which a row has the result, where nothing was sent for it: `job_id` is what the service called it."""

    run: str
    custom_id: str


class ResultLine(msgspec.Struct, frozen=True, kw_only=True):
    """A job that succeeded.

    `output` is one compact JSON document, which has no line breaks, or null when the job had none. It is not looked
    into again: `core.service.job_record` made it so when it was collected, and what was good enough then must not stop
    the file.
    """

    custom_id: str
    job_id: str | None
    status: str = "COMPLETED"
    output: msgspec.Raw
    attempts: int
    paid_at_most: int
    delay_ms: int | None
    execution_ms: int | None
    reused: ReusedFrom | UnsetType = UNSET
    metadata: msgspec.Raw | UnsetType = UNSET


class ErrorClass(msgspec.Struct, frozen=True):
    """Why a job did not succeed: the error's class, a message in one line, and, if asked for, all that was said."""

    trouble: str = msgspec.field(name="class")
    message: str
    text: str | UnsetType = UNSET


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
    delay_ms: int | UnsetType | None = UNSET
    execution_ms: int | UnsetType | None = UNSET
    metadata: msgspec.Raw | UnsetType = UNSET


class WrittenOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """A job that has ended, for any format."""

    number: int
    """The line of the input that it is of."""

    line: ResultLine | ErrorLine
    more: OutcomeDetails | None = None
    input: msgspec.Raw | None = None
    """Where it was read, whether or not the row carries it."""

    @property
    def size(self) -> int:
        """How many bytes of the worker's and the author's it has."""
        output = len(memoryview(self.line.output)) if isinstance(self.line, ResultLine) else 0
        metadata = 0 if self.line.metadata is UNSET else len(memoryview(self.line.metadata))
        return output + metadata + (0 if self.input is None else len(memoryview(self.input)))


_encoder: Final = msgspec.json.Encoder()


def encode_outcome(outcome: WrittenOutcome) -> bytes:
    r"""Its line of JSON with a `\n`; the outcome's `more` stands behind what every line has."""
    line, more = outcome.line, outcome.more
    if isinstance(line, ErrorLine):
        error = line.error
        text = error.text if error.text is UNSET else encodable(error.text)
        line = msgspec.structs.replace(line, error=ErrorClass(error.trouble, encodable(error.message), text))
    row = _encoder.encode(line)
    added = b"{}" if more is None else _encoder.encode(more)
    return (row if added == b"{}" else b"%b,%b" % (row[:-1], added[1:])) + b"\n"


def encodable(text: str) -> str:
    """`text`, which may hold lone surrogates if it is the operating system's: they have no UTF-8 form."""
    return text.encode(errors="backslashreplace").decode()
