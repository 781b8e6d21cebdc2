"""Whatever happened to a request, turned into one of few values.

One function for each operation maps the answer, or the lack of one, to what it means for the job. The HTTP status
decides; bodies are tolerated in every form, since error bodies of the service are documented nowhere. Callers `match`
on the result exhaustively.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from orchestrator.core.text.error_text import told
from orchestrator.core.text.json_compact import compact
from orchestrator.core.text.wording import shortened
from orchestrator.errors import NotSent, Unanswered
from orchestrator.units import MILLISECOND_US, MINUTE_US

_REMOTE_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")

MESSAGE_CHARS_MAX: Final = 64 * 1024
"""How much of a foreign text (an error body, a traceback) is kept: all, but of what is no message any more."""

WORKER_CHARS_MAX: Final = 128
"""How much of a worker's id is kept."""

HINT_CHARS_MAX: Final = 200
"""How much of an error body is shown to people."""

MILLISECONDS_MAX: Final = 8 * 24 * 3_600 * 1_000
"""No job is kept for longer than seven days, in the queue and in execution; so no time beyond eight is one."""

TIME_SLACK_US: Final = MINUTE_US
"""A time may be longer than that since the submission by this much: clocks differ."""


class Trouble(StrEnum):
    """Why an execution or a request came to nothing. These words stand in the errors file."""

    FAILED = "failed"
    TIMED_OUT = "timed_out"
    INVALID_OUTPUT = "invalid_output"
    LOST = "lost"
    UNCERTAIN = "uncertain"
    EXPIRED = "expired"
    REJECTED = "rejected"
    TRANSPORT = "transport"
    THROTTLED = "throttled"
    SERVER = "server"
    CANCELLED = "cancelled"
    STEP = "step"
    """What makes a stage's rows of those of the one before has failed: nothing was sent."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """One HTTP answer, read to its end.

    `sent_at` is taken just before the request was handed to the transport, `answered_at` after the last byte
    (microseconds UTC); `retry_after_s` is the `Retry-After` header in seconds, if one came and made sense.
    """

    status: int
    body: bytes
    sent_at: int
    answered_at: int
    retry_after_s: float | None = None
    headers: Mapping[str, str] = {}
    """Those of the answer, whatever the case of a name; whoever needs one reads it here."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What the service says about a job (`/status`, webhooks), as far as we use it.

    `output` is compact JSON text, tokens as they came; `None` when the key was absent.
    """

    remote_id: str | None
    status: str
    output: bytes | None = None
    error: str | None = None
    delay_ms: int | None = None
    execution_ms: int | None = None
    worker_id: str | None = None
    is_misnamed: bool = False
    """An id was there that can be none of ours, or the webhook URL of another submission: whatever this is about, it is
    not the job that it came for.
    """

    def may_be_of(self, remote_id: str) -> bool:
        """Whether it can be about the job `remote_id`: an id that is there must be the right one."""
        return not self.is_misnamed and self.remote_id in (None, remote_id)


class Failure(msgspec.Struct, frozen=True, array_like=True):
    """What tells one failed execution from another."""

    status: str
    delay_ms: int | None
    execution_ms: int | None
    worker_id: str | None

    def is_of(self, record: Record) -> bool:
        """Whether `record` tells of this execution again: no other has followed. Webhooks do not name the worker."""
        return (
            (self.delay_ms is not None or self.execution_ms is not None)  # else there is nothing to compare
            and (self.status, self.delay_ms, self.execution_ms) == (record.status, record.delay_ms, record.execution_ms)
            and (self.worker_id is None or record.worker_id is None or self.worker_id == record.worker_id)
        )


def failure_of(record: Record) -> Failure:
    """What to remember of a failed execution that a `/retry` is to follow."""
    return Failure(record.status, record.delay_ms, record.execution_ms, record.worker_id)


class _WireRecord(msgspec.Struct, frozen=True):
    id: str | None = None
    status: str | None = None
    output: msgspec.Raw = msgspec.Raw(b"")
    error: msgspec.Raw = msgspec.Raw(b"")
    delay_ms: int | float | None = msgspec.field(default=None, name="delayTime")
    execution_ms: int | float | None = msgspec.field(default=None, name="executionTime")
    worker_id: str | None = msgspec.field(default=None, name="workerId")
    webhook: msgspec.Raw = msgspec.Raw(b"")


_wire_record = msgspec.json.Decoder(_WireRecord)
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_string = msgspec.json.Decoder(str)
_any_json = msgspec.json.Decoder(object)


def is_remote_id(text: object) -> bool:
    """Whether `text` may be used as a remote id: 1-128 letters, digits, `_` and `-`."""
    return isinstance(text, str) and _REMOTE_ID.fullmatch(text) is not None


def read_record(body: bytes, *, token: str | None = None) -> Record | None:
    """The job record in `body`, or None when it cannot be decoded (cut JSON, NaN, lone surrogates, absurd nesting).

    A record without a status (the service can answer 200 with a bare error object) has the status "". `token` is of
    the webhook URL that `body` was sent to: a record that echoes another URL is another job's.
    """
    try:
        try:
            wire = _wire_record.decode(body)
        except msgspec.ValidationError:
            wire = _leniently(_members.decode(body))
        output = compact(bytes(wire.output)) if wire.output else None
        error = _error_text(bytes(wire.error)) if wire.error else None
    except (ValueError, RecursionError):
        return None
    remote_id = wire.id if isinstance(wire.id, str) and is_remote_id(wire.id) else None
    return Record(
        remote_id=remote_id,
        is_misnamed=(remote_id is None and wire.id is not None) or _echoes_another(wire.webhook, token),
        status=wire.status or "",
        output=output,
        error=error,
        delay_ms=sane_ms(wire.delay_ms),
        execution_ms=sane_ms(wire.execution_ms),
        worker_id=None if wire.worker_id is None else wire.worker_id[:WORKER_CHARS_MAX],
    )


def _echoes_another(webhook: msgspec.Raw, token: str | None) -> bool:
    """Whether a webhook URL is there without `token`, which JSON has no reason to write in any other way."""
    return token is not None and bytes(webhook) not in (b"", b"null") and token.encode() not in bytes(webhook)


def _leniently(members: Mapping[str, msgspec.Raw]) -> _WireRecord:
    """What makes sense of a record whose types are not all as expected. An id that does not is still one: of nobody.

    Each value is decoded by itself: one that nobody can read (1e400) must not cost the others.
    """
    nothing = msgspec.Raw(b"")
    remote_id, status, worker_id, delay_ms, execution_ms = (
        _value(members.get(name, nothing)) for name in ("id", "status", "workerId", "delayTime", "executionTime")
    )
    return _WireRecord(
        id=remote_id if remote_id is None or isinstance(remote_id, str) else "",
        status=status if isinstance(status, str) else None,
        output=members.get("output", nothing),
        error=members.get("error", nothing),
        delay_ms=_number(delay_ms),
        execution_ms=_number(execution_ms),
        worker_id=worker_id if isinstance(worker_id, str) else None,
        webhook=members.get("webhook", nothing),
    )


def _value(raw: msgspec.Raw) -> object:
    """What `raw` stands for: None where it was absent or null, an Ellipsis where nobody can say."""
    if not raw:
        return None
    try:
        return _any_json.decode(raw)
    except ValueError:
        return ...


def _number(value: object) -> int | float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def plausible(record: Record, *, within_us: int) -> Record:
    """`record` without the times that are longer than `within_us`, the time since the submission, and some slack.

    They would be believed by all that is planned after them.
    """
    most_ms = (max(within_us, 0) + TIME_SLACK_US) // MILLISECOND_US
    if (record.delay_ms or 0) <= most_ms and (record.execution_ms or 0) <= most_ms:
        return record
    return msgspec.structs.replace(
        record, delay_ms=sane_ms(record.delay_ms, most_ms), execution_ms=sane_ms(record.execution_ms, most_ms)
    )


def sane_ms(value: float | None, most_ms: int = MILLISECONDS_MAX) -> int | None:
    """A time in whole milliseconds, where `value` can be one."""
    return int(value) if value is not None and 0 <= value <= most_ms else None


def _error_text(raw: bytes) -> str | None:
    """The `error` of a record as text: a string as it is, null as none, anything else as compact JSON.

    Only strings are decoded: a number in a traceback that Python cannot hold must not make the record undecodable.
    """
    if raw == b"null":
        return None
    text = _string.decode(raw) if raw.startswith(b'"') else compact(raw).decode()
    return text[:MESSAGE_CHARS_MAX]


# --- /run and /retry -------------------------------------------------------------------------------------------------


class Accepted(msgspec.Struct, frozen=True):
    """The service has the job under this id."""

    remote_id: str


class Deferred(msgspec.Struct, frozen=True):
    """Nothing happened at the service; to be repeated later, at no cost. `retry_after_s` is the service's wish."""

    trouble: Trouble
    reason: str
    retry_after_s: float | None = None


