"""What the result of a `/run`, `/retry`, `/status` or `/cancel` means for the job, and how a finished execution ended.

Callers `match` on the outcomes exhaustively.
"""

import re
from typing import Final

import msgspec

from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.service.http_answers import POINTLESS, Answer, Pointless, hint_of
from orchestrator.core.service.job_record import Record, is_of_another, is_remote_id, read_record
from orchestrator.errors import NotSent, Unanswered

OF_ANOTHER: Final = "the service answers with the record of another job"
SAME_ID: Final = "the service gives a new job the id of another"
NO_RECORD: Final = "the service answers with what is no job record"
WEBHOOK_OF_ANOTHER: Final = "a webhook brings the record of another job"
_OF_FINISHED: Final = re.compile(rb'"output"\s*:|"status"\s*:\s*"(?:COMPLETED|FAILED|TIMED_OUT|CANCELLED)"')

KNOWN_UNFINISHED: Final = frozenset({"IN_QUEUE", "IN_PROGRESS", "RUNNING"})
TERMINAL_STATUSES: Final = frozenset({"COMPLETED", "FAILED", "TIMED_OUT", "CANCELLED"})


# --- of a submission


class Accepted(msgspec.Struct, frozen=True):
    """The service has the job under this id."""

    remote_id: str


class Deferred(msgspec.Struct, frozen=True):
    """Nothing happened at the service; to be repeated later, at no cost: after `retry_after_s`, if it asks for that."""

    trouble: FailureClass
    reason: str
    retry_after_s: float | None = None


class Rejected(msgspec.Struct, frozen=True):
    """The service will never take this job."""

    reason: str


class Uncertain(msgspec.Struct, frozen=True):
    """The request may have taken effect, and nobody told us. With `is_repeated_id` it gave the id of another job."""

    reason: str
    is_repeated_id: bool = False


class NotRetried(msgspec.Struct, frozen=True):
    """The service knows the job and makes no `/retry` of it: it may be in another state than we were told."""

    reason: str


RunOutcome = Accepted | Deferred | Rejected | Pointless | Uncertain | NotRetried


class _RunAnswer(msgspec.Struct, frozen=True):
    id: str


_run_answer = msgspec.json.Decoder(_RunAnswer)


def run_outcome(result: Answer | NotSent | Unanswered) -> RunOutcome:
    """What the result of a `POST /run` means (docs/why/how-it-works.md, "What happened to a submission")."""
    if isinstance(result, NotSent):
        return Deferred(FailureClass.TRANSPORT, str(result))
    if isinstance(result, Unanswered):
        return Uncertain(str(result))
    if 200 <= result.status < 300:  # noqa: PLR2004  the range is the definition of success
        return _accepted(result.body)
    return _refused(result)


def _accepted(body: bytes) -> Accepted | Uncertain:
    try:
        remote_id = _run_answer.decode(body).id
    except (ValueError, RecursionError):
        return Uncertain("the service answered without a usable id")
    return Accepted(remote_id) if is_remote_id(remote_id) else Uncertain("the service answered with an unusable id")


def _refused(answer: Answer) -> RunOutcome:
    """The meaning of an answer that is not a 2xx."""
    status = answer.status
    if status == 429:  # noqa: PLR2004
        return Deferred(FailureClass.THROTTLED, "too many requests (429)", answer.retry_after_s)
    if status in (408, 425, 503):
        return Deferred(FailureClass.SERVER, f"the service answered {status}", answer.retry_after_s)
    if status in POINTLESS:
        return Pointless(POINTLESS[status], status)
    if 400 <= status < 500:  # noqa: PLR2004
        return Rejected(f"the service refused the job ({status}{hint_of(answer.body)})")
    return Uncertain(f"the service answered {status}{hint_of(answer.body)}")


def retry_outcome(result: Answer | NotSent | Unanswered, remote_id: str) -> RunOutcome:
    """What the result of a `POST /retry/{remote_id}` means.

    The remote id is known already, so an unanswered `/retry` is not uncertain for long: `/status` decides. A 404 or 410
    means that the service has forgotten the job: `Rejected`, and the caller submits it anew. Any other refusal is
    about a job that it knows, and that may have another state than we were told: `NotRetried`, `/status` tells.
    """
    if isinstance(result, Answer):
        if 200 <= result.status < 300:  # noqa: PLR2004
            return Uncertain(OF_ANOTHER) if is_of_another(result.body, remote_id) else Accepted("")
        if result.status in (400, 404, 405, 409, 410, 413, 422):
            reason = f"the service no longer retries this job ({result.status}{hint_of(result.body)})"
            return Rejected(reason) if result.status in (404, 405, 410) else NotRetried(reason)
    return run_outcome(result)


# --- of a question, and of a cancellation


class Unfinished(msgspec.Struct, frozen=True):
    """Not finished. `known` is False for a status that we do not know: it does not prove that the job lives."""

    status: str
    known: bool
    record: Record


