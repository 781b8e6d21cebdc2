"""What the service says, of a job before all, in an answer or in a webhook: read, bounded, and checked.

The contract shows no answer's shape, so nothing is taken for granted: what is missing or has another type than expected
is as if it were not there, and costs nothing else.
"""

import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar

import msgspec

from orchestrator.core.text.json_compact import compact, with_whole_characters
from orchestrator.units import MILLISECOND_US, MINUTE_US

_REMOTE_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")

MESSAGE_CHARS_MAX: Final = 64 * 1024
"""How much of a foreign text (an error body, a traceback) is kept: all, but of what is no message any more."""

WORKER_CHARS_MAX: Final = 128
"""How much of a worker's id is kept."""

MILLISECONDS_MAX: Final = 8 * 24 * 3_600 * 1_000
"""No job is kept for longer than seven days, in the queue and in execution; so no time beyond eight is one."""

TIME_SLACK_US: Final = MINUTE_US
"""A time may be longer than that since the submission by this much: clocks differ."""


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

    @property
    def has_begun(self) -> bool:
        """Whether a worker had it at any time."""
        return bool(self.execution_ms) or self.worker_id is not None

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
    """The job record in `body`, or None when it cannot be decoded (cut JSON, NaN, absurd nesting).

    A record without a status (the service can answer 200 with a bare error object) has the status "". `token` is of
    the webhook URL that `body` was sent to: a record that echoes another URL is another job's. What a worker wrote with
    half of a character in it is read all the same, with U+FFFD there: it was paid, and would be asked for in vain.
    """
    record = _record_in(body, token)
    if record is None and (whole := with_whole_characters(body)) != body:
        record = _record_in(whole, token)
    return record


def _record_in(body: bytes, token: str | None) -> Record | None:
    try:
        try:
            wire = _wire_record.decode(body)
        except msgspec.ValidationError:
            # Each value is decoded by itself: one that nobody can read (1e400) must not cost the others.
            known, more = known_members(_WireRecord, _members.decode(body))
            wire = _WireRecord(**known if "id" not in more else {**known, "id": ""})  # an id all the same: of nobody
        output = compact(bytes(wire.output)) if wire.output else None
        error = _error_text(bytes(wire.error)) if wire.error else None
    except (ValueError, RecursionError):
        return None
    remote_id = wire.id if isinstance(wire.id, str) and is_remote_id(wire.id) else None
    return Record(
        remote_id=remote_id,
        is_misnamed=(remote_id is None and wire.id is not None) or _echoes_another(wire.webhook, token),
        status=(wire.status or "").replace("\0", "\ufffd"),  # it is looked for, which no database does with a NUL in it
        output=output,
        error=error,
        delay_ms=sane_ms(wire.delay_ms),
        execution_ms=sane_ms(wire.execution_ms),
        worker_id=None if wire.worker_id is None else wire.worker_id[:WORKER_CHARS_MAX],
    )


def _echoes_another(webhook: msgspec.Raw, token: str | None) -> bool:
    """Whether a webhook URL is there without `token`, which JSON has no reason to write in any other way."""
    return token is not None and bytes(webhook) not in (b"", b"null") and token.encode() not in bytes(webhook)


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


def is_of_another(body: bytes, remote_id: str) -> bool:
    """Whether the body of an answer is a record, and not that of the job `remote_id`."""
    record = read_record(body)
    return record is not None and not record.may_be_of(remote_id)


# --- answers of every kind

NOT_JSON: Final = "the answer is not JSON"
NOTHING_MORE: Final[Mapping[str, object]] = MappingProxyType({})

T = TypeVar("T", bound=msgspec.Struct)


def read_json(body: bytes) -> object:
    """The JSON document in `body`. Raises `ValueError` with the reason."""
    if not body.strip():
        raise ValueError("the answer is empty")
    try:
        return _any_json.decode(body)
    except msgspec.ValidationError:
        return _json_with_extremes(body)
    except (ValueError, RecursionError):
        raise ValueError(NOT_JSON) from None


def _json_with_extremes(body: bytes) -> object:
    """Numbers beyond what msgspec holds, 1e999 for one, are JSON all the same."""
    try:
        compact(body)  # the standard library takes NaN and half characters, too
        value: object = json.loads(body)
    except (ValueError, RecursionError):
        raise ValueError(NOT_JSON) from None
    return value


def read_members(body: bytes) -> dict[str, Any]:
    """The JSON object in `body`. Raises `ValueError` with the reason."""
    value = read_json(body)
    if not isinstance(value, dict):
        raise ValueError("the answer is no JSON object")  # noqa: TRY004  its caller expects one kind of trouble
    return value


def read_as(kind: type[T], body: bytes) -> T:
    """The JSON object in `body` as a `kind`: `more` has what is not its own, `raw` all of it. Raises `ValueError`."""
    known, more = known_members(kind, read_members(body))
    return kind(**known, more=more, raw=body)


def known_members(kind: type[T], members: Mapping[str, Any]) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """The fields of a `kind` that are in `members` under the service's names, and everything else.

    What has another type than expected, or cannot be read, is among the rest.
    """
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind) if field.name not in ("more", "raw")}
    known: dict[str, Any] = {}
    more: dict[str, Any] = {}
    for name, value in members.items():
        field = fields.get(name)
        try:
            if field is None:
                more[name] = value
            elif isinstance(value, msgspec.Raw):
                known[field.name] = msgspec.json.decode(value, type=field.type)
            elif isinstance(value, dict) and isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
                inner, beside = known_members(field.type, value)
                known[field.name] = field.type(**inner, more=beside)
            else:
                known[field.name] = msgspec.convert(value, field.type)
        except ValueError:  # text that is not UTF-8 is no `DecodeError`
            more[name] = value
    return known, more