class Rejected(msgspec.Struct, frozen=True):
    """The service will never take this job."""

    reason: str


class Pointless(msgspec.Struct, frozen=True):
    """No job of this run can get through until somebody changes something."""

    reason: str


class Uncertain(msgspec.Struct, frozen=True):
    """The request may have taken effect, and nobody told us. With `is_repeated_id` it gave the id of another job."""

    reason: str
    is_repeated_id: bool = False


class NotRetried(msgspec.Struct, frozen=True):
    """The service knows the job and makes no `/retry` of it: it may be in another state than we were told."""

    reason: str


RunOutcome = Accepted | Deferred | Rejected | Pointless | Uncertain | NotRetried

POINTLESS: Final = {
    401: "the service refused the API key (401)",
    402: "the account's balance does not allow it (402)",
    403: "the API key has no permission for this endpoint (403)",
    404: "the service does not know this endpoint (404)",
    405: "this address takes no such requests (405); is the service URL right?",
    407: "the proxy wants authentication (407)",
    410: "the endpoint is gone (410)",
}
"""The refusals that concern every job of a run, with what to tell the user."""

OF_THE_ADDRESS: Final = frozenset(POINTLESS[status] for status in (404, 405, 410))
"""Of these the address may be to blame: who reads of them has to see it."""