class Terminal(msgspec.Struct, frozen=True):
    """The service has finished with the job; `verdict_of` says how."""

    record: Record


class Gone(msgspec.Struct, frozen=True):
    """The service does not know the job (404)."""


class AskAgain(msgspec.Struct, frozen=True):
    """Nothing learned; the question is safe to repeat."""

    trouble: FailureClass
    reason: str
    retry_after_s: float | None = None


class NoNews(msgspec.Struct, frozen=True):
    """A 2xx answer that says nothing of the job: it cannot be read, has no status, or is about another one."""

    reason: str
    raw: bytes
    """What came."""

    is_torn: bool = False
    """Whether it looks like the record of a job that has finished, damaged on its way: paid for, and not readable."""

    is_of_another: bool = False


StatusOutcome = Unfinished | Terminal | Gone | AskAgain | NoNews | Pointless


def trouble_of(outcome: Uncertain | Deferred | AskAgain | NoNews) -> FailureClass | None:
    """Which trouble a request had; None where nobody knows whether it took effect, or what its answer means."""
    return outcome.trouble if isinstance(outcome, Deferred | AskAgain) else None


def status_outcome(result: Answer | NotSent | Unanswered, remote_id: str) -> StatusOutcome:
    """What the result of a `GET /status/{remote_id}` means."""
    if not isinstance(result, Answer):
        return AskAgain(FailureClass.TRANSPORT, str(result))
    if 200 <= result.status < 300:  # noqa: PLR2004
        return _of_record(read_record(result.body), result.body, remote_id)
    if result.status in (404, 410):
        return Gone()
    if result.status in (401, 403, 407):
        return Pointless(POINTLESS[result.status], result.status)
    if result.status == 429:  # noqa: PLR2004
        return AskAgain(FailureClass.THROTTLED, "too many requests (429)", result.retry_after_s)
    return AskAgain(FailureClass.SERVER, f"the service answered {result.status}", result.retry_after_s)


def cancel_outcome(result: Answer | NotSent | Unanswered, remote_id: str) -> AskAgain | None:
    """What the result of a `POST /cancel/{remote_id}` means: None once nothing more can be done about the job.

    That is every answer that speaks of the job: cancelled, finished already, unknown. Whether a request without an
    answer, or with that of another job, had an effect does not matter, since it is harmless to repeat.
    """
    if not isinstance(result, Answer):
        return AskAgain(FailureClass.TRANSPORT, str(result))
    if result.status == 429:  # noqa: PLR2004
        return AskAgain(FailureClass.THROTTLED, "too many requests (429)", result.retry_after_s)
    if 200 <= result.status < 300 and is_of_another(result.body, remote_id):  # noqa: PLR2004
        return AskAgain(FailureClass.SERVER, OF_ANOTHER)
    if 200 <= result.status < 300 or result.status in (400, 404, 405, 409, 410, 422):  # noqa: PLR2004
        return None
    return AskAgain(FailureClass.SERVER, f"the service answered {result.status}", result.retry_after_s)


def _of_record(record: Record | None, raw: bytes, remote_id: str) -> Unfinished | Terminal | NoNews:
    """What a job record says of the job `remote_id`; `record` is None where `raw` could not be decoded."""
    if record is None:
        is_torn = raw.lstrip().startswith(b"{") and _OF_FINISHED.search(raw) is not None
        return NoNews(NO_RECORD, raw, is_torn)
    if not record.may_be_of(remote_id):
        return NoNews(OF_ANOTHER, raw, is_of_another=True)
    if not record.status:
        return NoNews(NO_RECORD, raw)
    if record.status in TERMINAL_STATUSES:
        return Terminal(record)
    return Unfinished(record.status, record.status in KNOWN_UNFINISHED, record)


# --- of a finished execution


class Verdict(msgspec.Struct, frozen=True):
    """How a finished execution ended: `trouble` is None for a result that counts."""

    trouble: FailureClass | None
    message: str = ""


def verdict_of(record: Record, *, output_required: bool, rejected: str | None = None) -> Verdict:
    """Whether a finished record is a result, and if not, which trouble it is.

    `COMPLETED` without output is a result unless the run requires output: a handler may have nothing to say.
    `rejected` is why the run's validator rejects the output, if it does.
    """
    if record.status == "COMPLETED":
        if output_required and record.output in (None, b"null"):
            rejected = "the output is null" if record.output else "the service said COMPLETED and gave no output"
        return Verdict(None) if rejected is None else Verdict(FailureClass.INVALID_OUTPUT, rejected)
    message = record.error or f"the service said {record.status} and gave no reason"
    match record.status:
        case "TIMED_OUT":
            return Verdict(FailureClass.TIMED_OUT, message)
        case "CANCELLED":
            return Verdict(FailureClass.CANCELLED, record.error or "cancelled at the service")
        case _:
            return Verdict(FailureClass.FAILED, message)
