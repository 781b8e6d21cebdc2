"""Answers that are the result of their request, for all lanes past the queue: the record that is made of one, and what
an error says.
"""

from typing import Final

import msgspec

from orchestrator.core.lanes.event_stream import CONTENT_TYPE, ends_in_error, pieces_of
from orchestrator.core.service.http_answers import Answer, Pointless
from orchestrator.core.service.job_record import MESSAGE_CHARS_MAX, Record
from orchestrator.core.service.outcomes import Deferred, Rejected, Uncertain
from orchestrator.core.text.json_compact import compact
from orchestrator.units import MILLISECOND_US


class Answered(msgspec.Struct, frozen=True):
    """The execution is over, as the record says that is made of the answer."""

    record: Record


class Unreadable(msgspec.Struct, frozen=True):
    """The execution is over, and nobody can read what came of it."""

    raw: bytes


DirectOutcome = Answered | Unreadable | Deferred | Rejected | Pointless | Uncertain

WHAT_A_LOST_ANSWER_IS: Final = (
    "past the queue an answer that is lost is uncertain: it may have been executed, and nobody can be asked; so are all"
    " that are under way where a process dies"
)
"""What is said before such a lane is used."""

UNEXPLAINED: Final = "the worker answered 500 and gave no reason"


def record_of(
    answer: Answer, status: str, time_scale: float, *, output: bytes | None = None, error: str | None = None
) -> Record:
    """What `answer` makes of the job. Its execution took no longer than the request did, which is all that is known of
    it; `time_scale` is how fast the service's time runs.
    """
    took_us = max(0, answer.answered_at - answer.sent_at) * time_scale
    return Record(
        remote_id=None, status=status, output=output, error=error, execution_ms=round(took_us / MILLISECOND_US)
    )


def answered(answer: Answer, time_scale: float) -> Answered | Unreadable:
    """What a success brings: JSON, which is the result, or a stream, whose pieces are."""
    try:
        if content_type(answer) == CONTENT_TYPE:
            return _gathered(answer, time_scale)
        body = compact(answer.body)
    except (ValueError, RecursionError):
        return Unreadable(answer.body)
    return Answered(record_of(answer, "COMPLETED", time_scale, output=body))


def content_type(answer: Answer) -> str:
    """What the answer says that it is, without its parameters."""
    return answer.headers.get("content-type", "").partition(";")[0].strip().lower()


def _gathered(answer: Answer, time_scale: float) -> Answered:
    pieces = pieces_of(answer.body)
    if ends_in_error(pieces):
        return Answered(record_of(answer, "FAILED", time_scale, error=failure_text(pieces[-1])))
    return Answered(record_of(answer, "COMPLETED", time_scale, output=b"[%b]" % b",".join(pieces)))


class _Error(msgspec.Struct):
    """An error in either of the shapes that these workers have for it, or in the service's."""

    object: str | None = None
    message: str | None = None
    error: "_Error | str | None" = None


_error: Final = msgspec.json.Decoder(_Error)


def error_message_of(body: bytes) -> tuple[str | None, bool]:
    """What an error says, and whether it has the shape of errors of OpenAI's interface."""
    try:
        found = _error.decode(body)
    except (ValueError, RecursionError):
        return None, False
    if isinstance(found.error, _Error):
        return found.error.message, True
    return found.error or found.message, found.object == "error"


def failure_text(body: bytes) -> str:
    """Why an execution has failed, by the answer."""
    message, _ = error_message_of(body)
    return (message or body.decode("utf-8", "replace").strip())[:MESSAGE_CHARS_MAX] or UNEXPLAINED