class _RunAnswer(msgspec.Struct, frozen=True):
    id: str


_run_answer = msgspec.json.Decoder(_RunAnswer)


def of_run(result: Answer | NotSent | Unanswered) -> RunOutcome:
    """What the result of a `POST /run` means (docs/why/how-it-works.md, "What happened to a submission")."""
    if isinstance(result, NotSent):
        return Deferred(Trouble.TRANSPORT, str(result))
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
        return Deferred(Trouble.THROTTLED, "too many requests (429)", answer.retry_after_s)
    if status in (408, 425, 503):
        return Deferred(Trouble.SERVER, f"the service answered {status}", answer.retry_after_s)
    if status in POINTLESS:
        return Pointless(POINTLESS[status])
    if 400 <= status < 500:  # noqa: PLR2004
        return Rejected(f"the service refused the job ({status}{_hint(answer.body)})")
    return Uncertain(f"the service answered {status}{_hint(answer.body)}")


def of_retry(result: Answer | NotSent | Unanswered, remote_id: str) -> RunOutcome:
    """What the result of a `POST /retry/{remote_id}` means.

    The remote id is known already, so an unanswered `/retry` is not uncertain for long: `/status` decides. A 404 or 410
    means that the service has forgotten the job: `Rejected`, and the caller submits it anew. Any other refusal is
    about a job that it knows, and that may have another state than we were told: `NotRetried`, `/status` tells.
    """
    if isinstance(result, Answer):
        if 200 <= result.status < 300:  # noqa: PLR2004
            return Uncertain(OF_ANOTHER) if _is_of_another(result, remote_id) else Accepted("")
        if result.status in (400, 404, 405, 409, 410, 413, 422):
            reason = f"the service no longer retries this job ({result.status}{_hint(result.body)})"
            return Rejected(reason) if result.status in (404, 405, 410) else NotRetried(reason)
    return of_run(result)


# --- /status ---------------------------------------------------------------------------------------------------------


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

    trouble: Trouble
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


def trouble_of(outcome: Uncertain | Deferred | AskAgain | NoNews) -> Trouble | None:
    """Which trouble a request had; None where nobody knows whether it took effect, or what its answer means."""
    return outcome.trouble if isinstance(outcome, Deferred | AskAgain) else None


