"""Takes the service's webhooks, and refuses wrong tokens: `POST [prefix]/hooks/{submission}.{mac}`.

- The token is checked first, in constant time, before a byte of the body is read. Without a valid one the answer is the
  404 that every other path gets.
- 200 is said only after the sink has made the notice durable, and 503 when it could not: the service then tries
  again (contract, Events). A repeated notice is handed on like the first; the sink knows duplicates.
- Whoever holds a token is heard. A body that is too large, too slow, cut or no job record makes the notice a hint
  (`record` None). The answer is 200 all the same: the collector then asks `/status`, and a repetition brings nothing.
- Few large bodies are read at once, as many as the line brings (`core.limits.transfer_slots`). One that finds no
  place soon is a hint as well: its sender would not wait for long, and a question waits as long as it must.
- The token of a self-test (`core.service.webhook_token`) is answered with what only the holder of the key can say;
  nothing is noted.
- Of a body only the job record is kept; the rest echoes the input and this URL. A record that echoes another URL is
  another job's: only that it came is handed on. Nothing is logged, only counted.
"""

from collections.abc import Callable
from typing import Final

import anyio
import msgspec
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

from orchestrator.client.http.idle_timeout import IdleTimeout, IdleWatch
from orchestrator.client.http.transfer_slots import LARGE_BYTES, TransferSlot, TransferSlots
from orchestrator.clock import Clock
from orchestrator.core.service.job_record import Record, plausible, read_record
from orchestrator.core.service.webhook_token import (
    HOOKS_PATH,
    SELF_TESTS,
    Notice,
    NoticeSink,
    self_test_answer,
    submission_of,
)
from orchestrator.core.text.json_compact import without_mark
from orchestrator.errors import OrchestratorError
from orchestrator.units import MIB
from orchestrator.web.application import empty_response, send_not_found, send_response, send_text
from orchestrator.web.listener_connection import WHOLE_BODY

_NOTED: Final = empty_response(200)
_NOTED_UNREAD: Final = empty_response(200, close=True)
_UNAVAILABLE: Final = empty_response(503)

_OF_ANOTHER: Final = Record(remote_id=None, status="", is_misnamed=True)


class BodyLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What one body, and all bodies that are being read at once, may take."""

    body_bytes: int = 32 * MIB
    body_s: float = 30.0
    """How long nothing of it may come; with `body_bytes_per_s`, how long it may take in all
    (`client.http.idle_timeout`)."""

    body_bytes_per_s: float = 16 * 1024
    place_s: float = 2.0
    """How long a large body waits for its place. Senders give up after some seconds, and what they sent was in vain."""

    bodies_bytes: int = 256 * MIB
    """Keeps the process's memory flat when many large bodies come at once; a body that finds no room makes a hint."""


WAITING_MAX: Final = 4
"""So many large bodies wait for their places at most: those that come then are hints at once."""

DEFAULT_LIMITS: Final = BodyLimits()


class WebhookCounters(msgspec.Struct):
    """Counts since the start, updated in place."""

    received: int = 0
    """Webhooks with a valid token. Of these:"""
    hints: int = 0
    """... came without a usable body;"""
    unavailable: int = 0
    """... could not be made durable, and were answered 503."""
    refused: int = 0
    """Requests to a webhook's path without a valid token or with another method."""


