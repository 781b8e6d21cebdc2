"""What the service says, as values: every answer of the job operations (contract, Endpoints).

The contract shows no answer's shape, so nothing is taken for granted: a field that is missing is None, one that has
another type than expected or that nobody knows is kept in `more`, an unknown status is a text like every other, and
`raw` is the answer as it came, every token untouched. What makes an answer useless raises `ValueError` with the reason.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final, TypeVar

import msgspec

from orchestrator.client.jobs.refusals import one_line
from orchestrator.core.service.status_outcomes import TERMINAL_STATUSES
from orchestrator.core.text.json_compact import compact

NOTHING_MORE: Final[Mapping[str, object]] = MappingProxyType({})

NOT_JSON: Final = "the answer is not JSON"

_EVENT: Final = b"data:"
_EVENT_ID: Final = b"id:"
_EVENT_STREAM: Final = (_EVENT, b"event:", _EVENT_ID, b"retry:", b":")
"""What a stream of events (text/event-stream) begins with; no JSON document does."""

_EVENTS_END: Final = b"[DONE]"

_IN_HEADER: Final = re.compile(rb"[\x21-\x7e]{1,256}")
"""An event's id that can be sent back in a header."""

T = TypeVar("T", bound=msgspec.Struct)


class JobRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A job as the service sees it: the answer of `/run`, `/runsync`, `/status`, `/cancel` and `/retry`."""

    id: str | None = None
    status: str
    """`IN_QUEUE`, `IN_PROGRESS`, `COMPLETED`, `FAILED`, `CANCELLED`, `TIMED_OUT`, or one that nobody has heard of."""

    output: object = None
    """What the handler returned, or while it runs, its latest progress; None also where there is none."""

    error: str | None = None
    """Why it failed. Of a Python worker it is a JSON document in a text, see `reason`."""

    delay_ms: int | None = msgspec.field(default=None, name="delayTime")
    """How long it waited for a worker."""

    execution_ms: int | None = msgspec.field(default=None, name="executionTime")
    """How long a worker had it."""

    worker_id: str | None = msgspec.field(default=None, name="workerId")
    retries: int | None = None
    """How often the service itself gave it to another worker."""

    more: Mapping[str, object] = NOTHING_MORE
    raw: bytes = b""

    @property
    def finished(self) -> bool:
        """Whether the service has finished with it; an unknown status is not an end."""
        return self.status in TERMINAL_STATUSES

    @property
    def reason(self) -> str | None:
        """Why it failed, in as few words as the service has: the message inside a Python worker's error."""
        try:
            inside = _members(self.error.encode()) if self.error else {}
        except ValueError:
            return self.error
        message = inside.get("error_message")
        return message if isinstance(message, str) and message else self.error