NO_RECORD: Final = "the service answers with what is no job record"
OF_ANOTHER: Final = "the service answers with the record of another job"
TOLD_OF_ANOTHER: Final = "a webhook brings the record of another job"
SAME_ID: Final = "the service gives a new job the id of another"
_OF_FINISHED: Final = re.compile(rb'"output"\s*:|"status"\s*:\s*"(?:COMPLETED|FAILED|TIMED_OUT|CANCELLED)"')

KNOWN_UNFINISHED: Final = frozenset({"IN_QUEUE", "IN_PROGRESS", "RUNNING"})
TERMINAL_STATUSES: Final = frozenset({"COMPLETED", "FAILED", "TIMED_OUT", "CANCELLED"})


def of_status(result: Answer | NotSent | Unanswered, remote_id: str) -> StatusOutcome:
    """What the result of a `GET /status/{remote_id}` means."""
    if not isinstance(result, Answer):
        return AskAgain(Trouble.TRANSPORT, str(result))
    if 200 <= result.status < 300:  # noqa: PLR2004
        return _of_record(read_record(result.body), result.body, remote_id)
    if result.status in (404, 410):
        return Gone()
    if result.status in (401, 403, 407):
        return Pointless(POINTLESS[result.status])
    if result.status == 429:  # noqa: PLR2004
        return AskAgain(Trouble.THROTTLED, "too many requests (429)", result.retry_after_s)
    return AskAgain(Trouble.SERVER, f"the service answered {result.status}", result.retry_after_s)


def of_cancel(result: Answer | NotSent | Unanswered, remote_id: str) -> AskAgain | None:
    """What the result of a `POST /cancel/{remote_id}` means: None once nothing more can be done about the job.

    That is every answer that speaks of the job: cancelled, finished already, unknown. Whether a request without an
    answer, or with that of another job, had an effect does not matter, since it is harmless to repeat.
    """
    if not isinstance(result, Answer):
        return AskAgain(Trouble.TRANSPORT, str(result))
    if result.status == 429:  # noqa: PLR2004
        return AskAgain(Trouble.THROTTLED, "too many requests (429)", result.retry_after_s)
    if 200 <= result.status < 300 and _is_of_another(result, remote_id):  # noqa: PLR2004
        return AskAgain(Trouble.SERVER, OF_ANOTHER)
    if 200 <= result.status < 300 or result.status in (400, 404, 405, 409, 410, 422):  # noqa: PLR2004
        return None
    return AskAgain(Trouble.SERVER, f"the service answered {result.status}", result.retry_after_s)


def _is_of_another(answer: Answer, remote_id: str) -> bool:
    """Whether the answer to a command is a record, and not that of the job `remote_id`."""
    record = read_record(answer.body)
    return record is not None and not record.may_be_of(remote_id)


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


class Verdict(msgspec.Struct, frozen=True):
    """How a finished execution ended: `trouble` is None for a result that counts."""

    trouble: Trouble | None
    message: str = ""


def verdict_of(record: Record, *, output_required: bool, rejected: str | None = None) -> Verdict:
    """Whether a finished record is a result, and if not, which trouble it is.

    `COMPLETED` without output is a result unless the run requires output: a handler may have nothing to say.
    `rejected` is why the run's validator rejects the output, if it does.
    """
    if record.status == "COMPLETED":
        if output_required and record.output in (None, b"null"):
            rejected = "the output is null" if record.output else "the service said COMPLETED and gave no output"
        return Verdict(None) if rejected is None else Verdict(Trouble.INVALID_OUTPUT, rejected)
    message = record.error or f"the service said {record.status} and gave no reason"
    match record.status:
        case "TIMED_OUT":
            return Verdict(Trouble.TIMED_OUT, message)
        case "CANCELLED":
            return Verdict(Trouble.CANCELLED, record.error or "cancelled at the service")
        case _:
            return Verdict(Trouble.FAILED, message)


def _hint(body: bytes) -> str:
    """The beginning of a JSON error body's text, for people; empty for every other body."""
    try:
        value = _any_json.decode(body)
    except (ValueError, RecursionError):
        return ""
    if isinstance(value, dict):
        for key in ("error", "message", "detail"):
            if isinstance(text := value.get(key), str):
                return f": {shortened(told(text), HINT_CHARS_MAX)}"
    return ""
