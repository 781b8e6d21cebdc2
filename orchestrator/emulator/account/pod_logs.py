"""The log of a pod or a worker: its lines, and which of them somebody asks for (as published).

A line's id is its time and its number. `Last-Event-ID` is exclusive, and takes the place of `tail` and `since`.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec

from orchestrator.emulator.contract.answers import invalid_problem
from orchestrator.emulator.contract.ids_and_times import iso_time
from orchestrator.units import SECOND_US

TAIL_DEFAULT: Final = 100
TAIL_MAX: Final = 5000
"""Also how many lines are kept (our choice)."""

CONTAINER: Final = "container"
SYSTEM: Final = "system"

HEARTBEAT: Final = b":\n\n"
HEARTBEAT_US: Final = 15 * SECOND_US
"""How often a stream in which nothing happens shows that it is there (our choice)."""

EVENT_STREAM: Final = "text/event-stream"


class PodLogLine(msgspec.Struct, frozen=True):
    """One line of a log, at its time (µs)."""

    at: int
    number: int
    source: str
    text: str

    def event(self) -> bytes:
        """The line as it is sent."""
        ts = iso_time(self.at)
        data = msgspec.json.encode({"source": self.source, "line": self.text, "ts": ts})
        return b"id: %b/%012d\ndata: %b\n\n" % (ts.encode(), self.number, data)


class LogSelection(msgspec.Struct, frozen=True, kw_only=True):
    """Which lines are wanted: those behind the number `after`, or else the last `tail` of those `since` then (µs)."""

    tail: int = TAIL_DEFAULT
    since: int | None = None
    source: str | None = None
    after: int | None = None

    def of(self, lines: Sequence[PodLogLine]) -> Sequence[PodLogLine]:
        """Those among `lines`, oldest first."""
        found = [line for line in lines if self.source in (None, line.source)]
        if self.after is not None:
            return [line for line in found if line.number > self.after]
        found = [line for line in found if self.since is None or line.at >= self.since]
        return found[-self.tail :] if self.tail else []


def parse_selection(query: Mapping[str, str], last_id: str | None) -> LogSelection:
    """What a request asks for. Raises Problem 422. An id that is none of ours is no place to go on from."""
    errors = []
    tail, since, source = TAIL_DEFAULT, None, query.get("source")
    if (text := query.get("tail")) is not None:
        tail = int(text) if text.isascii() and text.isdigit() and len(text) < len("1000000") else -1
        if not 0 <= tail <= TAIL_MAX:
            errors.append(f"tail: must be a whole number from 0 to {TAIL_MAX}")
    if (text := query.get("since")) is not None:
        since = _time(text)
        if since is None:
            errors.append("since: must be a date-time")
    if source not in (None, CONTAINER, SYSTEM):
        errors.append(f"source: must be one of {CONTAINER}, {SYSTEM}")
    if errors:
        raise invalid_problem(errors)
    number = (last_id or "").rpartition("/")[2]
    after = int(number) if number.isascii() and number.isdigit() and len(number) <= len("000000000000") else None
    return LogSelection(tail=tail, since=since, source=source, after=after)


def _time(text: str) -> int | None:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if at.tzinfo is None else round(at.timestamp() * SECOND_US)