class Chunk(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a stream. `output` is what the handler yielded, `more` what came beside it."""

    output: object = None
    more: Mapping[str, object] = NOTHING_MORE
    raw: bytes = b""


class StreamPart(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of one `/stream`: the chunks since the last such call, and the job's status, "" where it says none."""

    status: str
    chunks: tuple[Chunk, ...] = ()


class Purged(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `/purge-queue`. `removed` counts the jobs that were taken out of the queue."""

    removed: int | None = None
    status: str | None = None
    more: Mapping[str, object] = NOTHING_MORE
    raw: bytes = b""


class JobCounts(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Jobs of an endpoint; None where the service does not say."""

    in_queue: int | None = None
    in_progress: int | None = None
    completed: int | None = None
    failed: int | None = None
    retried: int | None = None
    more: Mapping[str, object] = NOTHING_MORE


class WorkerCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Workers of an endpoint; None where the service does not say."""

    idle: int | None = None
    running: int | None = None
    ready: int | None = None
    initializing: int | None = None
    throttled: int | None = None
    unhealthy: int | None = None
    more: Mapping[str, object] = NOTHING_MORE


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `/health`."""

    jobs: JobCounts = JobCounts()
    workers: WorkerCounts = WorkerCounts()
    more: Mapping[str, object] = NOTHING_MORE
    raw: bytes = b""


class JsonAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer whose shape is the worker's affair (`/openai/*`) or unknown (`/requests`).

    `value` is the JSON document. Where the answer is a stream of events (`"stream": true` asks for it), it is a tuple
    with the document of each event.
    """

    value: object
    raw: bytes


def read_job(body: bytes) -> JobRecord:
    """The job record in `body`. Raises `ValueError`, also for one without a status."""
    members = _members(body)
    if not isinstance(members.get("status"), str) or not members["status"]:
        # The service can answer 200 with a bare {"error": ...}: that is no job, and no end of one.
        error = members.get("error")
        raise ValueError(f"the answer has no status{f': {one_line(error)}' if isinstance(error, str) else ''}")
    known = _known(JobRecord, members)
    if known.get("error") is None and (error := members.get("error")) is not None:
        known["error"] = msgspec.json.encode(error).decode()
    return JobRecord(**known, raw=body)


def read_accepted(body: bytes) -> JobRecord:
    """The record of a job that has just been taken. Raises `ValueError`, also for one without an id."""
    record = read_job(body)
    if not record.id:
        raise ValueError("the answer has no job id")
    return record


_ITEMS = list[msgspec.Raw]


class _Wire(msgspec.Struct, frozen=True):
    stream: _ITEMS = []


def read_stream(body: bytes) -> StreamPart:
    """The answer of a `/stream`: an object, or a bare array of chunks without a status (as documented). Raises
    `ValueError`.
    """
    status = "" if isinstance(_json(body), list) else read_job(body).status
    try:
        items = msgspec.json.decode(body, type=_Wire).stream if status else msgspec.json.decode(body, type=_ITEMS)
    except msgspec.ValidationError:
        raise ValueError("the answer's stream is no list") from None
    return StreamPart(status=status, chunks=tuple(_chunk(bytes(item)) for item in items))


def _chunk(raw: bytes) -> Chunk:
    item = _json(raw)
    if isinstance(item, dict) and "output" in item:
        return Chunk(**_known(Chunk, item), raw=raw)
    return Chunk(output=item, raw=raw)


def read_purged(body: bytes) -> Purged:
    """The answer of a `/purge-queue`. Raises `ValueError`."""
    return Purged(**_known(Purged, _members(body)), raw=body)


def read_health(body: bytes) -> Health:
    """The answer of a `/health`. Raises `ValueError`, also for a bare `{"error": ...}`, which is no news of health."""
    members = _members(body)
    if "error" in members and members.keys().isdisjoint({"jobs", "workers"}):
        raise ValueError("the answer is an error in the place of health")
    return Health(**_known(Health, members), raw=body)


def read_json(body: bytes) -> JsonAnswer:
    """Any JSON document, or a stream of events. Raises `ValueError`."""
    if body.lstrip().startswith(_EVENT_STREAM):
        return JsonAnswer(value=tuple(_json(document) for document in _documents(body.splitlines())), raw=body)
    return JsonAnswer(value=_json(body), raw=body)


class ServerSentEvent(msgspec.Struct, frozen=True):
    """One event of a stream: its data, and the id with which a reader goes on behind it; either may be empty."""

    id: str
    data: bytes


class EventReader:
    """A stream of events, while it comes: its documents, or its events as a whole; one reader asks for one of them."""

    def __init__(self) -> None:
        self._rest = b""
        self._id = b""
        self._data: list[bytes] = []

    @property
    def unread(self) -> int:
        """How many bytes have come of an event that has not ended."""
        return len(self._rest) + len(self._id) + sum(map(len, self._data))

    def of(self, piece: bytes) -> Iterator[object]:
        """The documents whose lines end in `piece`. What is no JSON is for `read_json` to say, at the end."""
        for document in _documents(self._lines(piece)):
            with suppress(ValueError):
                yield _json(document)

    def whole(self, piece: bytes) -> Iterator[ServerSentEvent]:
        """The events that end in `piece`, whatever their data are. Comments are none."""
        for line in self._lines(piece):
            text = line.removesuffix(b"\r")
            if text.startswith(_EVENT):
                self._data.append(text.removeprefix(_EVENT).removeprefix(b" "))
            elif text.startswith(_EVENT_ID):
                self._id = text.removeprefix(_EVENT_ID).strip()
            elif not text and (self._id or self._data):
                known = self._id if _IN_HEADER.fullmatch(self._id) else b""
                event = ServerSentEvent(known.decode("ascii"), b"\n".join(self._data))
                self._id, self._data = b"", []
                yield event

    def _lines(self, piece: bytes) -> Iterable[bytes]:
        *lines, self._rest = (self._rest + piece).split(b"\n")
        return lines


def _documents(lines: Iterable[bytes]) -> Iterator[bytes]:
    for line in lines:
        text = line.removeprefix(_EVENT).strip()
        if line.startswith(_EVENT) and text not in (b"", _EVENTS_END):
            yield text


def _members(body: bytes) -> Mapping[str, object]:
    value = _json(body)
    if not isinstance(value, dict):
        raise ValueError("the answer is no JSON object")  # noqa: TRY004  its caller expects one kind of trouble
    return value


def _json(body: bytes) -> object:
    if not body.strip():
        raise ValueError("the answer is empty")
    try:
        return msgspec.json.decode(body)
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


def _known(kind: type[T], members: Mapping[str, object]) -> dict[str, Any]:
    known, more = known_members(kind, members)
    return {**known, "more": more}


def known_members(kind: type[T], members: Mapping[str, object]) -> tuple[dict[str, Any], Mapping[str, object]]:
    """The fields of a `kind` that are in `members` under the service's names, and everything else."""
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind) if field.name not in ("more", "raw")}
    known: dict[str, Any] = {}
    more: dict[str, object] = {}
    for name, value in members.items():
        field = fields.get(name)
        try:
            if field is None:
                more[name] = value
            elif isinstance(value, dict) and field.type in (JobCounts, WorkerCounts):
                known[field.name] = field.type(**_known(field.type, value))
            else:
                known[field.name] = msgspec.convert(value, field.type)
        except msgspec.ValidationError:
            more[name] = value
    return known, more