class Webhooks(BaseRoute):
    """The route of all webhooks.

    `key` is the ledger's webhook key, `sink` takes the notices, `prefix` is the path of the webhook base URL ("" or
    `/...`): a proxy in front of us may strip it or not. `scrub` takes secrets out of a body
    before anything of it is kept.
    """

    def __init__(
        self,
        *,
        key: bytes,
        sink: NoticeSink,
        clock: Clock,
        prefix: str = "",
        limits: BodyLimits = DEFAULT_LIMITS,
        scrub: Callable[[bytes], bytes] = bytes,
    ) -> None:
        self.figures = WebhookCounters()
        self._key = key
        self._sink = sink
        self._clock = clock
        self._folders = (HOOKS_PATH, prefix + HOOKS_PATH)
        self._limits = limits
        self._scrub = scrub
        self._bytes_held = 0
        self._watch = IdleWatch(clock, rate_min=limits.body_bytes_per_s)
        self._places = TransferSlots(clock)

    def share(self, places: TransferSlots) -> None:
        """Large bodies take their places among these from now on: what comes by other ways takes the same line."""
        self._places = places

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Matches every path of the form of a webhook URL, whatever its token and method."""
        folder, slash, token = scope["path"].rpartition("/")
        if folder + slash in self._folders:
            return Match.FULL, {"path_params": {"token": token}}
        return Match.NONE, {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request that `matches` took."""
        token: str = scope["path_params"]["token"]
        submission = submission_of(self._key, token) if scope["method"] == "POST" else None
        if submission is None:
            self.figures.refused += 1
            await send_not_found(scope, receive, send)
            return
        if submission in SELF_TESTS:
            await send_text(send, self_test_answer(self._key, submission))
            return
        self.figures.received += 1
        body = await self._body(scope, receive)
        notice = self._notice(submission, token, body)
        try:
            await self._sink.note(notice)
        except OrchestratorError:
            self.figures.unavailable += 1
            await send_response(send, _UNAVAILABLE)
        else:
            await send_response(send, _NOTED_UNREAD if body is None else _NOTED)

    async def _body(self, scope: Scope, receive: Receive) -> bytes | None:
        """The body, or None when it is too large, too slow or cut, or when too many others come."""
        declared = _declared_bytes(scope)
        if declared > self._limits.body_bytes:
            return None
        if declared <= LARGE_BYTES and _is_whole(scope):  # as nearly every one is: it came with its head
            return await self._read(receive, None)
        patience = self._watch.begin(self._limits.body_s)
        download = _Download(self._places, patience)
        try:
            with patience.scope:
                # Before a byte of it is read: what has come of a body that finds no place has come in vain.
                if declared <= LARGE_BYTES or await download.finds_place(declared, within_s=self._limits.place_s):
                    return await self._read(receive, download)
            return None
        finally:
            download.end()
            self._watch.end(patience)

    async def _read(self, receive: Receive, download: "_Download | None") -> bytes | None:
        """`download` is None for a body that has come."""
        chunks: list[bytes] = []
        size = 0
        try:
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return None
                chunk: bytes = message.get("body", b"")
                size += len(chunk)
                self._bytes_held += len(chunk)
                if size > self._limits.body_bytes or self._bytes_held > self._limits.bodies_bytes:
                    return None
                chunks.append(chunk)
                if download is None or not message.get("more_body", False):
                    return b"".join(chunks)
                download.moved(size)
                if size > LARGE_BYTES and not await download.finds_place(size, within_s=self._limits.place_s):
                    return None
        finally:
            self._bytes_held -= size

    def _notice(self, submission: int, token: str, body: bytes | None) -> Notice:
        record = None if body is None else read_record(self._scrub(without_mark(body)), token=token)
        if record is not None and record.is_misnamed:
            record = _OF_ANOTHER
        elif record is not None and not record.status:
            record = None  # it says nothing that /status would not say better
        now = self._clock.now()
        if record is None or record is _OF_ANOTHER:
            self.figures.hints += 1
        else:  # a submission's number is the time of its claim
            record = plausible(record, within_us=now - submission)
        return Notice(submission=submission, received_at=now, record=record)


class _Download:
    """A body on its way, which needs a place on the line if it is large."""

    def __init__(self, places: TransferSlots, patience: IdleTimeout) -> None:
        self._places = places
        self._patience = patience
        self._place: TransferSlot | None = None

    async def finds_place(self, size: int, *, within_s: float) -> bool:
        """Whether a body of `size` bytes has a place, or gets one `within_s`; not where many wait already."""
        if self._place is None and self._places.waiting < WAITING_MAX:
            with anyio.move_on_after(within_s):
                self._place = await self._places.enter(size)
        return self._place is not None

    def moved(self, size: int) -> None:
        """So much of it has come in all."""
        more, self._patience.moved = size - self._patience.moved, size
        if self._place is not None:
            self._place.moved(more)

    def end(self) -> None:
        """Nothing more of it is read."""
        if self._place is not None:
            self._place.leave()


def _declared_bytes(scope: Scope) -> int:
    """The `Content-Length` of the request; 0 where there is none, or none that makes sense."""
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value) if value.isdigit() and len(value) < 19 else 0  # noqa: PLR2004  fits 64 bits
    return 0


def _is_whole(scope: Scope) -> bool:
    """Whether all of the body has come. Only the listener's own connections tell."""
    return WHOLE_BODY in scope.get("state", ())
