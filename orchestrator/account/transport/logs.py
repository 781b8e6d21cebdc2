"""What a pod, or a worker, has printed: a stream of server-sent events without an end of its own (as published).

- The service sends the last `tail` lines at once, and then each line as it is printed. Nothing tells where the one ends
  and the other begins, so whoever wants what is there takes as many lines as asked for, and waits `QUIET_S` for each.
- Between lines it sends comments. A stream in which nothing comes for `SILENCE_S` is taken for a dropped one.
- A stream that was cut is asked for once more, behind the last line that came; a line that comes again all the same is
  known by its id, and told once.
"""

import math
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from typing import Final
from urllib.parse import urlencode

import anyio
import msgspec

from orchestrator.account.transport.fallback import RETIRED_STATUSES
from orchestrator.account.transport.rest_client import ProblemError, Rest
from orchestrator.client.http.backends import OK_MAX
from orchestrator.client.jobs.refusals import AnswerError
from orchestrator.client.jobs.retries import REPEAT_S_MIN, may_pass, repeated
from orchestrator.client.jobs.service_answers import EventReader, ServerSentEvent
from orchestrator.errors import NotSent, Unanswered, UsageError, bare
from orchestrator.units import MIB

TAIL_DEFAULT: Final = 100
TAIL_MAX: Final = 5000
"""Lines that the service sends at once, unless told otherwise, and at most (as published)."""

QUIET_S: Final = 3.0
SILENCE_S: Final = 60.0
LASTING_S: Final = 10.0
"""A stream that lasted so long was one, also without a line: the tries are counted anew."""

LINE_BYTES_MAX: Final = MIB

KNOWN_MAX: Final = 2 * TAIL_MAX
"""How many lines are known by their ids. More than a service can send again that goes on nowhere."""

_SOURCE: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class LogLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a log. `source` is `container` for what was printed there and `system` for what was done with it;
    `ts` is when, as the service writes it. What the service did not say is empty.
    """

    id: str = ""
    """Marks the place in the log; it means nothing else."""

    ts: str = ""
    source: str = ""
    line: str


Tell = Callable[[LogLine], None]


class LogQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which lines are wanted. Raises `UsageError`."""

    tail: int
    since: datetime | None
    source: str | None
    follow: bool

    def __post_init__(self) -> None:
        if not 0 <= self.tail <= TAIL_MAX:
            raise UsageError(f"a log's tail is 0 to {TAIL_MAX:,} lines; nothing was sent")
        if not self.tail and not self.follow:
            raise UsageError("a tail of 0 lines is what is yet to come, and that has to be followed; nothing was sent")
        if self.since is not None and self.since.tzinfo is None:
            raise UsageError("the time since when lines are wanted names no zone; nothing was sent")
        if self.source is not None and _SOURCE.fullmatch(self.source) is None:
            raise UsageError(
                f"{self.source[:80]!r} is no source of lines; the service has container and system; nothing was sent"
            )

    def text(self) -> str:
        """The query of the request."""
        asked = {"tail": str(self.tail)}
        if self.since is not None:
            asked["since"] = self.since.astimezone(UTC).isoformat().replace("+00:00", "Z")
        if self.source is not None:
            asked["source"] = self.source
        return urlencode(asked)


IsOver = Callable[[], Awaitable[bool]]


class LogReading:
    """One reading of the log at `path`, which may take several streams: `tell` gets the lines that `query` wants.

    `doing` begins every error.
    """

    def __init__(self, rest: Rest, doing: str, path: str, query: LogQuery, tell: Tell) -> None:
        self._rest = rest
        self._doing = doing
        self._path = f"{path}?{query.text()}"
        self._query = query
        self._tell = tell
        self._known: dict[str, None] = {}
        self._last_id = ""
        self._told = 0
        self._events = EventReader()
        self._was_there = False
        self._opened_s = math.inf
        self._has_helped = False
        """Whether the stream was worth its request, and so the next one may be."""
        self._until = anyio.CancelScope()

    async def read(self, is_over: IsOver) -> None:
        """Reads what is there, or, followed, until it is over. `is_over` is asked whether more will come, where the
        service ends the stream; 404 means no.

        Raises `ProblemError`, `AnswerError`, and `NotSent` or `Unanswered` once no try has helped.
        """
        with self._until:
            while not await repeated(partial(self._listen, is_over), self._rest.sleep):
                await self._rest.sleep(REPEAT_S_MIN)

    async def _listen(self, is_over: IsOver) -> bool:
        """One stream, to its end: whether it was the last. Raises what ended it where it was not worth its request."""
        self._events, self._has_helped = EventReader(), False
        self._opened_s = math.inf
        failure: ProblemError | NotSent | Unanswered | None = None
        try:
            await self._rest.listen(self._doing, self._path, self._coming, silence_s=SILENCE_S, last_id=self._last_id)
            if self._events.unread:
                failure = Unanswered(f"{self._doing}: the stream ended in the middle of a line")
        except (NotSent, Unanswered, ProblemError) as error:
            failure = bare(error)
        if failure is None:
            if not self._query.follow or await _says(is_over):
                return True
            failure = Unanswered(f"{self._doing}: the service ends the stream as soon as it begins")
        else:
            self._until.deadline = math.inf  # until the next one has begun
        if isinstance(failure, ProblemError) and failure.status in RETIRED_STATUSES and self._was_there:
            return True  # it is not there any more, and so is its log
        has_helped = self._has_helped or anyio.current_time() >= self._opened_s + LASTING_S
        if has_helped and may_pass(failure):
            return False
        try:
            raise failure
        finally:
            del failure

    def _coming(self, status: int, piece: bytes) -> None:
        if status > OK_MAX or self._until.cancel_called:
            return
        if not piece:
            self._was_there = True
            self._opened_s = anyio.current_time()
            self._wait_on()
            return
        for event in self._events.whole(piece):
            self._take(event)
            if not self._query.follow and self._told >= self._query.tail:
                self._until.cancel()
                return
        if self._events.unread > LINE_BYTES_MAX:
            raise AnswerError(f"{self._doing}: a line of the log is longer than {LINE_BYTES_MAX:,} bytes")

    def _take(self, event: ServerSentEvent) -> None:
        if event.id:
            if event.id in self._known:
                return
            self._known[event.id] = None
            if len(self._known) > KNOWN_MAX:
                del self._known[next(iter(self._known))]
            self._last_id = event.id
        self._has_helped = True
        if event.data:
            self._wait_on()
            self._told += 1
            self._tell(_line(event.id, self._rest.scrub(event.data)))

    def _wait_on(self) -> None:
        """What is there is there once nothing more comes for a while."""
        if not self._query.follow:
            self._until.deadline = anyio.current_time() + QUIET_S


async def _says(is_over: IsOver) -> bool:
    try:
        return await is_over()
    except ProblemError as error:
        if error.status not in RETIRED_STATUSES:
            raise
        return True


def _line(event_id: str, data: bytes) -> LogLine:
    """The line in an event. What is of another form than published is a line as it is, so that it is seen."""
    try:
        members: object = msgspec.json.decode(data)
    except (ValueError, RecursionError):
        members = None
    fields: dict[str, str] = {}
    if isinstance(members, dict):
        fields = {name: value for name in ("ts", "source", "line") if isinstance(value := members.get(name), str)}
    if "line" not in fields:
        fields = {"line": data.decode("utf-8", "replace")}
    return LogLine(id=event_id, **fields)
