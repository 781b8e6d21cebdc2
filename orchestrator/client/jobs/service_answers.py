"""What the service says, as values: every answer of the job operations (contract, Endpoints).

The contract shows no answer's shape, so nothing is taken for granted: a field that is missing is None, one that has
another type than expected or that nobody knows is kept in `more`, an unknown status is a text like every other, and
`raw` is the answer as it came, every token untouched. What makes an answer useless raises `ValueError` with the reason.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Final

import msgspec

from orchestrator.client.jobs.refusals import one_line
from orchestrator.core.service.job_record import NOTHING_MORE, known_members, read_as, read_json, read_members
from orchestrator.core.service.outcomes import TERMINAL_STATUSES

_EVENT: Final = b"data:"
_EVENT_ID: Final = b"id:"
_EVENT_STREAM: Final = (_EVENT, b"event:", _EVENT_ID, b"retry:", b":")
"""What a stream of events (text/event-stream) begins with; no JSON document does."""

_EVENTS_END: Final = b"[DONE]"

_IN_HEADER: Final = re.compile(rb"[\x21-\x7e]{1,256}")
"""An event's id that can be sent back in a header."""


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
            inside = read_members(self.error.encode()) if self.error else {}
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


class JsonAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer whose shape is the worker's affair (`/openai/*`) or unknown (`/requests`).

    `value` is the JSON document. Where the answer is a stream of events (`"stream": true` asks for it), it is a tuple
    with the document of each event.
    """

    value: object
    raw: bytes


def read_job(body: bytes) -> JobRecord:
    """The job record in `body`. Raises `ValueError`, also for one without a status."""
    known, more = known_members(JobRecord, read_members(body))
    if not known.get("status"):
        # The service can answer 200 with a bare {"error": ...}: that is no job, and no end of one.
        raise ValueError(f"the answer has no status{f': {one_line(error)}' if (error := known.get('error')) else ''}")
    if (error := more.get("error")) is not None:
        known["error"] = msgspec.json.encode(error).decode()
    return JobRecord(**known, more=more, raw=body)


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
    status = "" if isinstance(read_json(body), list) else read_job(body).status
    try:
        items = msgspec.json.decode(body, type=_Wire).stream if status else msgspec.json.decode(body, type=_ITEMS)
    except msgspec.ValidationError:
        raise ValueError("the answer's stream is no list") from None
    return StreamPart(status=status, chunks=tuple(_chunk(bytes(item)) for item in items))


def _chunk(raw: bytes) -> Chunk:
    item = read_json(raw)
    return read_as(Chunk, raw) if isinstance(item, dict) and "output" in item else Chunk(output=item, raw=raw)


def read_answer(body: bytes) -> JsonAnswer:
    """Any JSON document, or a stream of events. Raises `ValueError`."""
    if body.lstrip().startswith(_EVENT_STREAM):
        return JsonAnswer(value=tuple(read_json(document) for document in _documents(body.splitlines())), raw=body)
    return JsonAnswer(value=read_json(body), raw=body)


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
        """The documents whose lines end in `piece`. What is no JSON is for `read_answer` to say, at the end."""
        for document in _documents(self._lines(piece)):
            with suppress(ValueError):
                yield read_json(document)

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
